//! The plugin's operations.

use crate::apply;
use crate::entity::AccountEntity;
use crate::error::AccountError;
use crate::{adoption, check, diff, migration, preview, providers, scan, send};
use bstr::{BStr, BString};
use holo_plugin::declared::Declared;
use holo_plugin::{
    Adopted, Adoption, Applied, Candidate, Diagnosis, Entity, EntityReport, FilePair, Host, Level, Mode, Output,
    Plugin, ScanError, Silence, Verdict, missing_programs,
};

/// The plugin `users-groups`.
pub(crate) struct UsersGroups;

impl Plugin for UsersGroups {
    type Entity = Declared<AccountEntity>;

    const ADOPTS: bool = true;

    const SENDS: &'static [&'static str] = send::SENDS;

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Self::Entity>, ScanError> {
        migration::migrate(host, output);
        scan::all(host, output)
    }

    fn doctor(&self, host: &Host, _: &mut Output<'_>) -> Vec<Diagnosis> {
        let missing = missing_programs(host, providers::for_host(host).programs(), "account management");
        let fine = || Diagnosis::new(Level::Ok, "all tools for accounts are installed", "");
        vec![missing.unwrap_or_else(fine)]
    }

    fn find(&self, host: &Host, id: &BStr, output: &mut Output<'_>) -> Result<Option<Self::Entity>, ScanError> {
        // The scan has already reported errors in definitions.
        let entities = scan::all(host, &mut Output::new(&mut Silence))?;
        let found = entities.into_iter().find(|declared| id == declared.entity.id.to_string());
        if found.is_none() {
            // Print the errors of this scan: a value that was received since then may have caused one.
            scan::all(host, output)?;
        }
        Ok(found)
    }

    fn candidates(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Candidate>, ScanError> {
        let entities = scan::all(host, &mut Output::new(&mut Silence))?;
        let defined = entities.iter().filter(|declared| declared.entity.definition.is_some());
        let defined = defined.map(|declared| declared.entity.id.clone()).collect();
        adoption::candidates(host, &defined).map_err(|error| {
            output.error(error.to_string());
            ScanError
        })
    }

    fn adopt(&self, host: &Host, adoption: Adoption<'_>, output: &mut Output<'_>) -> Adopted {
        let entity = self.find(host, adoption.id, output).ok().flatten();
        let defined = entity.and_then(|entity| Adopted::defined_already(&entity, host, output));
        defined.unwrap_or_else(|| adoption::adopt(host, &adoption.id.to_string(), output))
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

    fn send(&self, host: &Host, names: &[BString], output: &mut Output<'_>) {
        send::send(self, host, names, output);
    }

    fn foresee(&self, host: &Host, names: &[BString], output: &mut Output<'_>) {
        send::foresee(self, host, names, output);
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        diff::diff(self, host).map_err(|AccountError(_)| ()).ok()
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        preview::preview(self, host).map_err(|AccountError(_)| ()).ok().flatten()
    }
}
