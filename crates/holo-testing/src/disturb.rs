//! Runs a plugin through another program: through `strace`, which kills it at a system call or makes the call fail, to test that it survives.

use std::path::Path;

use bstr::ByteSlice;

use crate::require::Need;
use crate::{Run, ScratchRoot, binaries};

/// The requirements of a test with disturbances, for [`trial`](crate::trial()).
pub const NEEDS: &[Need] = &[Need::Program("strace")];

/// The system calls that modify the disk or a lock, or make changes durable.
///
/// Opening a file is not among them, as it is mostly for reading. A kill when a new file is opened has the same result
/// as a kill at the preceding call.
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
    "fdatasync",
    "syncfs",
    "utimensat",
    "flock",
];

/// A disturbance of a plugin at a system call.
#[derive(Clone, Copy, Debug)]
pub enum Disturbance<'a> {
    /// The plugin is killed instead of the call.
    Kill,
    /// The call fails with this error, such as `ENOSPC`.
    Error(&'a str),
}

/// The file with the words that a plugin's wrapper puts before the plugin's command line.
const WORDS: &str = "plugin/words";
const LOG: &str = "tmp/strace";

/// Configures a plugin of this workspace so that it can be [disturbed](at), or run [through] another program. Several
/// plugins are disturbed at the same time.
#[must_use]
#[track_caller]
pub fn configure(root: ScratchRoot, plugin: &str) -> ScratchRoot {
    let program = binaries::built(&format!("holo-{plugin}"));
    let wrapper = format!(
        "#!/bin/sh\nwords=${{0%/*}}/words\nif [ \"$1\" != info ] && [ \"$1\" != scan ] && [ -e \"$words\" ]; then\n    \
         IFS='\n'\n    exec $(cat \"$words\") '{program}' \"$@\"\nfi\nexec '{program}' \"$@\"\n",
        program = program.display()
    );
    let others = if root.exists("etc/holorc") { root.read("etc/holorc").to_string() } else { String::new() };
    root.binary(binaries::built("holo"))
        .script(format!("plugin/holo-{plugin}"), wrapper)
        .holorc(format!("{others}plugin {plugin}=plugin/holo-{plugin}\n"))
        .dir(format!("usr/share/holo/{plugin}"))
}

/// Runs holo with a plugin that is run through a program, given by its name and arguments.
#[track_caller]
pub fn through(root: &ScratchRoot, words: &[&str], arguments: &[&str]) -> Run {
    root.write(WORDS, words.join("\n"));
    let run = root.holo(arguments);
    remove(&root.join(WORDS));
    run
}

/// Runs holo, and disturbs the plugin and its child processes at the call with this number, counted from 1. Returns the
/// run, and whether there was such a call.
#[track_caller]
pub fn at(root: &ScratchRoot, arguments: &[&str], call: &str, number: usize, what: Disturbance<'_>) -> (Run, bool) {
    let how = match what {
        Disturbance::Kill => "signal=SIGKILL".to_owned(),
        Disturbance::Error(error) => format!("error={error}"),
    };
    let log = root.join(LOG);
    let log_argument = log.display().to_string();
    let words = [
        "strace",
        "-f",
        "-qq",
        "-o",
        &log_argument,
        "-e",
        &format!("trace={call}"),
        "-e",
        &format!("inject={call}:{how}:when={number}"),
    ];
    let run = through(root, &words, arguments);
    let logged = std::fs::read(&log).unwrap_or_default();
    remove(&log);
    let mark: &[u8] = match what {
        Disturbance::Kill => b"+++ killed by SIGKILL +++",
        Disturbance::Error(_) => b"(INJECTED)",
    };
    (run, logged.contains_str(mark))
}

/// Runs holo, and returns the run with the lines of `strace -y` for these calls of the plugin and its child processes.
#[track_caller]
pub fn traced(root: &ScratchRoot, arguments: &[&str], calls: &[&str]) -> (Run, String) {
    let log = root.join(LOG);
    let log_argument = log.display().to_string();
    let traced = format!("trace={}", calls.join(","));
    let words = ["strace", "-f", "-y", "-qq", "-s", "1048576", "-o", &log_argument, "-e", &traced];
    let run = through(root, &words, arguments);
    let logged = std::fs::read_to_string(&log).unwrap_or_default();
    remove(&log);
    (run, logged)
}

/// The environment variable that makes [`everywhere`] skip no call.
const EVERY_CALL: &str = "HOLO_TEST_EVERY_CALL";

/// Goes through these calls and their numbers as long as `once` returns true. Returns the number of such calls, rounded up to the next
/// number that was tried.
///
/// Programs repeat the same few steps, so by default the distance between the numbers grows by half.
pub fn everywhere(calls: &[&str], mut once: impl FnMut(&str, usize) -> bool) -> usize {
    let skips = std::env::var_os(EVERY_CALL).is_none();
    let mut count = |call: &&str| {
        let mut number = 1;
        while once(call, number) {
            number += 1 + if skips { number / 2 } else { 0 };
        }
        number - 1
    };
    calls.iter().map(&mut count).sum()
}

fn remove(path: &Path) {
    // The file may not exist.
    let _ = std::fs::remove_file(path);
}
