//! The environment of a plugin: its directories and the root directory.

use crate::accounts::Accounts;
use crate::copies::Copies;
use crate::kept::Kept;
use holo_change::{Locations, join};
use holo_definitions::{ReceivedFile, ResourceDirs};
use holo_facts::{Knowledge, Renderer};
use holo_protocol::OnEdit;
use holo_protocol::environment as names;
use holo_system::{System, offline};
use rustix::fs::FlockOperation;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::num::NonZero;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::thread;

/// The environment of a plugin.
#[derive(Clone, Debug)]
pub struct Host {
    locations: Locations,
    resources: ResourceDirs,
    api_version: u32,
    verifies: bool,
    gives_hints: bool,
    shows_differences: bool,
    only_reads: bool,
    on_edit: OnEdit,
    is_offline: bool,
    /// The copies of replaced files, if requested. Shared between clones.
    pub(crate) replaced: Option<Arc<Copies>>,
    sent: Arc<ReceivedFile>,
    kept: Option<PathBuf>,
    jobs: Option<NonZero<usize>>,
    knowledge: Knowledge,
    system: Arc<System>,
    accounts: Arc<Accounts>,
}

/// A required environment variable is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not set; a plugin is called by holo, not by hand")]
pub struct MissingVariableError(&'static str);

impl Host {
    /// Reads the environment variables.
    ///
    /// # Errors
    /// If a variable is missing.
    pub fn from_environment(variable: impl Fn(&str) -> Option<OsString>) -> Result<Host, MissingVariableError> {
        let directory = |name: &'static str| variable(name).map(PathBuf::from).ok_or(MissingVariableError(name));
        let version = variable(names::API_VERSION);
        let root = clean(&variable(names::ROOT_DIR).filter(|root| !root.is_empty()).map_or("/".into(), PathBuf::from));
        let cache_dir = directory(names::CACHE_DIR)?;
        // The dispatcher of version 3 has no file that is shared by all plugins. In that case, the processes of this
        // plugin share one.
        let facts = variable(names::FACTS).map_or_else(|| cache_dir.join("facts.json"), PathBuf::from);
        let api_version = version.and_then(|text| text.to_str()?.parse().ok()).unwrap_or(holo_protocol::API_VERSION_3);
        let is_version_4 = api_version >= holo_protocol::API_VERSION_4;
        let only = ResourceDirs::from(directory(names::RESOURCE_DIR)?);
        // A dispatcher of version 3 may run below one of version 4, and inherit its variables.
        let several = variable(names::RESOURCE_DIRS).filter(|_| is_version_4);
        let several = several.and_then(|value| ResourceDirs::new(names::split_directories(&value)));
        let inputs = variable(names::INPUTS_DIR).filter(|_| is_version_4);
        let inputs = inputs.filter(|inputs| !inputs.is_empty());
        let has_inputs = inputs.is_some();
        let only_reads = variable(names::READ_ONLY).is_some_and(|value| value == "1");
        let locations = if only_reads { Locations::read_only } else { Locations::new };
        let inputs = inputs.map_or_else(|| root.clone(), PathBuf::from);
        Ok(Host {
            knowledge: Knowledge::with_inputs(&root, &inputs, Some(&facts)),
            system: Arc::new(System::new(&root)),
            accounts: Arc::new(Accounts::of(&root)),
            resources: several.unwrap_or(only),
            locations: locations(root, directory(names::STATE_DIR)?, cache_dir),
            api_version,
            verifies: variable(names::VERIFY).is_some_and(|value| value == "1"),
            shows_differences: variable(names::DIFFERENCES).is_none_or(|value| value != "0"),
            gives_hints: variable(names::HINTS).is_some_and(|value| value == "1"),
            replaced: variable(names::KEEP_REPLACED).filter(|value| value == "1").map(|_| Arc::default()),
            only_reads,
            on_edit: variable(names::ON_EDIT)
                .filter(|_| is_version_4)
                .and_then(|value| value.to_str()?.parse().ok())
                .unwrap_or_default(),
            is_offline: offline::says_offline(variable(offline::OFFLINE)),
            sent: Arc::new(ReceivedFile::at(variable(names::VALUES).filter(|_| is_version_4).map(PathBuf::from))),
            kept: variable(names::KEPT).filter(|path| has_inputs && !path.is_empty()).map(PathBuf::from),
            jobs: variable(names::JOBS).and_then(|text| text.to_str()?.parse().ok()),
        })
    }

    /// Returns the root directory and the plugin's own directories, for modules that change files.
    #[must_use]
    pub fn locations(&self) -> &Locations {
        &self.locations
    }

    /// Returns the root directory of the managed system, lexically normalised.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.locations.root()
    }

    /// Returns a path below the root directory, as displayed to the user.
    #[must_use]
    pub fn below_root(&self, path: &Path) -> PathBuf {
        join(self.root(), path)
    }

    /// Returns true if the root directory is not `/`. In test mode, daemons are not contacted.
    #[must_use]
    pub fn test_mode(&self) -> bool {
        self.root() != Path::new("/")
    }

    /// Returns true if the managed system is not running, such as that of an image which is being built: its files can be changed, but
    /// nothing can be started or reloaded in it. This is independent of test mode.
    #[must_use]
    pub fn is_offline(&self) -> bool {
        self.is_offline
    }

    /// Returns the resource directories.
    #[must_use]
    pub fn resources(&self) -> &ResourceDirs {
        &self.resources
    }

    /// Replaces the resource directories from the environment.
    pub(crate) fn set_resources(&mut self, directories: Vec<PathBuf>) {
        self.resources = ResourceDirs::new(directories).unwrap_or_else(|| self.resources.clone());
    }

    /// Returns the directory for persistent state.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        self.locations.state_dir()
    }

    /// Returns the directory for temporary files of this run.
    #[must_use]
    pub fn cache_dir(&self) -> &Path {
        self.locations.cache_dir()
    }

    /// Returns the selected version of the plugin interface.
    #[must_use]
    pub fn api_version(&self) -> u32 {
        self.api_version
    }

    /// Returns true if results of earlier runs must not be used, so that all files must be read.
    #[must_use]
    pub fn verifies(&self) -> bool {
        self.verifies
    }

    /// Returns true if the user's changes of an entity may be displayed.
    #[must_use]
    pub fn shows_differences(&self) -> bool {
        self.shows_differences
    }

    /// Returns true if stderr is read by a person, so that warnings may explain how to resolve an error. Otherwise
    /// stderr may be read by scripts, which expect the output of version 3.
    #[must_use]
    pub fn gives_hints(&self) -> bool {
        self.gives_hints
    }

    /// Returns true if the run is read-only: files may only be written in the cache directory. False under a dispatcher
    /// of version 3, which does not provide this information.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        self.only_reads
    }

    /// Returns the policy for entities that a person has changed, if their definitions have none.
    pub(crate) fn on_edit(&self) -> OnEdit {
        self.on_edit
    }

    /// Reads the values that entities have kept for a state. Empty unless the run restores an earlier state.
    #[must_use]
    pub fn kept(&self) -> Kept {
        self.kept.as_deref().map(Kept::read).unwrap_or_default()
    }

    /// Returns the values that entities have sent.
    #[must_use]
    pub fn sent(&self) -> &ReceivedFile {
        &self.sent
    }

    /// Returns facts and data, which are determined on first use.
    #[must_use]
    pub fn knowledge(&self) -> &Knowledge {
        &self.knowledge
    }

    /// Returns the renderer for templates and conditions over facts and data.
    #[must_use]
    pub fn templates(&self) -> Renderer {
        self.knowledge.renderer()
    }

    /// Returns the distribution and its package manager, which are determined on first use.
    #[must_use]
    pub fn system(&self) -> &System {
        &self.system
    }

    /// Returns the users and groups.
    #[must_use]
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Marks work as uninterruptible until the returned guard is dropped. A dispatcher of version 4 that is told to
    /// terminate waits for it.
    #[must_use]
    pub fn uninterrupted(&self) -> Uninterrupted {
        let open = || {
            fs::create_dir_all(self.cache_dir())?;
            let file = File::create(self.cache_dir().join(names::UNINTERRUPTED))?;
            rustix::fs::flock(&file, FlockOperation::LockShared)?;
            io::Result::Ok(file)
        };
        // Without the lock, this process may be killed. Programs that it allows to finish continue nevertheless.
        Uninterrupted(open().ok())
    }

    /// Returns the number of entities that may be processed concurrently: the user's setting, or the number of
    /// processors.
    #[must_use]
    pub fn jobs(&self) -> usize {
        self.jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZero::get)
    }
}

