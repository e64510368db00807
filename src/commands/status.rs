//! `holo status`

use super::check::{self, Findings, Preview, Told};
use super::{Context, history, use_pinned};
use crate::cli::{Selection, Status as Arguments};
use crate::error::{FatalError, exit};
use crate::generations::{Fingerprint, Pin};
use crate::history::{Off, OffState, Run, Standing, Standings};
use crate::host::config;
use crate::host::root::Root;
use crate::host::settings::Settings;
use crate::plan::refresh::Refreshes;
use crate::report::table::Cell;
use crate::report::{Event, Reporter, Silence};
use bstr::{BStr, BString, ByteSlice};
use holo_events::{Line, NextLine, OffLine, PauseLine, StatusLine, Text};
use holo_state::Database;
use jiff::Timestamp;
use std::borrow::Cow;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

/// The number of entities that are named for each state.
const NAMED: usize = 10;
/// How long the agent is waited for.
const PATIENCE: Duration = Duration::from_millis(500);
/// The control socket of the agent, below the root.
const AGENT: &str = "run/holo-agent/control.sock";
/// The request for its status.
const REQUEST: &[u8] = b"{\"request\":\"status\"}\n";
/// The maximum size of its answer, in bytes.
const MAX_ANSWER: u64 = 16 << 20;

pub(super) fn run(arguments: &Arguments, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let mut status = Status::read(settings, *reporter)?;
    if (arguments.fresh || status.standing.is_none()) && status.first_step.is_none() {
        use_pinned(settings, *reporter)?;
        let mut told = Told::default();
        let mut findings = Findings::new(*reporter, &mut told);
        let mut standings = Standings::new(&mut findings, true);
        let selection = Selection { selectors: Vec::new() };
        let done = check::walk(settings, interrupt, &mut standings, &selection, Preview::default());
        status.standing = standings.keep(settings, "check", &done, &Database::new(settings.root.state_database()));
        status.is_outdated = false;
        done?;
    }
    if arguments.output.json {
        reporter.event(Event::Line(&Line::Status(Box::new(status.line()))));
    } else {
        reporter.event(Event::Text(&status.for_people()));
    }
    Ok(status.exit_code())
}

/// Returns what is known about the state of the machine without looking, to be shown above the help; `None` if nothing
/// is known, or this user may not know it.
pub(super) fn at_a_glance(settings: &Settings) -> Option<Vec<u8>> {
    let status = Status::read(settings, &mut Silence).ok()?;
    (status.standing.is_some() || status.first_step.is_some()).then(|| status.for_people())
}

/// The state of a machine.
struct Status {
    standing: Option<Standing>,
    /// Whether definitions have changed since.
    is_outdated: bool,
    /// The command that enables a first plugin, if none is.
    first_step: Option<BString>,
    /// The IDs of the entities whose refresh is due.
    due: Vec<BString>,
    last_run: Option<Run>,
    pin: Option<Pin>,
    agent: Option<Agent>,
}

/// The state of the agent.
struct Agent {
    /// What it is doing, in a word.
    doing: String,
    pause: Option<PauseLine<'static>>,
}

impl Status {
    fn read(settings: &Settings, reporter: &mut dyn Reporter) -> Result<Status, FatalError> {
        let root = &settings.root;
        let last_run = history::open(settings, reporter)?.runs().next();
        let database = Rc::new(Database::snapshot(root.state_database()));
        let standing = Standing::read(&database).map_err(FatalError::could_not_run)?;
        let refreshes = Refreshes::load(&database).map_err(FatalError::could_not_run)?;
        let pin = Pin::read(root).map_err(FatalError::could_not_run)?;
        let since = standing.as_ref().map(|standing| standing.time).filter(|_| pin.is_none());
        Ok(Status {
            is_outdated: since.is_some_and(|since| Fingerprint::has_changed_since(root, since)),
            standing,
            first_step: first_step(root),
            due: refreshes.due().map(|(target, _)| target.to_owned()).collect(),
            last_run,
            pin,
            agent: agent(root),
        })
    }

    fn exit_code(&self) -> u8 {
        let Some(standing) = &self.standing else { return exit::DONE };
        let has_failed = standing.off.iter().any(|off| off.state == OffState::Failed);
        if has_failed || standing.is_flawed {
            exit::FAILED
        } else if standing.count() + self.due.len() > 0 {
            exit::PENDING
        } else {
            exit::DONE
        }
    }

