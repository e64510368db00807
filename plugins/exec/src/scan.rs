//! The scan for commands.

use crate::definition;
use crate::entity::ExecEntity;
use holo_plugin::declared::Declared;
use holo_plugin::definitions::{self, Defined};
use holo_plugin::{Host, Output, Plugin, ScanError};

/// The plugin `exec`.
pub(crate) struct Exec;

impl Plugin for Exec {
    type Entity = Declared<ExecEntity>;

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Declared<ExecEntity>>, ScanError> {
        // A command that was run leaves nothing to be put back, so there are no orphans.
        let definitions = definitions::read::<definition::Exec>(host, output);
        let entity = |(id, Defined { definition, common }): (String, Defined<definition::Exec>)| {
            Declared::new(ExecEntity { id, exec: definition, timeout: common.keys.timeout }, common)
        };
        Ok(definitions.valid.into_iter().map(entity).collect())
    }
}
