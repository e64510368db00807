//! The trait for plugins, and the diagnoses that all plugins have in common.

use crate::{Adopted, Adoption, Entity, Host, Job, Level, Output, SetAnswers, Verdict, concurrently};
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::{Candidate, Diagnosis, ScanLimit, WatchLine, Witness};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A plugin, which lists its entities.
pub trait Plugin: Sync {
    /// The type of its entities.
    type Entity: Entity + Sync + 'static;

    /// True if several entities of a set may be processed concurrently. Otherwise `info` announces this, and they are
    /// applied one by one in the order of the plan.
    const CONCURRENT: bool = false;

    /// True if it implements [`Plugin::candidates`] and [`Plugin::adopt`].
    const ADOPTS: bool = false;

    /// True if a change of one of its entities may undo another one, such as a package that replaces another. Those that a run has
    /// found or brought into their desired state are checked again at its end.
    const INTERFERES: bool = false;

    /// True if a scan limited to other plugins' entities leaves out those that own assets, and one limited to
    /// [owners](ScanLimit::Owners) lists them. This only pays off if [`Plugin::scan_limited`] finds them without reading all
    /// definitions.
    const FINDS_OWNERS: bool = false;

    /// True if it implements [`Plugin::watch`].
    const WATCHES: bool = false;

