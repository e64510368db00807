//! The environment, read once and passed on, and the IDs of runs, which sort by time.

use super::engine::EngineSettings;
use super::memory;
use super::root::Root;
use holo_definitions::duration::DurationError;
use holo_facts::Knowledge;
use holo_protocol::OnEdit;
use holo_protocol::environment::split_directories;
use holo_system::transaction;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

const TIMEOUT: &str = "HOLO_TIMEOUT";
const HISTORY: &str = "HOLO_HISTORY";

/// The settings taken from the caller's environment.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether the managed system is not running (`$HOLO_OFFLINE`).
    pub is_offline: bool,
    /// The root of the managed system (`$HOLO_ROOT_DIR`).
    pub root: Root,
    /// The parent of the cache directory (`$TMPDIR`).
    pub temporary_directory: PathBuf,
    /// Whether to exit with 0 even if entities fail, as version 3 did; `None` if the caller does not say
    /// (`$HOLO_EXIT_ZERO`).
    pub exit_zero: Option<bool>,
    /// Whether a person reads the errors, so that plugins may add hints.
    pub gives_hints: bool,
    /// Whether manual changes to entities are shown as differences.
    pub shows_differences: bool,
    /// What happens to entities that a person has changed, unless their definitions say something else.
    pub on_edit: OnEdit,
    /// Whether the C library returns freed memory at once, which costs time (`$GLIBC_TUNABLES`).
    pub gives_memory_back: bool,
    /// Whether plugins report what is to be watched.
    pub watches: bool,
    /// Whether plugins must read everything and ignore their records of unchanged files (`--verify`, `$HOLO_VERIFY`).
    pub verify: bool,
    /// The number of entities that a plugin may work on concurrently (`--jobs`).
    pub jobs: NonZeroU32,
    /// The timeout for each operation of a plugin, and for each generator (`$HOLO_TIMEOUT`).
    pub limit: Option<Duration>,
    /// The maximum output of an operation of a plugin, and of a generator, in bytes.
    pub max_output: u64,
    /// The command that opens a file in an editor (`$VISUAL`, `$EDITOR`).
    pub editor: Option<String>,
    /// The first invalid variable, if any.
    pub problem: Option<EnvironmentError>,
    /// The facts of the calling run, if a run calls us (`$HOLO_FACTS`).
    pub facts: Option<PathBuf>,
    /// The directory of the calling run's data, if it is not the current data (`$HOLO_INPUTS_DIR`).
    pub inputs: Option<PathBuf>,
    /// The file with the values that entities have sent, if a run calls us (`$HOLO_VALUES`).
    pub sent: Option<PathBuf>,
    /// The ID of this run.
    pub run: RunId,
    /// Whether records and generations of applies are kept (`$HOLO_HISTORY`).
    pub keeps_history: bool,
    /// The command line, as given.
    pub command_line: Vec<OsString>,
    /// The user who called `sudo` (`$SUDO_USER`).
    pub sudo_user: Option<OsString>,
    /// What started the run, if not a person (`$HOLO_TRIGGER`).
    pub trigger: Option<OsString>,
    /// The resource directories of the calling plugin, if a plugin calls us (`$HOLO_RESOURCE_DIRS`,
    /// `$HOLO_RESOURCE_DIR`).
    pub resource_dirs: Vec<PathBuf>,
    /// The directory of this program, which also contains the plugins of a build or a private installation.
    pub program_directory: Option<PathBuf>,
}

/// An environment variable has an invalid value.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{variable}: {mistake}")]
pub struct EnvironmentError {
    /// The name of the variable.
    pub variable: &'static str,
    /// The mistake in its value.
    pub mistake: DurationError,
}

