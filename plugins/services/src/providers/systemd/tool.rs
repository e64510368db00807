//! Runs systemd's tools.

use crate::plan::Step;
use crate::providers::{Done, ManagerError, Task};
use crate::unit::UnitName;
use holo_plugin::process::{Captured, Identity, Program, ProgramError};
use nix::unistd::geteuid;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The timeout for a query to systemd.
const QUESTION_LIMIT: Duration = Duration::from_secs(90);
/// The timeout for a query as a user, whose unit files may be FIFOs without a writer.
const USER_LIMIT: Duration = Duration::from_secs(20);

/// How to run `systemctl` for the units of a manager; by default that of the system.
#[derive(Clone, Debug, Default)]
pub(super) struct Tool {
    /// The options that precede those of each call.
    options: Vec<String>,
    /// The user who runs it.
    user: Option<User>,
}

/// A user with a manager.
#[derive(Clone, Debug)]
struct User {
    name: String,
    uid: u32,
    /// The directory with the manager's sockets, if it runs.
    runtime: Option<PathBuf>,
}

impl Tool {
    /// Returns a tool for the units below a root that is not running.
    pub(super) fn on_root(root: &Path) -> Tool {
        Tool { options: vec![format!("--root={}", root.display())], user: None }
    }

    /// Returns a tool for enabling and masking units for all users.
    pub(super) fn of_all_users(root: &Path) -> Tool {
        let below = (root != Path::new("/")).then(|| format!("--root={}", root.display()));
        Tool { options: std::iter::once("--global".to_owned()).chain(below).collect(), user: None }
    }

    /// Returns a tool for the units of a user. Without a directory of sockets, it only changes files.
    pub(super) fn of_user(name: &str, uid: u32, runtime: Option<PathBuf>) -> Tool {
        Tool { options: vec!["--user".to_owned()], user: Some(User { name: name.to_owned(), uid, runtime }) }
    }

    /// Returns true if it is for the units of the system.
    pub(super) fn is_of_system(&self) -> bool {
        self.user.is_none() && self.options.is_empty()
    }

    /// Returns the journal matches for a unit's log.
    pub(super) fn journal_matches(&self, unit: &UnitName) -> Vec<String> {
        let Some(user) = &self.user else { return vec![format!("--unit={unit}")] };
        let (name, uid) = (unit.as_str(), user.uid);
        let of = |field: &str| [format!("{field}={name}"), format!("_UID={uid}")];
        // Output of its processes, and messages of the manager about it.
        [&of("_SYSTEMD_USER_UNIT")[..], &["+".to_owned()], &of("USER_UNIT")].concat()
    }

    /// Returns a non-interactive command without a pager, in English, with the timeout for queries.
    pub(super) fn systemctl(&self, options: &[&str], units: &[&UnitName]) -> Program {
        let mut program = Program::new("systemctl");
        program.args(["--no-pager", "--no-ask-password"]).args(&self.options).args(options).arg("--");
        program.args(units.iter().map(|unit| unit.as_str()));
        program.timeout(if self.user.is_some() { USER_LIMIT } else { QUESTION_LIMIT });
        if let Some(user) = &self.user {
            user.call(&mut program);
        }
        program.plain_locale().env("SYSTEMD_COLORS", "0").env("SYSTEMD_URLIFY", "0");
        program
    }
}

impl User {
    /// Makes the user run a program, so that it reaches the user's manager, and has no more privileges than the user.
    fn call(&self, program: &mut Program) {
        if geteuid().as_raw() != self.uid {
            // Directories in the current environment are not the user's.
            program.clear_env();
            program.identity(Identity { user: Some(self.name.clone()), ..Identity::default() });
        }
        match &self.runtime {
            Some(directory) => program.env("XDG_RUNTIME_DIR", directory),
            None => program.env_remove("XDG_RUNTIME_DIR").env("SYSTEMD_OFFLINE", "1"),
        };
    }
}

/// Returns the output of a query.
pub(super) fn output_of(program: &Program) -> Result<String, ManagerError> {
    said(&program.output()?)
}

/// Returns the output of a successful call.
pub(super) fn said(captured: &Captured) -> Result<String, ManagerError> {
    match captured.ended.failure() {
        None => Ok(String::from_utf8_lossy(&captured.stdout).into_owned()),
        Some(failure) => Err(ManagerError::Failed(lines(captured).into_iter().next().unwrap_or(failure))),
    }
}

/// Returns the lines of a call's standard error, except for those that refer to further information.
fn lines(captured: &Captured) -> Vec<String> {
    let text = String::from_utf8_lossy(&captured.stderr);
    let lines = text.lines().map(str::trim_end);
    lines.filter(|line| !line.is_empty() && !line.starts_with("See ")).map(str::to_owned).collect()
}

