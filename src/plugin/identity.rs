//! The context in which a plugin is asked for something: what it has said of itself, its directories, and what it is told about the run.

use super::handshake::Handshake;
use super::process::Channel;
use crate::cache;
use crate::memory;
use holo_protocol::API_VERSION_4;
use holo_protocol::environment as names;
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The context of every invocation of a plugin.
#[derive(Debug)]
pub(super) struct Identity {
    /// What it has said of itself.
    pub(super) handshake: Handshake,
    /// The directories that it is given.
    pub(super) directories: Directories,
    /// What it is told about the run; no more entities at a time than it can take.
    pub(super) options: RunOptions,
}

/// The options of a run on all plugins alike.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// True if they are to read everything, whatever they know from earlier runs.
    pub verify: bool,
    /// True if a person reads what they print, so that they may say what to do about an error.
    pub hints: bool,
    /// True if it is shown what a person has changed in entities.
    pub differences: bool,
    /// True if our memory is given back at once, which plugins need not do that are about to end.
    pub gives_memory_back: bool,
    /// True if they may write nothing but in their cache directories.
    pub read_only: bool,
    /// True if they should keep what files were that they replace.
    pub keeps_replaced: bool,
    /// The number of entities that each may work on at a time.
    pub jobs: NonZeroU32,
    /// True if there is room for the sessions of all of them at the same time.
    pub room_for_all: bool,
    /// The time limit of each operation.
    pub limit: Option<Duration>,
}

/// The directories that a plugin is given.
#[derive(Clone, Debug)]
pub struct Directories {
    /// The root of the system, as the user gave it.
    pub root: PathBuf,
    /// The directory of its resource files.
    pub resources: PathBuf,
    /// The directory of the administrator's resource files, if there is one that the plugin itself is to read.
    pub own_resources: Option<PathBuf>,
    /// The directory of the inputs of an earlier run, if they are used.
    pub inputs: Option<PathBuf>,
    /// The directory that it keeps for later runs.
    pub state: PathBuf,
    /// The directory that it keeps for this run.
    pub cache: PathBuf,
}

impl Directories {
    /// Returns all directories of resource files, the strongest first.
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

    /// Returns the version of the interface that both sides speak.
    pub(super) fn api_version(&self) -> u32 {
        self.handshake.api_version
    }

    /// Returns the variables that the plugin's environment has beyond ours.
    pub(super) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let Directories { root, resources, state, cache: own_cache, .. } = &self.directories;
        let RunOptions { verify, hints, differences, read_only, keeps_replaced, jobs, .. } = self.options;
        let mut environment = vec![
            (names::API_VERSION, self.api_version().to_string().into()),
            (names::ROOT_DIR, root.into()),
            (names::RESOURCE_DIR, resources.into()),
            (names::STATE_DIR, state.into()),
            (names::CACHE_DIR, own_cache.into()),
            // Said in both cases, as this may run below a plugin that was told the other.
            (names::READ_ONLY, if read_only { "1" } else { "0" }.into()),
        ];
        if self.api_version() >= API_VERSION_4 {
            environment.push((names::JOBS, jobs.to_string().into()));
            environment.push((names::RESOURCE_DIRS, names::join_directories(self.directories.resource_dirs())));
            // Said in both cases, as this may run below a plugin that was told another.
            let inputs = self.directories.inputs.as_ref().map(OsString::from).unwrap_or_default();
            environment.push((names::INPUTS_DIR, inputs));
            let kept = own_cache.parent().filter(|_| self.directories.inputs.is_some());
            let kept = kept.map(|run| run.join(cache::KEPT).into()).unwrap_or_default();
            environment.push((names::KEPT, kept));
            environment.extend(own_cache.parent().map(|run| (names::VALUES, run.join(cache::VALUES).into())));
            // All plugins' cache directories are in that of the run.
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

    /// Returns the same for a process that lives as long as ours, and waits: what ours has been told about memory holds for it, too.
    pub(super) fn environment_of_watch(&self) -> Vec<(&'static str, OsString)> {
        let mut environment = self.environment();
        environment.retain(|(name, _)| *name != memory::VARIABLE);
        environment
    }

    /// Returns the advice about a plugin that has left a process behind that holds one of its pipes.
    pub(super) fn held_open(&self, channel: Channel) -> String {
        let what = match channel {
            Channel::Stdout => "standard output",
            Channel::Stderr => "standard error",
            Channel::Extra => "file descriptor 3",
        };
        let program = self.program().display();
        format!(
            "{program} has left a process behind that holds its {what} open; what that may still say is not waited for"
        )
    }
}
