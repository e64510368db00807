//! The plugin: which archives there are.

use crate::definition::Archive;
use crate::entity::{ArchiveEntity, Defined, Held};
use crate::record::Record;
use holo_plugin::declared::Declared;
use holo_plugin::definitions::Definitions;
use holo_plugin::memory::Memory;
use holo_plugin::{Host, Output, Plugin, ScanError};

/// The plugin `archives`.
#[derive(Default)]
pub(crate) struct Archives {
    held: Held,
}

impl Plugin for Archives {
    type Entity = Declared<ArchiveEntity>;

    const CONCURRENT: bool = true;

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Self::Entity>, ScanError> {
        let definitions = Definitions::<Archive>::read(host, output);
        let entity = |id, defined| ArchiveEntity { id, defined, held: Held::clone(&self.held) };
        let mut entities = Vec::new();
        match Memory::open(host) {
            Ok(memory) => {
                for remembered in memory.orphans::<Record, Archive>(&definitions, output) {
                    let id = remembered.id.clone();
                    entities.push(Declared::orphan(entity(id, Defined::Nowhere(Box::new(remembered)))));
                }
            }
            Err(error) => output.error(error.to_string()),
        }
        for (id, defined) in definitions.valid {
            let timeout = defined.common.keys.timeout;
            let as_defined = Defined::As(Box::new(defined.definition), timeout);
            entities.push(Declared::new(entity(id, as_defined), defined.common));
        }
        Ok(entities)
    }
}