/// Returns the arguments of systemctl for a step.
pub(super) fn arguments(step: Step) -> &'static [&'static str] {
    match step {
        Step::Unmask => &["unmask"],
        Step::UnmaskForNow => &["unmask", "--runtime"],
        Step::Disable => &["disable"],
        Step::DisableForNow => &["disable", "--runtime"],
        Step::Enable => &["enable"],
        Step::Mask => &["mask"],
        Step::Stop => &["stop"],
        Step::Start => &["start"],
        Step::Restart => &["restart"],
        Step::Reload => &["reload"],
    }
}

/// Does a step for all these units with one call.
///
/// # Errors
/// If the tool cannot be run.
pub(super) fn act(
    tool: &Tool,
    step: Step,
    tasks: &[Task<'_>],
    timeout: Option<Duration>,
) -> Result<Vec<Done>, ProgramError> {
    let units: Vec<&UnitName> = tasks.iter().map(|task| task.unit).collect();
    let mut program = tool.systemctl(arguments(step), &units);
    // Steps that only change files never take long.
    if timeout.is_some() || !step.is_of_files() {
        program.timeout(timeout);
    }
    let captured = program.output()?;
    let Some(failure) = captured.ended.failure() else { return Ok(vec![Done::Really; tasks.len()]) };
    if captured.ended.timed_out.is_some() {
        return Ok(vec![Done::Failed(vec![failure]); tasks.len()]);
    }
    if step.is_of_files() && tasks.len() > 1 {
        // If one unit fails, systemctl changes none of the others either.
        return tasks.iter().map(|task| one(act(tool, step, &[*task], timeout))).collect();
    }
    Ok(blame(&units, &failure, &lines(&captured)))
}

fn one(done: Result<Vec<Done>, ProgramError>) -> Result<Done, ProgramError> {
    done.map(|done| done.into_iter().next().unwrap_or(Done::Really))
}

/// Assigns a failure to units: to those named in the messages, or to all if none is.
fn blame(units: &[&UnitName], failure: &str, lines: &[String]) -> Vec<Done> {
    let everything = if lines.is_empty() { vec![failure.to_owned()] } else { lines.to_vec() };
    if units.len() == 1 {
        return vec![Done::Failed(everything)];
    }
    let about = |unit: &&UnitName| lines.iter().filter(|line| names(line, unit)).cloned().collect::<Vec<_>>();
    let said: Vec<Vec<String>> = units.iter().map(about).collect();
    if said.iter().all(Vec::is_empty) {
        return vec![Done::Failed(everything); units.len()];
    }
    said.into_iter().map(|said| if said.is_empty() { Done::Really } else { Done::Failed(said) }).collect()
}

/// Returns true if a line contains the unit's name as a word.
fn names(line: &str, unit: &UnitName) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || ":-_.\\@".contains(letter);
    line.split(|letter| !is_part(letter)).any(|word| word.trim_end_matches([':', '.']) == unit.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::systemd::words;

    fn blamed(units: &[&str], lines: &[&str]) -> Vec<Option<Vec<String>>> {
        let units: Vec<UnitName> = units.iter().map(|unit| words::complete(unit).unwrap()).collect();
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let said = |done| match done {
            Done::Failed(said) => Some(said),
            _ => None,
        };
        blame(&units.iter().collect::<Vec<_>>(), "exit status 1", &lines).into_iter().map(said).collect()
    }

    #[test]
    fn who_is_named_is_to_blame() {
        let job = "Job for b.service failed because the control process exited with error code.";
        let missing = "Failed to start c.service: Unit c.service not found.";
        let said = |line: &str| Some(vec![line.to_owned()]);
        assert_eq!(blamed(&["a", "b", "c", "xb"], &[job, missing]), [None, said(job), said(missing), None]);
    }

    #[test]
    fn without_a_name_all_are() {
        let line = "Failed to connect to bus: No such file or directory";
        assert_eq!(blamed(&["a", "b"], &[line]), vec![Some(vec![line.to_owned()]); 2]);
        assert_eq!(blamed(&["a"], &[]), [Some(vec!["exit status 1".to_owned()])]);
    }

    #[test]
    fn one_alone_gets_to_hear_everything() {
        let lines = ["Job for a.service failed.", "See \"systemctl status a.service\" for details.", "And more."];
        assert_eq!(blamed(&["a"], &lines), [Some(lines.map(str::to_owned).to_vec())]);
    }
}
