//! Tests with requirements beyond the workspace, which are visibly skipped, or made to fail.

use crate::binaries;
use crate::files::{Context, IoError};
use crate::processes::{self, succeeds};
use libtest_mimic::{Arguments, Failed, Trial};
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags};
use rustix::fs::{Access, XattrFlags, access};
use rustix::process::getppid;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;
use std::{env, fs, thread};

/// If this variable is set and not empty, a test with unmet requirements fails instead of being skipped.
pub const REQUIRE_ALL: &str = "HOLO_TEST_REQUIRE_ALL";
/// If this variable is set, only tests with requirements beyond the privileges of root are run. `.ci/run` sets it after
/// the others have passed on a minimal system.
const DEMANDING: &str = "HOLO_TEST_DEMANDING";
/// If this variable is set, tests are complete, whatever time they take.
const COMPLETE: &str = "HOLO_TEST_COMPLETE";

/// Returns true if tests are to be complete, whatever time they take. By default, those that repeat the same few steps
/// skip some.
#[must_use]
pub fn is_complete() -> bool {
    is_set(COMPLETE)
}

fn is_set(variable: &str) -> bool {
    env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// A requirement of a test.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// An executable of this name in `$PATH`, or at this path if it contains a slash.
    Program(&'static str),
    /// The privileges of root.
    Root,
    /// A file or directory on the host.
    Path(&'static str),
    /// ACLs and other extended attributes in the directory of temporary files.
    ExtendedAttributes,
    /// A named requirement that can only be determined by trying. It is tried only if all simpler ones are met.
    Trial(&'static str, fn() -> bool),
    /// Writable control groups, as needed by a system that boots.
    ControlGroups,
}

/// Ansible's modules, and the distribution's Python to run them.
pub const ANSIBLE: Need = Need::Trial("ansible-core", has_ansible);
/// Support for determining which process writes a file.
pub const FANOTIFY: Need = Need::Trial("fanotify", has_fanotify);

/// The library with which programs see another time; see [`clock_library`].
pub const WRONG_CLOCK: Need = Need::Trial("faketime", || clock_library().is_some());

/// Returns the library to preload, so that a program sees the time that `FAKETIME`, or the file in
/// `FAKETIME_TIMESTAMP_FILE`, says.
#[must_use]
pub fn clock_library() -> Option<PathBuf> {
    let of_each =
        fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    { of_each }.find(|path| path.exists())
}

/// The validator for [`page_is_valid`](crate::page_is_valid).
pub const HTML_VALIDATE: Need =
    Need::Trial("target/html-validate, which .ci/html-validate makes", || html_validate().exists());

pub(crate) fn html_validate() -> PathBuf {
    let target = binaries::directory().ok().and_then(|directory| Some(directory.parent()?.to_owned()));
    target.unwrap_or_default().join("html-validate/node_modules/.bin/html-validate")
}

impl Need {
    /// Returns true if the requirement is met.
    #[must_use]
    pub fn is_met(self) -> bool {
        match self {
            Self::Program(name) if name.contains('/') => is_executable(Path::new(name)),
            Self::Program(name) => env::var_os("PATH")
                .is_some_and(|path| env::split_paths(&path).any(|dir| is_executable(&dir.join(name)))),
            Self::Root => rustix::process::geteuid().is_root(),
            Self::Path(path) => Path::new(path).exists(),
            Self::ExtendedAttributes => has_extended_attributes(),
            Self::Trial(_, succeeds) => succeeds(),
            Self::ControlGroups => ["", "systemd", "unified"].iter().any(|hierarchy| {
                let hierarchy = Path::new("/sys/fs/cgroup").join(hierarchy);
                hierarchy.join("cgroup.procs").exists() && access(&hierarchy, Access::WRITE_OK).is_ok()
            }),
        }
    }

    fn is_tried(self) -> bool {
        matches!(self, Self::Trial(..))
    }

    fn name(self) -> &'static str {
        match self {
            Self::Program(name) | Self::Path(name) | Self::Trial(name, _) => name,
            Self::Root => "root",
            Self::ExtendedAttributes => "extended attributes",
            Self::ControlGroups => "control groups of its own",
        }
    }
}

fn has_fanotify() -> bool {
    Fanotify::init(InitFlags::FAN_CLASS_NOTIF | InitFlags::FAN_CLOEXEC, EventFFlags::O_RDONLY).is_ok()
}

fn has_ansible() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| succeeds("/usr/bin/python3", &["-c", "import ansible.module_utils.basic"]))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

fn has_extended_attributes() -> bool {
    // The owner, with the file's own mode, and a group that does not exist.
    const ACL: &[u8] = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x04\0\0\0\xff\xff\xff\xff\x08\0\x04\0\x39\x30\0\0\
        \x10\0\x04\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";
    tempfile::tempfile().is_ok_and(|file| {
        let set = |name, value| rustix::fs::fsetxattr(&file, name, value, XattrFlags::empty()).is_ok();
        set("user.holo", b"x") && set("system.posix_acl_access", ACL)
    })
}

/// Names the unmet requirements, such as `git, root`; `None` if all are met.
#[must_use]
pub fn missing(needs: &[Need]) -> Option<String> {
    let names = |tried: bool| -> Vec<&str> {
        let needs = needs.iter().filter(|need| need.is_tried() == tried && !need.is_met());
        needs.map(|need| need.name()).collect()
    };
    let missing = Some(names(false)).filter(|missing| !missing.is_empty()).unwrap_or_else(|| names(true));
    (!missing.is_empty()).then(|| missing.join(", "))
}

/// The requirements of the tests skipped by this process, with the number of tests for each.
static LEFT_OUT: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());
/// The file next to the binaries in which the processes of a `cargo test` run add up these numbers.
const LEFT_OUT_FILE: &str = "left-out";