    fn for_people(&self) -> Vec<u8> {
        let mut text = self.summary();
        if let Some(standing) = &self.standing {
            for (state, title) in [
                (OffState::Pending, "to be changed"),
                (OffState::Refused, "changed by hand"),
                (OffState::Skipped, "waiting for others"),
                (OffState::Failed, "failed"),
            ] {
                list(&mut text, title, standing, state);
            }
        }
        if !self.due.is_empty() {
            line(&mut text, "refreshes due:", bstr::join(", ", &self.due));
        }
        if let Some(pin) = &self.pin {
            line(&mut text, "in use:", format!("generation {}, until `holo rollback --release`", pin.generation));
        }
        if let Some(run) = &self.last_run {
            let time = Cell::time(history::lines::began(run)).for_people();
            let what = history::lines::counts(run);
            let what = if what.is_empty() { history::lines::result(run).to_owned() } else { what };
            line(&mut text, "last run:", format!("{time}, {what} ({})", run.id));
        }
        if let Some(agent) = &self.agent {
            line(&mut text, "agent:", agent.for_people());
        }
        let next = self.next();
        let width = next.iter().map(|(command, _)| command.len()).filter(|width| *width < 40).max().unwrap_or_default();
        for (index, (command, purpose)) in next.iter().enumerate() {
            text.extend_from_slice(if index == 0 { b"\nnext:\n" } else { b"" });
            text.extend_from_slice(b"  ");
            text.extend_from_slice(command);
            text.extend(std::iter::repeat_n(b' ', width.saturating_sub(command.len()) + 2));
            text.extend_from_slice(purpose.as_bytes());
            text.push(b'\n');
        }
        text
    }

    /// Returns the first lines: whether everything is in its desired state, and since when that is known.
    fn summary(&self) -> Vec<u8> {
        let Some(standing) = &self.standing else {
            return b"Nothing is configured: no plugin is enabled in holorc.\n".to_vec();
        };
        let (entities, off) = (standing.entities, standing.count());
        let flawed = if standing.is_flawed { "Some definitions are invalid: see `holo check`.\n" } else { "" };
        let state = match (entities, off) {
            (0, _) => "Nothing is managed yet: there are no definitions.".to_owned(),
            (1, 0) => "The only entity is in its desired state.".to_owned(),
            (_, 0) => format!("All {entities} entities are in their desired state."),
            _ => format!(
                "{off} of {entities} entities {} not in the desired state.",
                if off == 1 { "is" } else { "are" }
            ),
        };
        let time = Cell::Time(standing.time).for_people();
        let age = Timestamp::now().duration_since(standing.time).as_secs();
        let age = match u64::try_from(age) {
            Ok(seconds @ 1..) => format!(", {} ago", Cell::Duration(Duration::from_secs(seconds)).for_people()),
            _ => String::new(),
        };
        let outdated = if self.is_outdated { "; definitions have changed since then" } else { "" };
        format!("{state}\n{flawed}(`holo {}` of {time}{age}{outdated})\n", standing.command).into_bytes()
    }

    /// Returns commands that help, in shell syntax, each with its purpose.
    fn next(&self) -> Vec<(BString, &'static str)> {
        let command = |words: &[&BStr]| {
            let quoted = words.iter().map(|word| match word.to_str() {
                Ok(word) => shlex::try_quote(word).map_or_else(|_| word.into(), |quoted| quoted.into_owned().into()),
                Err(_) => BString::from(word.to_vec()),
            });
            BString::from(bstr::join(" ", quoted.collect::<Vec<_>>()))
        };
        let holo = |verb: &[&str], id: Option<&Off>| {
            let words = ["holo"].into_iter().chain(verb.iter().copied()).map(BStr::new);
            let id = id.map(|off| off.id.as_bstr());
            command(&words.chain(id).collect::<Vec<_>>())
        };
        if let Some(step) = &self.first_step {
            return vec![(step.clone(), "enable the plugin for files, described in holo-files(8)")];
        }
        let Some(standing) = &self.standing else { return Vec::new() };
        if standing.entities == 0 {
            return vec![
                (holo(&["adopt", "FILE"], None), "write a definition of a file as it is now"),
                (holo(&["adopt", "--all", "--dry-run"], None), "list everything that could be adopted"),
            ];
        }
        let mut next = Vec::new();
        let first = |state| standing.off.iter().find(|off| off.state == state);
        if self.is_outdated {
            next.push((holo(&["status", "--fresh"], None), "look again"));
        }
        if self.agent.as_ref().is_some_and(|agent| agent.pause.is_some()) {
            next.push(("holo-agent resume".into(), "let the agent make changes again"));
        }
        if first(OffState::Pending).is_some() {
            next.push((holo(&["check", "--diff"], None), "see what would be changed"));
        }
        if first(OffState::Pending).is_some() || !self.due.is_empty() {
            next.push((holo(&["apply"], None), "bring everything into its desired state"));
        }
        if let Some(off) = first(OffState::Refused) {
            next.push((holo(&["diff"], Some(off)), "see what was changed by hand"));
            next.push((holo(&["adopt"], Some(off)), "keep the change"));
            next.push((holo(&["apply", "--force"], Some(off)), "discard the change"));
        }
        if let Some(off) = first(OffState::Failed) {
            next.push((holo(&["why"], Some(off)), "see where it is defined"));
            next.push((holo(&["apply"], Some(off)), "try again"));
        }
        next
    }

