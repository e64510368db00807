//! The operations on packages that the dispatcher asks for.

use crate::check::{Finding, changes};
use crate::entity::PackageEntity;
use crate::transaction;
use holo_plugin::{Applied, Entity, EntityReport, FilePair, Host, Mode, Output, Verdict, apply_one};

impl Entity for PackageEntity {
    fn report(&self) -> EntityReport {
        self.full_report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        apply_one(self, mode, output, |set, answers| transaction::apply(host, set, answers))
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        if let Err(error) = &self.provider {
            output.error(error.to_string());
            return Verdict::Failed;
        }
        match self.shared.finding(&self.wanted.id, host, output) {
            Some(Finding::Verdict(verdict)) => verdict,
            Some(Finding::Pending(task)) => Verdict::WouldChange(match &self.provider {
                Ok(provider) => {
                    let names = self.shared.names(*provider);
                    changes(host, *provider, &names, &task, self.shared.tells_others())
                }
                Err(_) => Vec::new(),
            }),
            Some(Finding::Failed(problem)) => {
                problem.tell(output);
                Verdict::Failed
            }
            None => Verdict::Unknown,
        }
    }

    fn diff(&self, _: &Host) -> Option<FilePair> {
        None
    }
}