    /// The values that its entities can send, each as `TYPE#NAME`.
    const SENDS: &'static [&'static str] = &[];

    /// Shell patterns of the resource files that it reads, relative to the resource directory, so that others can be
    /// reported. A pattern after `x:` only matches executable files. Files that a definition next to them mentions are
    /// never reported. Empty if the plugin cannot tell.
    const READS: &'static [&'static str] = &[];

    /// Lists all entities, in any order. Errors in single definitions are printed to `output`, and the other entities
    /// are listed.
    ///
    /// # Errors
    /// If no entities can be listed; the error has been printed.
    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Self::Entity>, ScanError>;

    /// Returns the files on which the list of entities rests, besides the inputs of the run and the plugin's records. The
    /// dispatcher does not scan again until one of them changes. `None` if the list rests on something else.
    fn scan_witnesses(&self, _: &Host) -> Option<Vec<Witness>> {
        None
    }

    /// Lists at least those entities that a limited scan [wants](ScanLimit::wanted). A plugin that may have many
    /// entities should not read all of them.
    ///
    /// # Errors
    /// Those of [`Plugin::scan`].
    fn scan_limited(
        &self,
        host: &Host,
        _: ScanLimit<'_>,
        output: &mut Output<'_>,
    ) -> Result<Vec<Self::Entity>, ScanError> {
        self.scan(host, output)
    }

    /// Finds one entity. A plugin should avoid listing all entities, because version 3 starts a process for each
    /// entity.
    ///
    /// # Errors
    /// Those of [`Plugin::scan`].
    fn find(&self, host: &Host, id: &BStr, output: &mut Output<'_>) -> Result<Option<Self::Entity>, ScanError> {
        Ok(self.scan(host, output)?.into_iter().find(|entity| entity.report().id == id))
    }

    /// Finds entities again whose definitions have changed since they were listed, because received values have
    /// changed.
    fn find_again(&self, host: &Host, ids: &[BString], output: &mut Output<'_>) -> Vec<Self::Entity> {
        let found = if let [id] = ids {
            self.find(host, id.as_bstr(), output).map(Vec::from_iter)
        } else {
            self.scan(host, output)
        };
        let mut found = found.unwrap_or_default();
        found.retain(|entity| ids.contains(&entity.report().id));
        found
    }

    /// Applies independent entities, in any order or together.
    fn apply_set(&self, host: &Host, set: &[Job<'_, Self::Entity>], answers: &mut dyn SetAnswers) {
        concurrently::apply(host, set, threads::<Self>(host), answers);
    }

    /// Checks the effect of applying entities, without making changes.
    fn check_set(&self, host: &Host, set: &[Job<'_, Self::Entity>], answers: &mut dyn SetAnswers<Verdict>) {
        concurrently::check(host, set, threads::<Self>(host), answers);
    }

    /// Returns problems, or confirmations, that are specific to the plugin, and are visible neither when its entities
    /// are applied nor when they are listed. The system is not changed.
    fn doctor(&self, _: &Host, _: &mut Output<'_>) -> Vec<Diagnosis> {
        Vec::new()
    }

    /// Reports events of entities until the receiver is gone, or watching is no longer possible. `tell` sends one
    /// event, and returns false if that failed; the first event announces that the plugin is watching. Changes of the
    /// paths that the entities name (`WATCH`) need not be reported. Returns false on failure, after the error was
    /// printed to `output`.
    fn watch(&self, _: &Host, _: &mut Output<'_>, _tell: &mut dyn FnMut(&WatchLine) -> bool) -> bool {
        true
    }

    /// Lists changes that a user made to this system without resource files, which [`Plugin::adopt`] can turn into
    /// resource files, and changes that it cannot or should not turn into any ([`Candidate::excluded`]). `include`
    /// contains directories that the user wants to have searched in addition to the usual ones. The system is not
    /// changed.
    ///
    /// # Errors
    /// If no candidates can be listed; the error has been printed.
    fn candidates(&self, _: &Host, _include: &[PathBuf], _: &mut Output<'_>) -> Result<Vec<Candidate>, ScanError> {
        Ok(Vec::new())
    }

    /// Turns the current state of an entity into resource files, so that applying them has no effect. Only the
    /// directory in the request is modified.
    fn adopt(&self, _: &Host, _: Adoption<'_>, _: &mut Output<'_>) -> Adopted {
        Adopted::Unknown
    }

    /// Ends the plugin: all requests have been answered, and the process is about to exit. Background processes of the
    /// plugin must end now, within the two seconds that the dispatcher waits.
    fn end(&self, _: &Host) {}
}

/// Returns the number of entities that a plugin may process concurrently.
fn threads<P: Plugin + ?Sized>(host: &Host) -> usize {
    if P::CONCURRENT { host.jobs() } else { 1 }
}

/// No entities could be listed; the error has been printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanError;

/// The suffixes of temporary files, which exist until a change is recorded.
const UNFINISHED: [&str; 3] = [".holonew", ".new", ".staged"];
/// The maximum depth of temporary files in the state directory.
const DEPTH: usize = 3;

/// Returns the problems of the state and definitions that any plugin may have.
pub(crate) fn common(host: &Host) -> Vec<Diagnosis> {
    interrupted(host).into_iter().chain(exposed(host)).collect()
}

/// Returns a diagnosis for missing programs that `what` needs; `None` in test mode, which runs no programs.
#[must_use]
pub fn missing_programs(host: &Host, programs: &[&str], what: &str) -> Option<Diagnosis> {
    let missing = |program: &&&str| crate::process::find(program).is_none();
    let missing: Vec<&str> = programs.iter().filter(missing).copied().collect();
    (!host.test_mode() && !missing.is_empty()).then(|| {
        let title = format!("not found in $PATH: {}", missing.join(", "));
        Diagnosis::new(Level::Error, title, format!("install the package that provides it, because {what} requires it"))
    })
}

/// Finds files left behind by an apply that was interrupted during a change.
fn interrupted(host: &Host) -> Option<Diagnosis> {
    let unfinished = first_unfinished(host.state_dir(), DEPTH)?;
    let title = format!("{} was left behind by an unfinished change", unfinished.display());
    Some(Diagnosis::new(Level::Warning, title, "the next apply recovers it"))
}

fn first_unfinished(folder: &Path, depth: usize) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    entries.sort();
    entries.into_iter().find_map(|path| {
        // These directories contain copies of system files, which may have any name.
        let is_copies = matches!(path.file_name().and_then(OsStr::to_str), Some("base" | "provisioned" | "bases"));
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        if UNFINISHED.iter().any(|end| name.ends_with(end.as_bytes())) {
            return Some(path);
        }
        let is_folder = !is_copies && depth > 0 && path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        if is_folder { first_unfinished(&path, depth - 1) } else { None }
    })
}

/// Finds world-readable files with sensitive values.
fn exposed(host: &Host) -> impl Iterator<Item = Diagnosis> {
    crate::definitions::exposed_files(host.resources()).into_iter().map(|path| {
        let path = path.display();
        let title = format!("{path} contains sensitive definitions, and is world-readable");
        Diagnosis::new(Level::Warning, title, format!("chmod o-r {path}"))
    })
}
