//! The plugin: its entities, and what can be done with them.

use crate::apply;
use crate::entity::AccountEntity;
use crate::error::AccountError;
use crate::{check, diff, migration, preview, scan};
use bstr::BStr;
use holo_plugin::declared::Declared;
use holo_plugin::{
    Applied, Entity, EntityReport, FilePair, Host, Mode, Output, Plugin, ScanError, Sink, Stream, Verdict,
};

/// The plugin `users-groups`.
pub(crate) struct UsersGroups;

impl Plugin for UsersGroups {
    type Entity = Declared<AccountEntity>;

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Self::Entity>, ScanError> {
        migration::migrate(host, output);
        scan::all(host, output)
    }

    fn find(&self, host: &Host, id: &BStr, _: &mut Output<'_>) -> Result<Option<Self::Entity>, ScanError> {
        // The scan has reported the errors in definitions.
        let entities = scan::all(host, &mut Output::new(&mut Nowhere))?;
        Ok(entities.into_iter().find(|declared| id == declared.entity.id.to_string()))
    }
}

impl Entity for AccountEntity {
    fn report(&self) -> EntityReport {
        self.to_report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        apply::apply(self, host, mode.force, output)
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        check::check(self, host, output)
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        diff::diff(self, host).map_err(|AccountError(_)| ()).ok()
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        preview::preview(self, host).map_err(|AccountError(_)| ()).ok().flatten()
    }
}

struct Nowhere;

impl Sink for Nowhere {
    fn write(&mut self, _: Stream, _: &[u8]) {}
}