/// A guard during work that must not be interrupted.
#[derive(Debug)]
pub struct Uninterrupted(#[expect(dead_code, reason = "it is held open for its lock")] Option<File>);

/// Normalises a path lexically: removes `.` as well as repeated and trailing slashes. `..` is left to the system,
/// because its meaning depends on symlinks.
fn clean(path: &Path) -> PathBuf {
    let cleaned: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
    if cleaned.as_os_str().is_empty() { PathBuf::from(".") } else { cleaned }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(root: &str) -> Host {
        Host::from_environment(|name| Some(if name == names::ROOT_DIR { root.into() } else { "x".into() })).unwrap()
    }

    #[test]
    fn paths_are_shown_below_the_root_as_given() {
        let shown = |root: &str| host(root).below_root(Path::new("/etc/motd"));
        assert_eq!(shown("./target/"), Path::new("target/etc/motd"));
        assert_eq!(shown("/"), Path::new("/etc/motd"));
        assert_eq!(shown("./"), Path::new("etc/motd"));
        assert_eq!(shown(""), Path::new("/etc/motd"));
        assert!(host("./target").test_mode() && !host("/").test_mode() && !host("//").test_mode());
    }

    #[test]
    fn verifies_where_it_is_told_so() {
        let verifies = |value: &'static str| {
            let variable = |name: &str| (name != names::VERIFY || !value.is_empty()).then(|| value.into());
            Host::from_environment(variable).unwrap().verifies()
        };
        assert!(verifies("1") && !verifies("0") && !verifies(""));
    }

    #[test]
    fn only_reads_if_it_is_told_so() {
        let only_reads = |value: Option<&'static str>| {
            let variable = |name: &str| if name == names::READ_ONLY { value.map(Into::into) } else { Some("x".into()) };
            Host::from_environment(variable).unwrap().only_reads()
        };
        assert!(only_reads(Some("1")) && !only_reads(Some("0")) && !only_reads(None));
    }

    #[test]
    fn names_the_variable_that_is_missing() {
        let error = Host::from_environment(|name| (name != names::STATE_DIR).then(|| "x".into())).unwrap_err();
        assert!(error.to_string().starts_with("HOLO_STATE_DIR is not set"), "{error}");
    }
}