impl Settings {
    /// Reads the process's environment.
    #[must_use]
    pub fn from_environment() -> Settings {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let limit = set(TIMEOUT).map(|value| holo_definitions::duration::parse(&value.to_string_lossy()));
        let (limit, problem) = match limit.transpose() {
            Ok(limit) => (limit, None),
            Err(mistake) => (None, Some(EnvironmentError { variable: TIMEOUT, mistake })),
        };
        let root = Root::new(set(holo_protocol::environment::ROOT_DIR));
        let exit_zero = set("HOLO_EXIT_ZERO").map(|value| value == "1");
        Settings {
            // Version 3's own tests set this, and compare whole directory trees.
            keeps_history: set(HISTORY).map_or(!(exit_zero == Some(true) && root.is_test()), |value| value != "0"),
            // `doctor` and the record of an apply report an invalid file.
            max_output: EngineSettings::read(&root).0.limits.output,
            root,
            is_offline: holo_system::is_offline(),
            temporary_directory: set("TMPDIR").unwrap_or_else(|| OsString::from("/tmp")).into(),
            exit_zero,
            run: RunId::now(),
            command_line: std::env::args_os().collect(),
            sudo_user: set("SUDO_USER"),
            trigger: set("HOLO_TRIGGER"),
            gives_hints: false,
            shows_differences: true,
            on_edit: OnEdit::Refuse,
            gives_memory_back: memory::is_given_back(),
            watches: false,
            verify: set(holo_protocol::environment::VERIFY).is_some_and(|value| value == "1"),
            jobs: processors(),
            limit,
            editor: set("VISUAL").or_else(|| set("EDITOR")).and_then(|editor| editor.into_string().ok()),
            problem,
            facts: set(holo_protocol::environment::FACTS).map(PathBuf::from),
            inputs: set(holo_protocol::environment::INPUTS_DIR).map(PathBuf::from),
            sent: set(holo_protocol::environment::VALUES).map(PathBuf::from),
            resource_dirs: resource_dirs(set),
            program_directory: std::env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned())),
        }
    }

    /// Returns the facts of the system, which are gathered on first use.
    #[must_use]
    pub fn knowledge(&self) -> Knowledge {
        let root = self.root.join("");
        let inputs = self.inputs.as_deref().or_else(|| self.root.inputs());
        Knowledge::with_inputs(&root, inputs.unwrap_or(&root), self.facts.as_deref())
    }

    /// Returns true if apply, diff, scan and graph exit with 0 even if entities fail.
    #[must_use]
    pub fn exits_zero(&self) -> bool {
        self.exit_zero.unwrap_or_else(|| self.is_in_transaction())
    }

    /// Returns true if a package manager or the script of a package has called holo and does not say how it should exit.
    /// An entity that fails or is deferred must not make the installation of a package fail.
    #[must_use]
    pub fn is_in_transaction(&self) -> bool {
        self.exit_zero.is_none() && !self.root.is_test() && transaction::program(self.root.as_given()).is_some()
    }
}

/// Returns the resource directories in the environment of a plugin, highest precedence first.
fn resource_dirs(set: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let several = set(holo_protocol::environment::RESOURCE_DIRS).map(|value| split_directories(&value));
    let one = || set(holo_protocol::environment::RESOURCE_DIR).map(PathBuf::from).into_iter().collect();
    several.filter(|several| !several.is_empty()).unwrap_or_else(one)
}

/// Returns the number of processors available to us.
fn processors() -> NonZeroU32 {
    let number = std::thread::available_parallelism().ok();
    number.and_then(|number| NonZeroU32::try_from(number).ok()).unwrap_or(NonZeroU32::MIN)
}

/// The ID of a run, such as `20261122T091403-8f2c1`: its start time in UTC, and the microseconds of that second in five
/// hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(String);

impl RunId {
    /// Returns the ID of a run that begins now.
    #[must_use]
    pub fn now() -> RunId {
        RunId::at(Timestamp::now())
    }

    /// Returns the ID of a run that begins at this time.
    #[must_use]
    pub fn at(time: Timestamp) -> RunId {
        let microseconds = time.subsec_microsecond().unsigned_abs();
        let time = time.to_zoned(TimeZone::UTC).datetime();
        RunId(format!(
            "{:04}{:02}{:02}T{:02}{:02}{:02}-{microseconds:05x}",
            time.year(),
            time.month(),
            time.day(),
            time.hour(),
            time.minute(),
            time.second()
        ))
    }

    /// Wraps the text of an ID.
    #[must_use]
    pub fn from_text(text: &str) -> RunId {
        RunId(text.to_owned())
    }

    /// Returns the text of the ID.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the month of the run in the form used in file names: `2026-11`. `None` if the ID has another form.
    #[must_use]
    pub fn month(&self) -> Option<String> {
        let (year, month) = (self.0.get(..4)?, self.0.get(4..6)?);
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        (is_number(year) && is_number(month)).then(|| format!("{year}-{month}"))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids_sort_by_time() {
        let at = |text: &str| RunId::at(text.parse().unwrap());
        assert_eq!(at("2026-11-22T09:14:03.586433Z").as_str(), "20261122T091403-8f2c1");
        assert_eq!(at("2026-11-22T09:14:03.586433Z").month().unwrap(), "2026-11");
        let times =
            ["0999-01-01T00:00:00Z", "2026-11-22T09:14:03.000009Z", "2026-11-22T09:14:03.9Z", "2026-11-22T09:14:04Z"];
        let ids = times.map(at);
        assert!(ids.is_sorted(), "{ids:?}");
        assert_eq!(serde_json::to_string(&ids[1]).unwrap(), "\"20261122T091403-00009\"");
        assert_eq!(serde_json::from_str::<RunId>("\"?\"").unwrap().month(), None);
    }
}
