//! Kills a plugin at a system call, or lets the call fail: what `strace` can do to a program that promises to survive it.

use std::path::Path;

use bstr::ByteSlice;

use crate::require::Need;
use crate::{Run, ScratchRoot, binaries};

/// The needs of a test that disturbs, for [`trial`](crate::trial()).
pub const NEEDS: &[Need] = &[Need::Program("strace")];

/// The system calls after which the disk, or a lock, is not what it was; and those that make it last.
///
/// Opening a file is not among them, as it is mostly for reading: what a kill at the opening of a new file leaves, a kill at the call before
/// leaves too.
pub const CALLS: &[&str] = &[
    "write",
    "pwrite64",
    "copy_file_range",
    "sendfile",
    "ftruncate",
    "fchmod",
    "fchmodat",
    "fchown",
    "fchownat",
    "fsetxattr",
    "renameat",
    "renameat2",
    "rename",
    "linkat",
    "symlinkat",
    "unlinkat",
    "unlink",
    "mkdirat",
    "mkdir",
    "rmdir",
    "fsync",
    "syncfs",
    "utimensat",
    "flock",
];

/// A disturbance of a plugin at a system call.
#[derive(Clone, Copy, Debug)]
pub enum Disturbance<'a> {
    /// It is killed in place of the call.
    Kill,
    /// The call fails with this error, as `ENOSPC`.
    Error(&'a str),
}

/// The file with the arguments that a plugin's wrapper gives strace.
const ARGUMENTS: &str = "plugin/strace-arguments";
const LOG: &str = "tmp/strace";

/// Configures a plugin of this workspace, and nothing else, so that its work can be [disturbed](at).
#[must_use]
#[track_caller]
pub fn configure(root: ScratchRoot, plugin: &str) -> ScratchRoot {
    let program = binaries::built(&format!("holo-{plugin}"));
    let wrapper = format!(
        "#!/bin/sh\narguments=${{0%/*}}/strace-arguments\nif [ \"$1\" != info ] && [ \"$1\" != scan ] && [ -e \"$arguments\" ]; then\n    \
         IFS='\n'\n    exec strace $(cat \"$arguments\") '{program}' \"$@\"\nfi\nexec '{program}' \"$@\"\n",
        program = program.display()
    );
    root.binary(binaries::built("holo"))
        .script(format!("plugin/holo-{plugin}"), wrapper)
        .holorc(format!("plugin {plugin}=plugin/holo-{plugin}\n"))
        .dir(format!("usr/share/holo/{plugin}"))
}

/// Runs holo, and disturbs the plugin, and what it calls, at the call with this number, counted from 1; what came of it, and whether there
/// was such a call.
#[track_caller]
pub fn at(root: &ScratchRoot, arguments: &[&str], call: &str, number: usize, what: Disturbance<'_>) -> (Run, bool) {
    let how = match what {
        Disturbance::Kill => "signal=SIGKILL".to_owned(),
        Disturbance::Error(error) => format!("error={error}"),
    };
    let log = root.join(LOG);
    let log_argument = log.display().to_string();
    let words = [
        "-f",
        "-qq",
        "-o",
        &log_argument,
        "-e",
        &format!("trace={call}"),
        "-e",
        &format!("inject={call}:{how}:when={number}"),
    ];
    root.write(ARGUMENTS, words.join("\n"));
    let run = root.holo(arguments);
    remove(&root.join(ARGUMENTS));
    let logged = std::fs::read(&log).unwrap_or_default();
    remove(&log);
    let mark: &[u8] = match what {
        Disturbance::Kill => b"+++ killed by SIGKILL +++",
        Disturbance::Error(_) => b"(INJECTED)",
    };
    (run, logged.contains_str(mark))
}

/// Runs holo, and returns what came of it with the lines of `strace -y` about these calls of the plugin, and of what it calls.
#[track_caller]
pub fn traced(root: &ScratchRoot, arguments: &[&str], calls: &[&str]) -> (Run, String) {
    let log = root.join(LOG);
    let log_argument = log.display().to_string();
    let words = ["-f", "-y", "-qq", "-s", "1048576", "-o", &log_argument, "-e", &format!("trace={}", calls.join(","))];
    root.write(ARGUMENTS, words.join("\n"));
    let run = root.holo(arguments);
    remove(&root.join(ARGUMENTS));
    let logged = std::fs::read_to_string(&log).unwrap_or_default();
    remove(&log);
    (run, logged)
}

/// Goes through these calls and their numbers, as long as `once` finds something to disturb; how often it did.
pub fn everywhere(calls: &[&str], mut once: impl FnMut(&str, usize) -> bool) -> usize {
    calls.iter().map(|call| (1..).take_while(|&number| once(call, number)).count()).sum()
}

fn remove(path: &Path) {
    // The file may not be there.
    let _ = std::fs::remove_file(path);
}
