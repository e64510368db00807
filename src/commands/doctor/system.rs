//! The checks of the machine: clocks and file systems, interrupted runs, the lock, permissions, and the state database.

use super::{Check, Findings, HIDDEN, Scene, shown};
use crate::discovery::trust::{self, Inspector};
use crate::history::{History, RunResult, RunState};
use crate::host::cache;
use crate::host::lock::{self, State};
use crate::report::RemarkKind;
use bstr::ByteSlice;
use rustix::fs::statfs;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};
use walkdir::{DirEntry, WalkDir};

pub(super) const CLOCK: Check =
    Check { name: "clock", fine: "file timestamps reliably show changes", needs_plugins: false, look: check_clock };

/// Tolerated difference between the clocks of machines that share a file system.
const TOLERATED: Duration = Duration::from_secs(60);
const REMEDY: &str = "the records of unchanged files may be wrong: apply with --verify to read everything";

/// File systems with coarse timestamps, or timestamps set by other machines, by the magic numbers in statfs(2).
const UNRELIABLE: [(u64, &str); 9] = [
    (0x4d44, "FAT"),
    (0x2011_bab0, "exFAT"),
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x0102_1997, "9P"),
    (0x786f_4256, "vboxsf"),
    (0x00c3_6400, "Ceph"),
];

fn check_clock(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    let now = SystemTime::now();
    let states = scene.root.states();
    let looked_at = [states.clone(), scene.root.holorc(), scene.root.resources()];
    let entries = looked_at.iter().flat_map(|path| WalkDir::new(path).max_depth(2)).filter_map(Result::ok);
    let times = entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.into_path())));
    if let Some((time, path)) = times.max()
        && time.duration_since(now).is_ok_and(|ahead| ahead > TOLERATED)
    {
        let (path, time) = (path.display(), shown(time));
        let title = format!("{path} is from the future, {time}: this clock, or the one that was used then, is wrong");
        findings.warn(title, format!("set the clock; {REMEDY}"));
    }
    for path in [scene.root.join("etc"), states] {
        let Ok(found) = statfs(&path) else { continue };
        // The type of the number differs between architectures.
        let number = found.f_type as u64 & 0xffff_ffff;
        if let Some((_, name)) = UNRELIABLE.iter().find(|(known, _)| *known == number) {
            findings
                .warn(format!("{} is on {name}, whose timestamps do not show every change", path.display()), REMEDY);
        }
    }
}

pub(super) const INTERRUPTED: Check = Check {
    name: "interrupted",
    fine: "no interrupted run has left files behind",
    needs_plugins: false,
    look: check_interrupted,
};

/// A run whose cache directory has not been touched for this time is unlikely to be running.
const LONG_AGO: Duration = Duration::from_secs(24 * 60 * 60);

fn check_interrupted(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    last_run(scene, findings);
    for (path, changed) in cache::all(scene.temporary_directory) {
        if SystemTime::now().duration_since(changed).is_ok_and(|age| age > LONG_AGO) {
            let (path, time) = (path.display(), shown(changed));
            let title = format!("{path} is the cache directory of a run that was killed, untouched since {time}");
            findings.warn(title, format!("rm -r {path}"));
        }
    }
}

/// Checks the last run that had work to do.
fn last_run(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    let history = match History::open(scene.root) {
        Ok(history) => history,
        Err(error) if error.is_denied() => return findings.warn(error.to_string(), HIDDEN),
        Err(error) => return findings.warn(error.to_string(), "it contains the records that holo history shows"),
    };
    let Some(run) = history.runs().next() else { return };
    let was_followed = history.last_unchanged().is_some_and(|last| last.run > run.id);
    if run.state() == RunState::Ended(RunResult::Interrupted) && !was_followed {
        let time = run.began.as_ref().map(|began| format!(" of {}", shown(began.time.into()))).unwrap_or_default();
        let title = format!("the last run{time} was interrupted: {}", run.id.as_str());
        findings.warn(title, "holo apply continues it");
    }
}

pub(super) const LOCK: Check =
    Check { name: "lock", fine: "no lock was left behind", needs_plugins: false, look: check_lock };

fn check_lock(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    let path = scene.root.lock();
    let shown = path.display();
    match lock::inspect(&path) {
        State::Free | State::Held => {}
        State::Left(apply) => {
            let title = format!("{shown} was left behind by process {apply}, which is gone");
            findings.warn(title, "the next apply removes it, and completes the interrupted work");
        }
        State::Unknown(reason) => {
            findings.fail(format!("{shown} blocks every apply: {reason}"), format!("examine it, then: rm {shown}"));
        }
    }
}

pub(super) const PERMISSIONS: Check = Check {
    name: "permissions",
    fine: "only their owner can write definitions and read the state",
    needs_plugins: false,
    look: check_permissions,
};

const ACCESSIBLE_BY_OTHERS: u32 = 0o077;

fn check_permissions(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    let root = scene.root;
    let mut remarks = scene.remarks.iter().peekable();
    while let Some(remark) = remarks.next() {
        if trust::is_remark(&remark.text) {
            let remedy = remarks.next_if(|next| next.kind == RemarkKind::Advice);
            findings.fail(&*remark.text, remedy.map_or(&b""[..], |remedy| remedy.text.as_bytes()));
        }
    }
    for violation in Inspector::new(root).find_all() {
        findings.fail(trust::describe(&violation), violation.remedy());
    }
    // Inputs in use are as readable as their originals, and the pin names them.
    let is_private = |entry: &DirEntry| ![root.pinned_inputs(), root.pin()].iter().any(|open| open == entry.path());
    let private = WalkDir::new(root.engine_state()).into_iter().filter_entry(is_private);
    let private = private.filter_map(Result::ok).map(DirEntry::into_path);
    for path in private.chain([root.state_database()]) {
        let Ok(metadata) = path.symlink_metadata() else { continue };
        if metadata.is_file() && metadata.mode() & ACCESSIBLE_BY_OTHERS != 0 {
            let path = path.display();
            findings.warn(
                format!("{path} is readable for others, and may have private contents"),
                format!("chmod go= {path}"),
            );
        }
    }
}

pub(super) const STATE: Check =
    Check { name: "state", fine: "all state belongs to a configured plugin", needs_plugins: false, look: check_state };

fn check_state(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    let Ok(configuration) = &scene.configuration else { return };
    for entry in fs::read_dir(scene.root.states()).into_iter().flatten().filter_map(Result::ok) {
        let (name, path) = (entry.file_name(), entry.path());
        // Names that start with a dot belong to the dispatcher.
        let is_own = name.as_encoded_bytes().starts_with(b".");
        let is_asked_for = configuration.plugins.iter().any(|line| name == *line.id);
        // The state database consists of files.
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && !is_own && !is_asked_for && has_files(&path) {
            let (id, path) = (name.display(), path.display());
            let title = format!("{path} is the state of plugin {id}, which is no longer configured");
            findings.warn(title, format!("configure plugin {id} again to undo its changes, or: rm -r {path}"));
        }
    }
}

/// Returns true if the directory contains anything other than directories.
pub(super) fn has_files(path: &Path) -> bool {
    WalkDir::new(path).into_iter().filter_map(Result::ok).any(|entry| !entry.file_type().is_dir())
}
