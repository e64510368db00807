//! The operations on packages that the dispatcher requests.

use crate::check::{Finding, changes};
use crate::entity::PackageEntity;
use crate::model::Kind;
use crate::transaction;
use crate::wanted::VERSION;
use bstr::BString;
use holo_plugin::{Applied, Entity, EntityReport, FilePair, Host, Mode, Output, Verdict, apply_one};

/// The version shown for a package that was installed by the mock manager.
const MOCK: &str = "MOCK";

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

    fn send(&self, _: &Host, names: &[BString], output: &mut Output<'_>) {
        if let Some(version) = self.shared.version(&self.wanted.id) {
            send_version(&version, names, output);
        }
    }

    /// Sends the version that a check expects to be installed.
    fn foresee(&self, host: &Host, names: &[BString], output: &mut Output<'_>) {
        let Some(Finding::Pending(task)) = self.shared.finding(&self.wanted.id, host, output) else { return };
        match (task.kind, task.item.version) {
            (Some(Kind::Install), Some(version)) => send_version(&version, names, output),
            (None, _) => self.send(host, names, output),
            _ => {}
        }
    }

    fn diff(&self, _: &Host) -> Option<FilePair> {
        None
    }
}

/// Sends the version of a package if it was requested.
fn send_version(version: &str, names: &[BString], output: &mut Output<'_>) {
    if names.iter().any(|name| name == VERSION) {
        output.send(VERSION, if version.is_empty() { MOCK } else { version });
    }
}
