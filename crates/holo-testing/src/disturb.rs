//! Runs a plugin through another program: through `strace`, which kills it at a system call or makes the call fail, to test that it survives.

use std::collections::HashMap;
use std::path::Path;

use bstr::{BString, ByteSlice};

use crate::require::{self, Need};
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

/// What `strace` saw of a program that it disturbed.
pub struct Seen {
    log: BString,
    mark: &'static str,
}

impl Seen {
    /// Reads the log of `strace`, given what it injected.
    #[must_use]
    pub fn new(log: impl Into<BString>, what: Disturbance<'_>) -> Self {
        let mark = match what {
            Disturbance::Kill => "+++ killed by SIGKILL +++",
            Disturbance::Error(_) => "(INJECTED)",
        };
        Self { log: log.into(), mark }
    }

    /// Returns true if there was such a call.
    #[must_use]
    pub fn is_disturbed(&self) -> bool {
        self.log.contains_str(self.mark)
    }

    /// Returns how often a single thread made this call at most: `strace` counts calls for each thread.
    fn most(&self, call: &str) -> usize {
        let mut counts: HashMap<&[u8], usize> = HashMap::new();
        for line in self.log.lines() {
            // With `-f`, lines begin with the number of the thread.
            let (thread, line) =
                line.split_once_str(" ").filter(|(word, _)| word.iter().all(u8::is_ascii_digit)).unwrap_or((b"", line));
            if line.trim_start().strip_prefix(call.as_bytes()).is_some_and(|rest| rest.starts_with(b"(")) {
                *counts.entry(thread).or_default() += 1;
            }
        }
        counts.into_values().max().unwrap_or(0)
    }
}

/// Runs holo, and disturbs the plugin and its child processes at the call with this number, counted from 1.
#[track_caller]
pub fn at(root: &ScratchRoot, arguments: &[&str], call: &str, number: usize, what: Disturbance<'_>) -> (Run, Seen) {
    let strace = strace(root, call, number, what);
    let words: Vec<&str> = ["strace", "-f"].into_iter().chain(strace.iter().map(String::as_str)).collect();
    let run = through(root, &words, arguments);
    (run, seen(root, what))
}

/// Like [`at`], but disturbs the dispatcher and all its child processes.
#[track_caller]
pub fn everything_at(
    root: &ScratchRoot,
    arguments: &[&str],
    call: &str,
    number: usize,
    what: Disturbance<'_>,
) -> (Run, Seen) {
    traced_dispatcher(root, &["-f"], arguments, call, number, what)
}

/// Like [`at`], but disturbs the dispatcher alone.
#[track_caller]
pub fn dispatcher_at(
    root: &ScratchRoot,
    arguments: &[&str],
    call: &str,
    number: usize,
    what: Disturbance<'_>,
) -> (Run, Seen) {
    traced_dispatcher(root, &[], arguments, call, number, what)
}

#[track_caller]
fn traced_dispatcher(
    root: &ScratchRoot,
    options: &[&str],
    arguments: &[&str],
    call: &str,
    number: usize,
    what: Disturbance<'_>,
) -> (Run, Seen) {
    let holo = binaries::built("holo").display().to_string();
    program_at(root, options, &[&[&*holo], arguments].concat(), call, number, what)
}

/// Runs a command line, and disturbs its program. The options are those of `strace`, such as `-f` for child processes.
#[track_caller]
pub fn program_at(
    root: &ScratchRoot,
    options: &[&str],
    command: &[&str],
    call: &str,
    number: usize,
    what: Disturbance<'_>,
) -> (Run, Seen) {
    let strace = strace(root, call, number, what);
    let strace: Vec<&str> = strace.iter().map(String::as_str).collect();
    let run = root.run("/usr/bin/strace", &[options, &strace, command].concat());
    (run, seen(root, what))
}

/// Returns the arguments of `strace` that disturb a program.
fn strace(root: &ScratchRoot, call: &str, number: usize, what: Disturbance<'_>) -> Vec<String> {
    let how = match what {
        Disturbance::Kill => "signal=SIGKILL".to_owned(),
        Disturbance::Error(error) => format!("error={error}"),
    };
    let log = root.join(LOG).display().to_string();
    let (trace, inject) = (format!("trace={call}"), format!("inject={call}:{how}:when={number}"));
    // The filter in the kernel passes on only the traced calls, which takes a third of the time. It cannot inject signals.
    let filter = matches!(what, Disturbance::Error(_)).then_some("--seccomp-bpf");
    let words = ["-qq", "-s", "0", "-o", &log, "-e", &trace, "-e", &inject];
    filter.into_iter().chain(words).map(str::to_owned).collect()
}

fn seen(root: &ScratchRoot, what: Disturbance<'_>) -> Seen {
    let log = root.join(LOG);
    let seen = Seen::new(std::fs::read(&log).unwrap_or_default(), what);
    remove(&log);
    seen
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

/// A number that no call reaches, and the largest one that `strace` accepts.
const NEVER: usize = 65_535;

/// Disturbs a program at each of these calls. Returns how often that succeeded, including the calls that were skipped.
///
/// `once` is first called with all calls and a number that none of them reaches, to find out how many there are.
///
/// Programs repeat the same few steps, so by default each number is five times the previous one.
pub fn everywhere(calls: &[&str], mut once: impl FnMut(&str, usize) -> Seen) -> usize {
    let skips = !require::is_complete();
    let undisturbed = once(&calls.join(","), NEVER);
    assert!(!undisturbed.is_disturbed(), "there are too many calls: {}", undisturbed.log);
    let mut count = |call: &&str| {
        let (most, mut number, mut disturbed) = (undisturbed.most(call), 1, 0);
        while number <= most {
            let next = number + if skips { 4 * number } else { 1 };
            if once(call, number).is_disturbed() {
                disturbed = most.min(next - 1);
            }
            number = next;
        }
        disturbed
    };
    calls.iter().map(&mut count).sum()
}

fn remove(path: &Path) {
    // The file may not exist.
    let _ = std::fs::remove_file(path);
}