/// Runs tests, and prints a final line with the number of tests skipped so far, and their requirements.
///
/// `cargo test` starts a process for each file of tests, without a summary of its own. As it is the parent of these
/// processes, they can determine which numbers belong to the same run: the last of these lines covers all tests.
#[must_use]
pub fn run(arguments: &Arguments, trials: Vec<Trial>) -> ExitCode {
    processes::reset();
    let conclusion = libtest_mimic::run(arguments, trials);
    let here = std::mem::take(&mut *LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner));
    // A filtered run needs no summary.
    if conclusion.num_filtered_out == 0 && conclusion.num_ignored > 0 && !arguments.list {
        let total =
            binaries::directory().and_then(|directory| add_up(&directory.join(LEFT_OUT_FILE), &run_id(), &here));
        let total = total.unwrap_or(here);
        if !total.is_empty() {
            // If stdout is closed, no summary is needed.
            let _ = writeln!(io::stdout(), "{}\n", summary(&total));
        }
    }
    conclusion.exit_code()
}

/// Runs the tests of modules, whose names are shown with their tests: `[NAME] what is tested`.
///
/// Filters match that name too, so that `cargo test --test it NAME` runs one module.
#[must_use]
pub fn run_modules<const N: usize>(modules: [(&'static str, Vec<Trial>); N]) -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Tests mostly wait: for programs, the disk, or the clock.
    arguments.test_threads.get_or_insert(2 * thread::available_parallelism().map_or(1, usize::from));
    let named = |(name, trials): (&'static str, Vec<Trial>)| trials.into_iter().map(move |trial| trial.with_kind(name));
    run(&arguments, modules.into_iter().flat_map(named).collect())
}

/// Creates a trial without requirements from each function, named after it.
#[macro_export]
macro_rules! trials {
    ($($test:ident),+ $(,)?) => {
        vec![$($crate::trial_of(stringify!($test), &[], $test)),+]
    };
}

/// Adds to the numbers in the file if they belong to the run with this ID.
fn add_up(path: &Path, run: &str, here: &BTreeMap<String, u64>) -> Result<BTreeMap<String, u64>, IoError> {
    let mut total = here.clone();
    // The first line identifies the run; numbers of other runs are ignored.
    let before = fs::read_to_string(path).unwrap_or_default();
    if let Some(lines) = before.strip_prefix(run) {
        for (count, need) in lines.lines().filter_map(|line| line.split_once(' ')) {
            *total.entry(need.to_owned()).or_default() += count.parse::<u64>().unwrap_or_default();
        }
    }
    let lines: String = total.iter().map(|(need, count)| format!("{count} {need}\n")).collect();
    let new = PathBuf::from(format!("{}.{}", path.display(), std::process::id()));
    fs::write(&new, format!("{run}{lines}")).context("write", &new)?;
    fs::rename(&new, path).context("rename", &new)?;
    Ok(total)
}

/// Returns a line that identifies the parent of this process, even if its PID is reused.
fn run_id() -> String {
    let parent = getppid().map_or(0, |parent| parent.as_raw_nonzero().get().unsigned_abs());
    format!("{parent} {}\n", processes::begin(parent).unwrap_or_default())
}

fn summary(left_out: &BTreeMap<String, u64>) -> String {
    let number: u64 = left_out.values().sum();
    let tests = if number == 1 { "test" } else { "tests" };
    let needs: Vec<_> = left_out.iter().map(|(need, count)| format!("{need} ({count})")).collect();
    format!("Left out so far in this run: {number} {tests}, which need {}", needs.join("; "))
}

/// If this variable names a file, the duration of each test is appended to it, in seconds.
const TIMES: &str = "HOLO_TEST_TIMES";

/// Runs a test, and notes its duration if that is requested.
fn timed(name: &str, test: impl FnOnce() -> Result<(), Failed>) -> Result<(), Failed> {
    let Some(file) = env::var_os(TIMES) else { return test() };
    let began = Instant::now();
    let result = test();
    let line = format!("{:.2} {name}\n", began.elapsed().as_secs_f64());
    let appended =
        OpenOptions::new().create(true).append(true).open(file).and_then(|mut file| file.write_all(line.as_bytes()));
    result.and(appended.map_err(Failed::from))
}

/// Creates a test that is skipped unless its requirements are met; its name then lists those.
///
/// If [`REQUIRE_ALL`] is set, it fails instead.
#[must_use]
pub fn trial(name: &str, needs: &[Need], test: impl FnOnce() -> Result<(), Failed> + Send + 'static) -> Trial {
    let own_name = name.to_owned();
    let test = move || timed(&own_name, test);
    let is_demanding = needs.iter().any(|need| !matches!(need, Need::Root));
    match missing(needs) {
        _ if is_set(DEMANDING) && !is_demanding => Trial::test(name, test).with_ignored_flag(true),
        None => Trial::test(name, test),
        Some(missing) if is_set(REQUIRE_ALL) => {
            Trial::test(name, move || Err(format!("needs {missing}, and {REQUIRE_ALL} is set").into()))
        }
        Some(missing) => {
            let trial = Trial::test(format!("{name} (needs {missing})"), test).with_ignored_flag(true);
            *LEFT_OUT.lock().unwrap_or_else(PoisonError::into_inner).entry(missing).or_default() += 1;
            trial
        }
    }
}

/// Creates a [`trial`] from a function that panics on failure.
#[must_use]
pub fn trial_of(name: &str, needs: &[Need], case: impl FnOnce() + Send + 'static) -> Trial {
    trial(name, needs, || {
        case();
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(missing(&[]), None);
        assert_eq!(missing(&[Need::Program("sh"), Need::Path("/")]), None);
        assert_eq!(missing(&[Need::Program("/bin/sh")]), None);
        assert_eq!(
            missing(&[Need::Program("no-such"), Need::Program("sh"), Need::Path("/no/such")]),
            Some("no-such, /no/such".to_owned())
        );
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(missing(&[Need::Root]).is_none(), is_root);
    }

    #[test]
    fn the_files_of_one_run_are_added_up() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("left-out");
        let numbers = |pairs: &[(&str, u64)]| pairs.iter().map(|&(need, count)| (need.to_owned(), count)).collect();
        let first: BTreeMap<String, u64> = numbers(&[("git", 2), ("an overlay of /", 1)]);
        assert_eq!(add_up(&path, "1 10\n", &first).unwrap(), first);
        let total = add_up(&path, "1 10\n", &numbers(&[("git", 1), ("strace", 4)])).unwrap();
        assert_eq!(total, numbers(&[("an overlay of /", 1), ("git", 3), ("strace", 4)]));
        let expected = "Left out so far in this run: 8 tests, which need an overlay of / (1); git (3); strace (4)";
        assert_eq!(summary(&total), expected);
        // PIDs can be reused.
        assert_eq!(add_up(&path, "1 11\n", &numbers(&[("git", 1)])).unwrap(), numbers(&[("git", 1)]));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(run_id(), run_id());
        assert!(run_id().split_whitespace().all(|word| word.parse::<u64>().is_ok()), "{}", run_id());
    }

    #[test]
    fn a_directory_is_no_program() {
        assert!(missing(&[Need::Program("/")]).is_some());
    }

    #[test]
    fn a_trial_is_skipped_only_if_something_is_missing() {
        let met = trial("met", &[Need::Program("sh")], || Ok(()));
        assert_eq!((met.name(), met.has_ignored_flag()), ("met", false));
        let unmet = trial("unmet", &[Need::Program("no-such")], || Ok(()));
        if is_set(REQUIRE_ALL) {
            assert_eq!((unmet.name(), unmet.has_ignored_flag()), ("unmet", false));
        } else {
            let name = "unmet (needs no-such)";
            assert_eq!((unmet.name(), unmet.has_ignored_flag()), (name, true));
        }
    }
}
