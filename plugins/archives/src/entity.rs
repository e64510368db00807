//! An archive: its path, what its definition says, and what is remembered of it.

use crate::absent;
use crate::definition::{Archive, Ensure, parent};
use crate::present::Present;
use crate::record::{Record, Store};
use crate::stop::Stop;
use holo_plugin::memory::Remembered;
use holo_plugin::{Applied, Entity, EntityReport, FilePair, Host, Mode, Output, Verdict};
use rustix::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What an ID begins with.
pub(crate) const PREFIX: &str = "archive:";

/// A download, and what was extracted from it.
#[derive(Debug)]
pub(crate) struct ArchiveEntity {
    pub(crate) id: String,
    pub(crate) defined: Defined,
    pub(crate) held: Held,
}

/// What it shall be.
#[derive(Debug)]
pub(crate) enum Defined {
    /// As the definition says; how long an attempt may take.
    As(Box<Archive>, Option<Duration>),
    /// As it was before us: nothing defines it any more.
    Nowhere(Box<Remembered<Record>>),
}

/// The state directory, while this process works in it: of two dispatchers, one may have been killed while its plugin still works.
pub(crate) type Held = Arc<Mutex<Option<OwnedFd>>>;

impl ArchiveEntity {
    fn hold(&self, host: &Host) -> Result<(), Stop> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            *held = Some(holo_plugin::Tree::open(host.state_dir())?.hold()?);
        }
        Ok(())
    }

    fn path(&self) -> &str {
        self.id.strip_prefix(PREFIX).unwrap_or_default()
    }

    fn try_apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Result<Vec<String>, Stop> {
        self.hold(host)?;
        let store = Store::open(host, &self.id)?;
        let report = self.report();
        let removal = absent::Removal { store: &store, id: &self.id, path: self.path(), report: &report };
        let changes = match &self.defined {
            Defined::Nowhere(_) => removal.scrub(mode.force, output)?,
            Defined::As(archive, _) if archive.ensure == Ensure::Absent => removal.remove(mode.force, output)?,
            Defined::As(archive, timeout) => {
                let present =
                    Present { host, store: &store, id: &self.id, archive, timeout: *timeout, report: &report };
                let changes = present.apply(mode.force, output)?;
                store.known.keep();
                return Ok(changes);
            }
        };
        store.known.forget()?;
        Ok(changes)
    }

    fn try_check(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<String>, Stop> {
        let store = Store::open(host, &self.id)?;
        let report = self.report();
        let removal = absent::Removal { store: &store, id: &self.id, path: self.path(), report: &report };
        match &self.defined {
            Defined::Nowhere(_) => removal.would_scrub(output),
            Defined::As(archive, _) if archive.ensure == Ensure::Absent => removal.would_remove(output),
            Defined::As(archive, timeout) => {
                Present { host, store: &store, id: &self.id, archive, timeout: *timeout, report: &report }.check(output)
            }
        }
    }
}

impl Entity for ArchiveEntity {
    fn report(&self) -> EntityReport {
        let archive = match &self.defined {
            Defined::As(archive, _) => archive,
            Defined::Nowhere(remembered) => return remembered.orphan_report(),
        };
        let mut report = EntityReport::new(self.id.as_str());
        let edges = &mut report.edges;
        let asset = |kind: &str, value: &str| holo_plugin::Asset::new(kind, value);
        let provided: Vec<&str> = std::iter::once(archive.path.as_str()).chain(archive.extract_to.as_deref()).collect();
        edges.provides.extend(provided.iter().map(|path| asset("path", path)));
        let file = archive.addresses().first().and_then(crate::address::Address::file);
        let file = file.as_ref().and_then(|file: &PathBuf| file.to_str());
        let parents = provided.iter().filter_map(|path| parent(path));
        let needed = parents.chain(archive.password_file.as_deref()).chain(file);
        for path in needed {
            // What it makes itself it does not wait for.
            let is_own = provided.iter().any(|own| crate::address::is_below(path, own));
            let need = asset("path", path);
            if !is_own && !edges.needs.contains(&need) {
                edges.needs.push(need);
            }
        }
        for (kind, name) in [("user", &archive.owner), ("group", &archive.group)] {
            if let Some(name) = name.as_ref().filter(|name| name.parse::<u32>().is_err()) {
                edges.needs.push(asset(kind, name));
            }
        }
        if archive.ensure == Ensure::Absent {
            report.action = holo_plugin::Action { verb: "Removing".into(), reason: None };
        } else if let Some(address) = archive.addresses().first() {
            report.inform("download", address.to_string());
        }
        if let Some(directory) = &archive.extract_to {
            report.inform("into", directory.as_str());
        }
        report
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        match self.try_apply(host, mode, output) {
            Ok(changes) if changes.is_empty() => Applied::Unchanged,
            Ok(changes) => Applied::Changed(changes),
            Err(Stop::NeedsForce(to)) => Applied::NeedsForce(to),
            Err(Stop::Failed(problem)) => {
                output.error(problem);
                Applied::FAILED
            }
        }
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        match self.try_check(host, output) {
            Ok(changes) if changes.is_empty() => Verdict::InDesiredState,
            Ok(changes) => Verdict::WouldChange(changes),
            Err(Stop::NeedsForce(to)) => Verdict::NeedsForce(to),
            Err(Stop::Failed(problem)) => {
                output.error(problem);
                Verdict::Failed
            }
        }
    }

    fn diff(&self, _: &Host) -> Option<FilePair> {
        None
    }
}
