//! Where entities are worked on: what is opened and found out once for a whole set.

use crate::change::{self, Change, FAILED};
use crate::distribution::Distribution;
use crate::entity::FileEntity;
use crate::layout::Layout;
use crate::recovery::Recovery;
use crate::{provision, scrub};
use holo_plugin::error::Result;
use holo_plugin::{Host, Mode, Output, SetAnswers};
use std::os::fd::OwnedFd;

/// What is opened and found out once for a whole set.
pub(crate) struct Workshop {
    pub(crate) layout: Layout,
    pub(crate) distribution: Distribution,
    recovery: Recovery,
    /// Nobody else works here meanwhile.
    _held: OwnedFd,
}

impl Workshop {
    pub(crate) fn open(host: &Host) -> Result<Workshop> {
        let layout = Layout::open(host)?;
        let held = layout.hold()?;
        let distribution = Distribution::detect(&layout);
        let recovery = Recovery::begin(host, &layout)?;
        Ok(Workshop { layout, distribution, recovery, _held: held })
    }

    pub(crate) fn prepare(&self, place: usize, entity: &FileEntity, mode: Mode, output: &mut Output<'_>) -> Change {
        let mut change = Change::new(place, &entity.path);
        if let Err(error) = self.recovery.settle(entity, &self.layout) {
            output.error(format!("skipping target: {error}"));
            change.outcome(FAILED);
        } else if entity.is_orphan() {
            scrub::prepare(entity, self, output, &mut change);
        } else {
            provision::prepare(entity, mode, self, output, &mut change);
        }
        change
    }

    pub(crate) fn commit(&self, group: Vec<Change>, answers: &mut dyn SetAnswers) {
        if group.is_empty() {
            return;
        }
        let ended = change::commit(group, &self.layout, |place, say| say(&mut answers.output(place)));
        for (place, applied) in ended {
            answers.end(place, applied);
        }
    }

    pub(crate) fn close(&self) {
        self.layout.remove_staging_folder();
    }
}
