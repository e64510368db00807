//! The context of calls to a plugin: its handshake, its directories, and the options of the run.

use super::handshake::Handshake;
use super::process::Channel;
use crate::host::{cache, memory};
use holo_protocol::{API_VERSION_4, OnEdit, environment as names};
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The context of every call to a plugin.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    /// Its answer to the handshake.
    pub(super) handshake: Handshake,
    /// Its directories.
    pub(super) directories: Directories,
    /// The options of the run, with the number of jobs limited to what the plugin supports.
    pub(super) options: RunOptions,
}

/// The options of a run, which apply to all plugins.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Whether they must read everything and ignore their records of unchanged files.
    pub verify: bool,
    /// Whether a person reads their output, so that they may add hints to errors.
    pub hints: bool,
    /// Whether manual changes to entities are shown as differences.
    pub differences: bool,
    /// Whether our process returns freed memory at once. Short-lived plugins need not do the same.
    pub gives_memory_back: bool,
    /// Whether they may write only to their cache directories.
    pub read_only: bool,
    /// Whether they should keep copies of replaced files.
    pub keeps_replaced: bool,
    /// What they do with entities that a person has changed, unless the definitions say something else.
    pub on_edit: OnEdit,
    /// The number of entities that each may work on concurrently.
    pub jobs: NonZeroU32,
    /// Whether there are enough file descriptors for the sessions of all plugins.
    pub room_for_all: bool,
    /// Whether they report the witnesses of their answers, if they can.
    pub remembers: bool,
    /// Whether they report the parts of entities, if they can.
    pub watches: bool,
    /// The timeout of each operation.
    pub limit: Option<Duration>,
    /// The maximum output of each operation, in bytes.
    pub max_output: u64,
}

/// The directories of a plugin.
#[derive(Clone, Debug)]
pub struct Directories {
    /// The root of the system, as given by the user.
    pub root: PathBuf,
    /// The directory of its resource files.
    pub resources: PathBuf,
    /// The directory of the administrator's resource files, if there is one that the plugin reads itself.
    pub own_resources: Option<PathBuf>,
    /// The directory of the inputs of an earlier run, if they are in use.
    pub inputs: Option<PathBuf>,
    /// Its persistent state directory.
    pub state: PathBuf,
    /// Its cache directory for this run.
    pub cache: PathBuf,
}

impl Directories {
    /// Returns all directories of resource files, highest precedence first.
    pub(super) fn resource_dirs(&self) -> impl Iterator<Item = &Path> {
        self.own_resources.as_deref().into_iter().chain([&*self.resources])
    }
}

impl Identity {
    pub(super) fn new(handshake: Handshake, directories: Directories, options: RunOptions) -> Identity {
        let most = handshake.info.concurrency.and_then(NonZeroU32::new);
        let jobs = most.map_or(options.jobs, |most| most.min(options.jobs));
        Identity { handshake, directories, options: RunOptions { jobs, ..options } }
    }

    /// Returns its program.
    pub(super) fn program(&self) -> &Path {
        &self.handshake.program
    }

    /// Returns the negotiated version of the interface.
    pub(super) fn api_version(&self) -> u32 {
        self.handshake.api_version
    }

    /// Returns true if requests ask for the witnesses of the answers.
    pub(super) fn remembers(&self) -> bool {
        self.options.remembers && self.handshake.info.witnesses
    }

    /// Returns true if requests ask for the parts of entities.
    pub(super) fn watches(&self) -> bool {
        self.options.watches && self.handshake.info.parts
    }

    /// Returns the variables that are added to the plugin's environment.
    pub(super) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let Directories { root, resources, state, cache: own_cache, .. } = &self.directories;
        let RunOptions { verify, hints, differences, read_only, keeps_replaced, on_edit, jobs, .. } = self.options;
        let mut environment = vec![
            (names::API_VERSION, self.api_version().to_string().into()),
            (names::ROOT_DIR, root.into()),
            (names::RESOURCE_DIR, resources.into()),
            (names::STATE_DIR, state.into()),
            (names::CACHE_DIR, own_cache.into()),
            // Always set, because our caller may be a plugin with the other value.
            (names::READ_ONLY, if read_only { "1" } else { "0" }.into()),
        ];
        if holo_system::is_offline() {
            // The tools of systemd, also in the scripts of packages, then only change files.
            environment.push(("SYSTEMD_OFFLINE", "1".into()));
        }
        if self.api_version() >= API_VERSION_4 {
            // Always set, because our caller may be a plugin with another value.
            environment.push((names::ON_EDIT, on_edit.to_string().into()));
            environment.push((names::JOBS, jobs.to_string().into()));
            environment.push((names::RESOURCE_DIRS, names::join_directories(self.directories.resource_dirs())));
            // Always set, because our caller may be a plugin with another value.
            let inputs = self.directories.inputs.as_ref().map(OsString::from).unwrap_or_default();
            environment.push((names::INPUTS_DIR, inputs));
            let kept = own_cache.parent().filter(|_| self.directories.inputs.is_some());
            let kept = kept.map(|run| run.join(cache::KEPT).into()).unwrap_or_default();
            environment.push((names::KEPT, kept));
            environment.extend(own_cache.parent().map(|run| (names::VALUES, run.join(cache::VALUES).into())));
            // The cache directories of all plugins are in that of the run.
            environment.extend(own_cache.parent().map(|run| (names::FACTS, run.join(cache::FACTS).into())));
        }
        if !differences {
            environment.push((names::DIFFERENCES, "0".into()));
        }
        if keeps_replaced {
            environment.push((names::KEEP_REPLACED, "1".into()));
        }
        if verify {
            environment.push((names::VERIFY, "1".into()));
        }
        if hints {
            environment.push((names::HINTS, "1".into()));
        }
        if self.options.gives_memory_back {
            environment.push((memory::VARIABLE, OsString::new()));
        }
        environment
    }

    /// Like [`environment`](Self::environment), but for a process that lives and mostly waits as long as ours, to which
    /// our memory settings apply, too.
    pub(super) fn environment_of_watch(&self) -> Vec<(&'static str, OsString)> {
        let mut environment = self.environment();
        environment.retain(|(name, _)| *name != memory::VARIABLE);
        environment
    }

    /// Returns the advice about a process that a plugin has left behind and that holds one of its pipes open.
    pub(super) fn held_open(&self, channel: Channel) -> String {
        let what = match channel {
            Channel::Stdout => "standard output",
            Channel::Stderr => "standard error",
            Channel::Extra => "file descriptor 3",
        };
        let program = self.program().display();
        format!("{program} has left a process behind that holds its {what} open; its further output is ignored")
    }
}
