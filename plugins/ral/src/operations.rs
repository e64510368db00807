//! The operations on resources that the dispatcher requests.

use crate::apply;
use crate::diff;
use crate::entity::ResourceEntity;
use crate::item::Item;
use holo_bridge::shown;
use holo_plugin::{Applied, Entity, EntityReport, FilePair, Host, Mode, Output, Verdict, apply_one};

impl Entity for ResourceEntity {
    fn report(&self) -> EntityReport {
        let mut report = self.own_report();
        let provider = match &self.provider {
            Some(name) => format!("{}::{name}", self.kind),
            None => self.kind.clone(),
        };
        report.inform("provider", provider);
        shown::inform(&mut report, &self.attributes, &self.sensitive);
        report
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        apply_one(self, mode, output, |set, answers| apply::apply(host, set, answers))
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        if !self.is_mocked(host) {
            return Item::new(0, self, mode.force).check(host, output);
        }
        match self.context.mocks.is_known(host, &self.id, &self.digest()) {
            Ok(true) => Verdict::InDesiredState,
            Ok(false) => Verdict::WouldChange(vec![format!("would ask a provider of type {}", self.kind)]),
            Err(error) => {
                output.error(error);
                Verdict::Failed
            }
        }
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        if self.is_mocked(host) { None } else { diff::files(self, host) }
    }
}
