//! The operations on repositories that the dispatcher requests.

use super::entity::RepositoryEntity;
use super::inspection::{Inspection, RepositoryError};
use super::{executor, preview};
use holo_plugin::{Applied, Entity, EntityReport, FilePair, ForceTo, Host, Mode, Output, Verdict, apply_one};

impl Entity for RepositoryEntity {
    fn report(&self) -> EntityReport {
        self.full_report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        apply_one(self, mode, output, |set, answers| executor::apply(host, set, answers))
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        match Inspection::open(host).and_then(|inspection| inspection.check(self)) {
            Ok(verdict) => verdict,
            Err(RepositoryError::Meanwhile) => Verdict::NeedsForce(ForceTo::Overwrite),
            Err(RepositoryError::Failed(problem)) => {
                problem.tell(output);
                Verdict::Failed
            }
        }
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        Inspection::open(host).ok()?.difference(self)
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        preview::preview(self, &Inspection::open(host).ok()?).ok().flatten()
    }
}
