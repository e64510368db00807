//! Reports events of managed units.

use crate::entity::Service;
use crate::provider::UnitEvent;
use crate::providers;
use holo_plugin::declared::Declared;
use holo_plugin::{Host, Output, Touched, WatchLine};
use std::collections::HashMap;

/// Reports events of these entities' units until the output is closed. Returns false on an error.
pub(crate) fn watch(
    host: &Host,
    entities: &[Declared<Service>],
    output: &mut Output<'_>,
    tell: &mut dyn FnMut(&WatchLine) -> bool,
) -> bool {
    let mut ids: HashMap<&str, Vec<&str>> = HashMap::new();
    for declared in entities {
        // Only the system manager's events are received.
        if let Service::Unit(unit) = &declared.entity
            && unit.name.scope().is_system()
        {
            ids.entry(unit.name.as_str()).or_default().push(&unit.id);
        }
    }
    let touched = |id: &str, words: &str| WatchLine::Touched(Touched { id: id.into(), reason: words.into() });
    let listened = providers::for_host(host).listen(host, &mut |event| match event {
        UnitEvent::Listening => tell(&WatchLine::Listening),
        UnitEvent::State { unit, words } => ids.get(unit).into_iter().flatten().all(|id| tell(&touched(id, words))),
        UnitEvent::Any { words } => ids.values().flatten().all(|id| tell(&touched(id, words))),
    });
    listened.map_err(|error| output.error(error.to_string())).is_ok()
}
