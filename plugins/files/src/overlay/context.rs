//! Data that is opened or computed once for a whole set.

use crate::overlay::layout::Layout;
use crate::overlay::scan;
use crate::overlay::stock::Distribution;
use holo_change::error::Result;
use holo_change::image_store::Recovery;
use holo_plugin::{Host, Output, Silence};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Data that is shared by the entities of a set.
pub(crate) struct Context<'a> {
    pub(crate) host: &'a Host,
    pub(crate) layout: Layout,
    pub(crate) distribution: Distribution,
    pub(super) recovery: Recovery,
    pub(super) threads: usize,
    /// True if a process could write to a base that could not be copied.
    has_shared_bases: bool,
    /// The lock on the state directory, unless the set is only checked.
    _held: Option<OwnedFd>,
}

impl<'a> Context<'a> {
    pub(crate) fn open(host: &'a Host) -> Result<Context<'a>> {
        let layout = Layout::open(host)?;
        let held = layout.images.hold()?;
        let recovery = Recovery::begin(&layout.images, host.locations(), || targets(host))?;
        Ok(Context { _held: Some(held), ..Context::new(host, layout, recovery) })
    }

    /// Opens the context for a check, which neither recovers nor changes anything.
    pub(crate) fn open_to_look(host: &'a Host) -> Result<Context<'a>> {
        let layout = Layout::open(host)?;
        let recovery = Recovery::look(&layout.images)?;
        Ok(Context::new(host, layout, recovery))
    }

    fn new(host: &'a Host, layout: Layout, recovery: Recovery) -> Context<'a> {
        let distribution = Distribution::of(host.system().os_release());
        let threads = host.jobs();
        let layout = if recovery.was_needed() { layout } else { layout.with_threads(threads) };
        Context { host, threads, layout, distribution, recovery, has_shared_bases: false, _held: None }
    }

    /// Returns true if changes may be committed while others are prepared. After a killed apply they must be sequential, because the same
    /// directory may be created for one entity and removed for another.
    pub(crate) fn commits_in_background(&self) -> bool {
        self.threads > 1 && !self.recovery.was_needed()
    }

    /// Replaces bases of these targets that are original files and may still be written to by copies.
    pub(crate) fn separate_bases(&mut self, targets: &mut Vec<PathBuf>) {
        self.has_shared_bases |= !self.layout.images.separate_open_bases(targets);
        targets.clear();
    }

    pub(crate) fn close(&self) {
        // As long as the directory exists, the next apply checks whether a recovery is needed.
        let images = &self.layout.images;
        let is_in_order = !self.recovery.was_needed() || !images.has_records_without_base(self.host.locations());
        if !self.has_shared_bases && is_in_order {
            self.layout.images.remove_staging_folder();
        }
    }
}

/// Returns the paths of all targets. Errors are left to the apply that follows.
fn targets(host: &Host) -> Vec<PathBuf> {
    let entities = scan::all(host, &mut Output::new(&mut Silence)).unwrap_or_default();
    entities.into_iter().map(|entity| entity.path).collect()
}
