//! The operations on units that the dispatcher requests.

use crate::apply;
use crate::entity::{FilesStep, Service};
use crate::plan::Ensure;
use bstr::BString;
use holo_plugin::{Applied, Entity, EntityReport, FilePair, Host, Mode, Output, Verdict, apply_one};

impl Entity for Service {
    fn report(&self) -> EntityReport {
        match self {
            Service::Unit(unit) => unit.report(),
            Service::Files(FilesStep { id, .. }) => {
                let mut report = EntityReport::new(*id);
                report.edges.unlisted = true;
                report
            }
        }
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        apply_one(self, mode, output, |set, answers| apply::apply(host, set, answers))
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        match self {
            Service::Unit(unit) => unit.check(host, mode, output),
            Service::Files(FilesStep { all, .. }) => match all.changes_of_others(host) {
                Ok(names) if names.is_empty() => Verdict::InDesiredState,
                Ok(names) => Verdict::WouldChange(vec![format!("would {}", apply::reading::words_for(&names))]),
                Err(error) => {
                    output.error(error.to_string());
                    Verdict::Failed
                }
            },
        }
    }

    fn send(&self, host: &Host, names: &[BString], output: &mut Output<'_>) {
        if let Service::Unit(unit) = self
            && unit.wanted.ensure != Some(Ensure::Stopped)
            && names.iter().any(|name| name == "pid")
            && let Some(pid) = unit.all.provider.manager(host).main_pid(&unit.name)
        {
            output.send("pid", pid.to_string());
        }
    }

    fn diff(&self, _: &Host) -> Option<FilePair> {
        None
    }
}
