//! The operations on a scaffold: report, check, apply and compare.

use crate::blame;
use crate::difference;
use crate::entity::Scaffold;
use crate::error::ScaffoldError;
use crate::executor::Executor;
use holo_plugin::{Applied, Entity, EntityReport, FilePair, ForceTo, Host, Mode, Output, Span, Verdict};
use std::path::Path;

impl Entity for Scaffold {
    fn report(&self) -> EntityReport {
        self.to_report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        let executor = self.usable().and_then(|()| Executor::in_set(host, &self.together.shared()));
        let has_begun = || executor.as_ref().is_ok_and(Executor::has_begun);
        let applied = executor.as_ref().map_err(Clone::clone).and_then(|executor| executor.apply(self, mode, output));
        executor.iter().for_each(|executor| warn(executor, output));
        match applied {
            Ok(applied) => applied,
            Err(ScaffoldError::NeedsForce(reason)) => Applied::NeedsForce(ForceTo::Proceed(reason)),
            Err(ScaffoldError::Never(reason)) => {
                output.error(reason);
                if has_begun() { Applied::FAILED } else { Applied::FAILED_UNCHANGED }
            }
        }
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        let executor = self.usable().and_then(|()| Executor::in_set(host, &self.together.shared()));
        let checked = executor.and_then(|executor| {
            let checked = executor.check(self);
            warn(&executor, output);
            checked
        });
        match checked {
            Ok(verdict) => verdict,
            Err(ScaffoldError::NeedsForce(reason)) => Verdict::NeedsForce(ForceTo::Proceed(reason)),
            Err(ScaffoldError::Never(reason)) => {
                output.error(reason);
                Verdict::Failed
            }
        }
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        difference::find(self, host).ok().flatten()
    }

    fn blame(&self, host: &Host, path: Option<&Path>) -> Option<Vec<Span>> {
        blame::blame(self, path?, host).ok().flatten()
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        Executor::open(host).and_then(|executor| executor.preview(self)).ok().flatten()
    }
}

fn warn(executor: &Executor<'_>, output: &mut Output<'_>) {
    executor.take_warnings().iter().for_each(|warning| output.warning(warning));
}
