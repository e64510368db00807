//! The plugin: which scaffolds there are.

use crate::definition::ScaffoldDefinition;
use crate::entity::{PREFIX, Scaffold};
use crate::record::Record;
use holo_plugin::declared::Declared;
use holo_plugin::definitions::Definitions;
use holo_plugin::memory::{Memory, Remembered};
use holo_plugin::tracked::State;
use holo_plugin::{Host, Output, Plugin, ScanError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The plugin `scaffold`.
pub(crate) struct Scaffolds;

impl Plugin for Scaffolds {
    type Entity = Declared<Scaffold>;

    const CONCURRENT: bool = true;

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Declared<Scaffold>>, ScanError> {
        let definitions = Definitions::<ScaffoldDefinition>::read(host, output);
        let known = match Memory::open(host).and_then(|memory| memory.all::<Record>(output)) {
            Ok(known) => known,
            Err(error) => {
                output.error(error.to_string());
                BTreeMap::new()
            }
        };
        let target = |id: &String| id.strip_prefix(PREFIX).map(PathBuf::from);
        // Those whose definition is broken have their files all the same.
        let targets: BTreeSet<PathBuf> = definitions.valid.keys().chain(known.keys()).filter_map(target).collect();
        let orphans: Vec<Remembered<Record>> =
            known.into_values().filter(|remembered| definitions.is_orphan(&remembered.id)).collect();
        let mut scaffolds = Vec::new();
        for defined in definitions.valid.into_values() {
            let file = defined.common.sources.first().cloned().unwrap_or_default();
            let mut scaffold = Scaffold::new(defined.definition, file, defined.common.keys.timeout, host);
            let inside =
                targets.iter().filter(|other| other.starts_with(&scaffold.target) && **other != scaffold.target);
            scaffold.others = inside.cloned().collect();
            scaffolds.push(Declared::new(scaffold, defined.common));
        }
        for remembered in orphans {
            let Some(target) = target(&remembered.id) else { continue };
            let mut report = remembered.orphan_report();
            let was_absent = remembered.base.tracks().get(&target).is_some_and(|track| track.base == State::Absent);
            let key = if was_absent { "delete" } else { "restore" };
            report.inform(key, host.below_root(&target).display().to_string());
            scaffolds.push(Declared::orphan(Scaffold::orphan(target, report)));
        }
        Ok(scaffolds)
    }
}
