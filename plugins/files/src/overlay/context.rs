//! The context of work on entities: opened and found out once for a whole set.

use crate::overlay::distribution::Distribution;
use crate::overlay::layout::Layout;
use crate::overlay::record;
use crate::overlay::scan;
use holo_change::UnchangedRecord;
use holo_change::error::Result;
use holo_change::image_store::Recovery;
use holo_plugin::{Host, Output, Silence};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// The context that is opened and found out once for a whole set.
pub(crate) struct Context<'a> {
    pub(crate) host: &'a Host,
    pub(crate) layout: Layout,
    pub(crate) distribution: Distribution,
    pub(crate) record: UnchangedRecord,
    pub(super) recovery: Recovery,
    pub(super) threads: usize,
    /// There are bases that some process can write to, and that could not be copied.
    has_shared_bases: bool,
    /// The lock on the state directory, if something may be changed.
    _held: Option<OwnedFd>,
}

impl<'a> Context<'a> {
    pub(crate) fn open(host: &'a Host, records: bool) -> Result<Context<'a>> {
        let layout = Layout::open(host)?;
        let held = layout.images.hold()?;
        let recovery = Recovery::begin(&layout.images, host.locations(), || targets(host))?;
        Ok(Context { _held: Some(held), ..Context::new(host, layout, recovery, records) })
    }

    /// Opens it for looking alone: nothing is put in order, and nothing may be changed.
    pub(crate) fn open_to_look(host: &'a Host, records: bool) -> Result<Context<'a>> {
        let layout = Layout::open(host)?;
        let recovery = Recovery::look(&layout.images)?;
        Ok(Context::new(host, layout, recovery, records))
    }

    fn new(host: &'a Host, layout: Layout, recovery: Recovery, records: bool) -> Context<'a> {
        let distribution = Distribution::of(host.system().os_release());
        let mut record = if records { record::open(host, &layout) } else { UnchangedRecord::none() };
        if recovery.was_needed() {
            record.distrust();
        }
        let threads = host.jobs();
        let layout = if recovery.was_needed() { layout } else { layout.with_threads(threads) };
        Context { host, threads, layout, distribution, record, recovery, has_shared_bases: false, _held: None }
    }

    /// Returns true if changes may be committed while others are prepared. After a killed apply, one is done after the other: the same
    /// folders may be made for one entity and removed for another.
    pub(crate) fn commits_in_background(&self) -> bool {
        self.threads > 1 && !self.recovery.was_needed()
    }

    /// Replaces the bases of these targets, which were their own files, by copies if others can write to them.
    pub(crate) fn separate_bases(&mut self, targets: &mut Vec<PathBuf>) {
        self.has_shared_bases |= !self.layout.images.separate_open_bases(targets);
        targets.clear();
    }

    pub(crate) fn close(&self) {
        record::keep(&self.record, &self.layout);
        // While the folder is there, the next apply looks what is to be put in order.
        let images = &self.layout.images;
        let is_in_order = !self.recovery.was_needed() || !images.has_records_without_base(self.host.locations());
        if !self.has_shared_bases && is_in_order {
            self.layout.images.remove_staging_folder();
        }
    }
}

/// Returns the paths of all targets. The apply that follows says what there is to say.
fn targets(host: &Host) -> Vec<PathBuf> {
    let entities = scan::all(host, &mut Output::new(&mut Silence)).unwrap_or_default();
    entities.into_iter().map(|entity| entity.path).collect()
}