    fn line(&self) -> StatusLine<'_> {
        let standing = self.standing.as_ref();
        let off = standing.into_iter().flat_map(|standing| &standing.off);
        StatusLine {
            time: standing.map(|standing| standing.time.to_string()),
            command: standing.map(|standing| standing.command.as_str().into()),
            outdated: self.is_outdated,
            flawed: standing.is_some_and(|standing| standing.is_flawed),
            entities: standing.map_or(0, |standing| standing.entities),
            off: off
                .map(|Off { id, plugin, state, about }| OffLine {
                    id: (&**id.as_bstr()).into(),
                    plugin: plugin.into(),
                    state: state.name().into(),
                    about: about.as_ref().map(|about| (&**about.as_bstr()).into()),
                })
                .collect(),
            more: standing.map_or(0, |standing| standing.more),
            refreshes_due: self.due.iter().map(|id| (&***id).into()).collect(),
            last_run: self.last_run.as_ref().map(history::lines::run),
            pinned: self.pin.as_ref().map(|pin| pin.generation),
            agent: self.agent.as_ref().map(|agent| agent.doing.as_str().into()),
            agent_paused: self.agent.as_ref().and_then(|agent| agent.pause.clone()),
            next: self
                .next()
                .into_iter()
                .map(|(command, purpose)| NextLine { command: Text(Cow::Owned(command)), purpose: purpose.into() })
                .collect(),
        }
    }
}

/// Adds the entities in a state: their number by plugin, and the first ones.
fn list(text: &mut Vec<u8>, title: &str, standing: &Standing, state: OffState) {
    let off: Vec<&Off> = standing.off.iter().filter(|off| off.state == state).collect();
    if off.is_empty() {
        return;
    }
    let plugins: Vec<String> =
        standing.by_plugin(state).into_iter().map(|(plugin, count)| format!("{plugin} {count}")).collect();
    let least = if standing.more > 0 { "at least " } else { "" };
    text.extend_from_slice(format!("\n{title}: {least}{} ({})\n", off.len(), plugins.join(", ")).as_bytes());
    for Off { id, about, .. } in off.iter().take(NAMED) {
        text.extend_from_slice(b"  ");
        text.extend_from_slice(id.as_bstr());
        if let Some(about) = about.as_ref().and_then(|about| about.as_bstr().lines().next()) {
            text.extend_from_slice(b": ");
            text.extend_from_slice(about);
        }
        text.push(b'\n');
    }
    if off.len() > NAMED {
        text.extend_from_slice(format!("  and {} more\n", off.len() - NAMED).as_bytes());
    }
}

fn line(text: &mut Vec<u8>, title: &str, value: impl AsRef<[u8]>) {
    text.extend_from_slice(format!("\n{title} ").as_bytes());
    text.extend_from_slice(value.as_ref());
    text.push(b'\n');
}

/// Returns the command that enables a first plugin, if none is.
fn first_step(root: &Root) -> Option<BString> {
    let (file, is_first) = match config::read(root) {
        Ok(configuration) => (root.holorc_snippets().join("50-files"), configuration.plugins.is_empty()),
        Err(_) => (root.holorc(), !root.holorc().exists()),
    };
    let command = format!("mkdir -p {}; echo plugin files >{}", file.parent()?.display(), file.display());
    is_first.then(|| command.into())
}

impl Agent {
    fn for_people(&self) -> String {
        let Agent { doing, pause: Some(PauseLine { since, until, by, reason }) } = self else {
            return self.doing.clone();
        };
        let time = |time: &str| time.parse().map_or_else(|_| time.to_owned(), |time| Cell::Time(time).for_people());
        let until = until.as_ref().map(|until| format!(", until {}", time(until))).unwrap_or_default();
        format!("{doing}, changing nothing: paused since {} by {by}{until}: {reason}", time(since))
    }
}

/// Returns the state of the agent; `None` if it is not installed or not running.
fn agent(root: &Root) -> Option<Agent> {
    let unreachable = || Agent { doing: "unreachable".to_owned(), pause: None };
    let socket = match UnixStream::connect(root.join(AGENT)) {
        Ok(socket) => socket,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(_) => return Some(unreachable()),
    };
    let mut answer = Vec::new();
    let read = socket
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| (&socket).write_all(REQUEST))
        .and_then(|()| (&socket).take(MAX_ANSWER).read_to_end(&mut answer));
    let status = read.ok().and_then(|_| serde_json::from_slice::<serde_json::Value>(&answer).ok());
    let parse = |status: serde_json::Value| {
        let doing = status.pointer("/doing/state")?.as_str()?.to_owned();
        let pause = status.get("paused").and_then(|pause| serde_json::from_value(pause.clone()).ok());
        Some(Agent { doing, pause })
    };
    Some(status.and_then(parse).unwrap_or_else(unreachable))
}
