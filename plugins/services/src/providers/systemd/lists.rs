//! The states of many units from systemd's lists.
//!
//! For `systemctl show`, systemd collects every property of each unit, and searches all directories to determine how it
//! is enabled: this takes 4 ms for each loaded unit, and more for a unit that must be loaded first. Listing the units
//! in memory takes as long as showing a single one.

use super::tool::{Tool, output_of, said};
use super::words::UnitFileState;
use super::{files, show};
use crate::providers::{ManagerError, Subject};
use crate::state::{Enablement, Load, Phase, UnitState};
use crate::unit::UnitName;
use show::Listed;
use std::collections::HashMap;

/// Returns the states of those units for which the lists contain all required aspects.
///
/// # Errors
/// If systemd cannot list them.
pub(super) fn states(
    subjects: &[Subject<'_>],
    is_remembered: impl Fn(&Subject<'_>) -> bool,
) -> Result<Vec<Option<UnitState>>, ManagerError> {
    let options = ["list-units", "--all", "--full", "--plain", "--no-legend"];
    let listed = show::parse_list(&output_of(&Tool::default().systemctl(&options, &[]))?);
    let state = |subject: &Subject<'_>| state(subject, listed.get(subject.unit.as_str()), is_remembered(subject));
    let mut states: Vec<Option<UnitState>> = subjects.iter().map(state).collect();
    let needs_enablement =
        |(state, subject): (&Option<UnitState>, &Subject<'_>)| state.is_some() && subject.aspects.enablement;
    let names = states.iter().zip(subjects).filter(|pair| needs_enablement(*pair)).map(|(_, subject)| subject.unit);
    let enablements = enablements(&names.collect::<Vec<_>>())?;
    for (state, subject) in states.iter_mut().zip(subjects).filter(|(_, subject)| subject.aspects.enablement) {
        let enablement = enablements.get(subject.unit.as_str());
        *state = state.take().zip(enablement).map(|(state, &enablement)| UnitState { enablement, ..state });
    }
    Ok(states)
}

/// Returns the state of a unit that is running, or that is not loaded. Only regular files in well-known directories are
/// considered, because systemd's own load time then determines whether they have changed.
fn state(subject: &Subject<'_>, listed: Option<&Listed>, is_remembered: bool) -> Option<UnitState> {
    let aspects = subject.aspects;
    if aspects.time {
        return None;
    }
    let phase = match listed {
        Some(listed) => (listed.load == Load::Loaded && listed.phase == Phase::Up).then_some(Phase::Up)?,
        None if is_remembered || aspects.loading => return None,
        None => Phase::Down,
    };
    let file = (!aspects.reloading).then(|| files::plain_file(subject.unit)).flatten()?;
    Some(UnitState {
        phase: Some(phase),
        load: Load::Loaded,
        starts_unseen: (phase == Phase::Down || aspects.starting) && files::starts_unseen(subject.unit, &file),
        is_brief: true,
        words: listed.map_or_else(|| "inactive (dead)".to_owned(), |listed| listed.words.clone()),
        ..UnitState::default()
    })
}

/// Returns the enablement of those units whose files systemd lists.
fn enablements(units: &[&UnitName]) -> Result<HashMap<String, Enablement>, ManagerError> {
    if units.is_empty() {
        return Ok(HashMap::new());
    }
    let text = said(&Tool::default().systemctl(&["list-unit-files", "--full", "--no-legend"], units).output()?)?;
    // Unknown words of newer versions are left to `systemctl show`.
    Ok(UnitFileState::parse_list(&text)
        .filter_map(|(name, state)| Some((name.to_owned(), state.ok()?.meaning)))
        .collect())
}
