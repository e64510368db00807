//! The main function of plugins. A process serves one request, as in version 3, or a session.

mod answers;
mod server;
mod set;

use crate::definitions::Hindrance;
use crate::{Applied, Entity, EntityReport, ForceTo, Host, Output, Plugin, ScanError, Span, Stream, Verdict, streams};
use answers::{AnswerSink, Answers, Streams, messages};
use bstr::{BString, ByteSlice};
use holo_protocol::environment as names;
use holo_protocol::session::{Due, Operation, Received, Request, Wanted};
use holo_protocol::words::one_line;
use holo_protocol::{API_VERSION_3, API_VERSION_4, Diagnosis, Info, Message, ScanLimit, Text, WatchLine};
use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

const USAGE: &str = "usage: info | scan [ID...] | check ID | apply ID | force-apply ID | diff ID | forget ID | preview ID | blame ID [PATH] | doctor | health [ID...] | adopt [ID] | watch | session";

/// The command that a plugin process was started with.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    Info,
    Session,
    Watch,
    /// One request, as in version 3.
    Answer(Box<Request>),
}

/// Performs the operation that the command line and the environment specify. The `main` of a plugin consists of this
/// call.
pub fn serve<P: Plugin>(plugin: &P) -> ExitCode {
    // Programs that a plugin runs must not inherit its descriptors, because a process that waits for end of file would
    // also wait for those programs. Nor may they outlive the plugin when it is ended.
    let _prepared = holo_process::prepare();
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let Some(command) = understand(std::env::args_os().skip(1).collect(), variable) else {
        return complain(USAGE, 2);
    };
    if command == Command::Info {
        return match streams::write(Stream::Stdout, info::<P>().to_text().as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let host = match Host::from_environment(|name| std::env::var_os(name)) {
        Ok(host) => host,
        Err(error) => return complain(&error.to_string(), 1),
    };
    let is_version_4 = host.api_version() >= API_VERSION_4;
    let status = match command {
        Command::Info => ExitCode::SUCCESS,
        Command::Session => server::serve_session(plugin, &host),
        Command::Watch if P::WATCHES && is_version_4 => watch(plugin, &host),
        Command::Watch => complain(USAGE, 2),
        Command::Answer(request) if !supports::<P>(&request, is_version_4) => complain(USAGE, 2),
        Command::Answer(request) => match (request.operation, &*request.entities, &request.adopt_dir) {
            (Operation::Adopt, [_], None) => complain(&format!("{} is not set", names::ADOPT_DIR), 1),
            _ => server::serve_request(plugin, &host, &request),
        },
    };
    plugin.end(&host);
    status
}

/// Returns true if the plugin supports a request in this version.
fn supports<P: Plugin>(request: &Request, is_version_4: bool) -> bool {
    match request.operation {
        Operation::Adopt if !P::ADOPTS => false,
        Operation::Scan if request.entities.is_empty() => true,
        // Our plugins have had it in version 3, too.
        Operation::Preview => true,
        operation => is_version_4 || !Operation::OPTIONAL.contains(&operation),
    }
}

fn info<P: Plugin>() -> Info {
    let sends = P::SENDS.iter().filter_map(|sent| sent.split_once('#'));
    Info {
        min_api_version: API_VERSION_3,
        max_api_version: API_VERSION_4,
        session: true,
        operations: Operation::OPTIONAL.into_iter().filter(|&it| it != Operation::Adopt || P::ADOPTS).collect(),
        finds_neighbours: true,
        finds_owners: P::FINDS_OWNERS,
        watches: P::WATCHES,
        witnesses: true,
        parts: true,
        interferes: P::INTERFERES,
        sends: sends.map(|(of, name)| (of.into(), name.into())).collect(),
        concurrency: if P::CONCURRENT { None } else { Some(1) },
        reads: P::READS.iter().map(|pattern| (*pattern).to_owned()).collect(),
    }
}

/// Parses a command line. The environment contains the values of a request that are not arguments.
fn understand(arguments: Vec<OsString>, variable: impl Fn(&str) -> Option<OsString>) -> Option<Command> {
    let mut arguments = arguments.into_iter();
    let word = arguments.next()?.into_string().ok()?;
    let arguments: Vec<Text> = arguments.map(|argument| Text(argument.into_vec().into())).collect();
    let operation = match word.as_str() {
        "info" | "session" | "watch" if !arguments.is_empty() => return None,
        "info" => return Some(Command::Info),
        "session" => return Some(Command::Session),
        "watch" => return Some(Command::Watch),
        word => Operation::from_word(word)?,
    };
    let (fewest, most) = match operation {
        Operation::Scan | Operation::Health => (0, usize::MAX),
        Operation::Doctor => (0, 0),
        Operation::Adopt => (0, 1),
        Operation::Blame => (1, 2),
        _ => (1, 1),
    };
    if !(fewest..=most).contains(&arguments.len()) {
        return None;
    }
    let mut request = Request { entities: arguments, ..Request::new(0, operation) };
    let text = |name| variable(name).map(|value| Text(value.into_vec().into()));
    let texts = |name| -> Vec<Text> {
        let value = variable(name).unwrap_or_default().into_vec();
        value.lines().map(Text::from).collect()
    };
    match operation {
        Operation::Check | Operation::Apply | Operation::ForceApply => {
            let [entity] = &*request.entities else { return None };
            let (received, wanted) = (texts(names::RECEIVED), texts(names::WANTED));
            request.received = vec![Received { entity: entity.clone(), values: received }];
            request.wanted = vec![Wanted { entity: entity.clone(), names: wanted }];
            let since = variable(names::REFRESH_SINCE).and_then(|since| since.to_str()?.parse().ok());
            request.due.extend(since.map(|since| Due { entity: entity.clone(), since }));
            request.refresh.extend(variable(names::REFRESH).filter(|value| value == "1").map(|_| entity.clone()));
        }
        Operation::Blame => request.path = request.entities.drain(1..).next(),
        Operation::Adopt => {
            request.adopt_dir = text(names::ADOPT_DIR);
            request.adopt_resolved = text(names::ADOPT_RESOLVED);
            request.adopt_with = texts(names::ADOPT_WITH);
            request.adopt_include = texts(names::ADOPT_INCLUDE);
        }
        _ => {}
    }
    Some(Command::Answer(Box::new(request)))
}

/// Reports events of entities until the receiver is gone.
fn watch<P: Plugin>(plugin: &P, host: &Host) -> ExitCode {
    // The dispatcher closes our input when it ends the watch, or has ended.
    let listening = std::thread::Builder::new().spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
    if let Err(error) = listening {
        return complain(&error.to_string(), 1);
    }
    let mut answers = Answers::new(Streams::new(host.api_version(), Operation::Scan));
    let mut sink = AnswerSink { answers: &mut answers, entity: None };
    let tell = &mut |line: &WatchLine| messages().and_then(|mut file| file.write_all(&line.to_line())).is_ok();
    let watched = plugin.watch(host, &mut Output::new(&mut sink), tell);
    if watched { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the lines that describe the origins of a file's lines.
fn span_lines(spans: &[Span]) -> Vec<u8> {
    spans.iter().flat_map(|span| [span.to_line(), "\n".into()]).collect::<Vec<_>>().concat()
}

/// Entities with their reports.
type Listed<E> = Box<dyn Iterator<Item = (EntityReport, E)>>;

/// Lists the entities of a scan with their reports.
fn listed<P: Plugin>(
    plugin: &P,
    host: &Host,
    limit: Option<ScanLimit<'_>>,
    output: &mut Output<'_>,
) -> Result<Listed<P::Entity>, ScanError> {
    let reported = |entities: Vec<P::Entity>| {
        entities.into_iter().map(|entity| {
            let mut report = entity.report();
            // The ID by which the dispatcher asks for the entity.
            if let Cow::Owned(id) = one_line(&report.id) {
                report.id = id.into();
            }
            (report, entity)
        })
    };
    let Some(limit) = limit else { return Ok(Box::new(reported(plugin.scan(host, output)?))) };
    let found: Vec<(EntityReport, P::Entity)> = reported(plugin.scan_limited(host, limit, output)?).collect();
    let wanted = limit.wanted(found.iter().map(|(report, _)| report), P::FINDS_OWNERS);
    Ok(Box::new(found.into_iter().zip(wanted).filter_map(|(found, is_wanted)| is_wanted.then_some(found))))
}

/// Returns the lines with all diagnoses of the plugin.
fn diagnoses<P: Plugin>(plugin: &P, host: &Host, output: &mut Output<'_>) -> Vec<u8> {
    let common = crate::plugin::common(host);
    common.iter().chain(&plugin.doctor(host, output)).map(Diagnosis::to_line).collect::<Vec<_>>().concat()
}

fn complain(text: &str, code: u8) -> ExitCode {
    streams::complain(format_args!("!! {text}"));
    ExitCode::from(code)
}

/// Returns the messages for a verdict; `None` for a failure.
fn verdict_messages(verdict: &Verdict) -> Option<Vec<Message>> {
    match verdict {
        Verdict::InDesiredState => Some(vec![Message::NotChanged]),
        Verdict::Skipped(reason) => Some(vec![Message::Skipped(reason.as_str().into())]),
        Verdict::WouldChange(changes) => {
            Some(changes.iter().map(|change| Message::WouldChange(change.as_str().into())).collect())
        }
        Verdict::NeedsForce(to) => Some(vec![refusal(to)]),
        Verdict::Unknown => Some(vec![Message::Unknown]),
        Verdict::Failed => None,
    }
}

/// Returns the messages for the result of an apply.
fn applied_messages(applied: &Applied) -> Vec<Message> {
    match applied {
        Applied::Unchanged => vec![Message::NotChanged],
        Applied::Skipped(reason) => vec![Message::Skipped(reason.as_str().into())],
        Applied::Deferred(reason) => vec![Message::Deferred(reason.as_str().into())],
        Applied::NeedsForce(to) => vec![refusal(to)],
        Applied::Changed(changes) => changes.iter().map(|change| Message::Changed(change.as_str().into())).collect(),
        Applied::ChangedQuietly(changes) => {
            changes.iter().map(|change| Message::ChangedQuietly(change.as_str().into())).collect()
        }
        Applied::Failed { nothing_changed: true, .. } => vec![Message::NotChanged],
        Applied::Failed { .. } => Vec::new(),
    }
}

fn refusal(to: &ForceTo) -> Message {
    match to {
        ForceTo::Overwrite => Message::RequiresForceToOverwrite,
        ForceTo::Restore => Message::RequiresForceToRestore,
        ForceTo::Proceed(reason) => Message::RequiresForce(reason.as_str().into()),
    }
}

/// Prints why an entity cannot be applied.
fn hindered_apply(hindrance: &Hindrance, output: &mut Output<'_>) -> Applied {
    output.error(hindrance.to_string());
    Applied::FAILED_UNCHANGED
}

/// Prints why the effect of applying an entity is unknown: an invalid value is an error, but a missing one may still
/// arrive.
fn hindered_check(hindrance: &Hindrance, output: &mut Output<'_>) -> Verdict {
    match hindrance {
        Hindrance::NotSent(_) => {
            output.warning(hindrance.to_string());
            Verdict::Unknown
        }
        Hindrance::Unfit(message) => {
            output.error(message);
            Verdict::Failed
        }
    }
}

/// Sends the values that others receive from an applied entity.
fn send<E: Entity>(entity: &E, applied: &Applied, host: &Host, names: &[BString], output: &mut Output<'_>) {
    if !names.is_empty() && matches!(applied, Applied::Unchanged | Applied::Changed(_) | Applied::ChangedQuietly(_)) {
        entity.send(host, names, output);
    }
}

/// Sends the values that others receive from a checked entity.
fn foresee<E: Entity>(entity: &E, verdict: &Verdict, host: &Host, names: &[BString], output: &mut Output<'_>) {
    match verdict {
        _ if names.is_empty() => {}
        Verdict::InDesiredState => entity.send(host, names, output),
        Verdict::WouldChange(_) => entity.foresee(host, names, output),
        _ => {}
    }
}

/// Returns the message for an unknown ID.
fn unknown_entity(id: &[u8]) -> Vec<u8> {
    [b"unknown entity ID \"", id, b"\""].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, Asset, Information, Receipt, Written};
    use bstr::ByteSlice;
    use holo_testing::random::{Random, cases};

    /// Returns a random text, which may be empty, or contain line breaks and the words of reports.
    fn hostile(random: &mut Random) -> BString {
        let parts = [
            "",
            "\n",
            "\n\n",
            "\r\n",
            "a",
            " ",
            ":",
            ": ",
            "#",
            "/x",
            "a:b",
            "ENTITY",
            "ENTITY: x",
            "NEEDS",
            "\nNEEDS: x",
            "SOURCE",
            "ACTION",
            "RECEIVES",
            "POLL",
            "LIMIT: often",
            "(",
            ")",
            " (",
            "\t",
            "\0",
            "\\n",
            "\u{fc}",
            "yes",
        ];
        (0..random.below(4)).map(|_| *random.pick(&parts)).collect::<String>().into()
    }

    fn some<T>(random: &mut Random, make: impl Fn(&mut Random) -> T) -> Vec<T> {
        (0..random.below(3)).map(|_| make(random)).collect()
    }

    fn hostile_report(random: &mut Random) -> EntityReport {
        let mut report = EntityReport::new(hostile(random));
        report.action = Action { verb: hostile(random), reason: random.chance(50).then(|| hostile(random)) };
        report.sources = some(random, hostile);
        report.information = some(random, |random| Information { key: hostile(random), value: hostile(random) });
        let edges = &mut report.edges;
        let lists = [
            &mut edges.after,
            &mut edges.before,
            &mut edges.requires,
            &mut edges.subscribes,
            &mut edges.notifies,
            &mut edges.sends,
            &mut edges.watch,
        ];
        lists.into_iter().for_each(|list| list.extend(some(random, hostile)));
        for assets in [&mut edges.provides, &mut edges.needs, &mut edges.owns] {
            assets.extend(some(random, |random| Asset { kind: hostile(random), value: hostile(random) }));
        }
        let receipt =
            |random: &mut Random| Receipt { key: hostile(random), sender: hostile(random), name: hostile(random) };
        edges.receives.extend(some(random, receipt));
        edges.written.extend(some(random, |random| Written { location: hostile(random), id: hostile(random) }));
        report
    }

    #[test]
    fn written_reports_are_valid_whatever_their_values_are() {
        cases(5000, |random| {
            let reports: Vec<EntityReport> = (0..random.below(4)).map(|_| hostile_report(random)).collect();
            let mut ids: Vec<BString> = reports.iter().map(|report| report.id.replace("\n", "\\n").into()).collect();
            ids.retain(|id| !id.is_empty());
            for version in [API_VERSION_3, API_VERSION_4] {
                let mut text = Vec::new();
                reports.iter().for_each(|report| report.write(&mut text, version));
                let read = EntityReport::parse_all(&text, version);
                let read = read.unwrap_or_else(|errors| panic!("{errors:?} in {:?}", text.as_bstr()));
                let read_ids: Vec<BString> = read.iter().map(|report| report.id.clone()).collect();
                assert_eq!(read_ids, ids, "{:?}", text.as_bstr());
                // What is read can be written again.
                let mut again = Vec::new();
                read.iter().for_each(|report| report.write(&mut again, version));
                assert_eq!(EntityReport::parse_all(&again, version).unwrap(), read);
            }
        });
    }

    #[test]
    fn command_lines_are_requests() {
        let understood = |words: &[&str]| understand(words.iter().map(OsString::from).collect(), |_| None);
        let answer = |operation, entities: &[&str]| {
            let entities = entities.iter().map(|&id| Text::from(id)).collect();
            Some(Command::Answer(Box::new(Request { entities, ..Request::new(0, operation) })))
        };
        assert_eq!(understood(&["info"]), Some(Command::Info));
        assert_eq!(understood(&["session"]), Some(Command::Session));
        assert_eq!(understood(&["scan"]), answer(Operation::Scan, &[]));
        assert_eq!(understood(&["scan", "a", "b"]), answer(Operation::Scan, &["a", "b"]));
        assert_eq!(understood(&["diff", "a:b"]), answer(Operation::Diff, &["a:b"]));
        assert_eq!(understood(&["health", "a"]), answer(Operation::Health, &["a"]));
        assert_eq!(understood(&["adopt"]), answer(Operation::Adopt, &[]));
        assert_eq!(understood(&["adopt", "a"]), answer(Operation::Adopt, &["a"]));
        assert_eq!(understood(&["blame", "a"]), answer(Operation::Blame, &["a"]));
        let Some(Command::Answer(blame)) = understood(&["blame", "a", "/x"]) else { panic!() };
        assert_eq!((blame.entities, blame.path), (vec!["a".into()], Some("/x".into())));
        for odd in [
            &[][..],
            &["blame"],
            &["blame", "a", "b", "c"],
            &["apply"],
            &["apply", "a", "b"],
            &["doctor", "a"],
            &["session", "a"],
            &["frobnicate"],
        ] {
            assert_eq!(understood(odd), None);
        }
    }

    #[test]
    fn variables_complete_a_request() {
        let variables = [("HOLO_REFRESH", "1"), ("HOLO_RECEIVED", "A=1\nB=2\n"), ("HOLO_WANTED", "x")];
        let variable =
            |name: &str| variables.iter().find(|(given, _)| *given == name).map(|(_, value)| OsString::from(value));
        let apply = understand(vec!["force-apply".into(), "a:b".into()], variable);
        let Some(Command::Answer(request)) = apply else { panic!() };
        let entity = Text::from("a:b");
        assert_eq!((request.operation, &request.entities), (Operation::ForceApply, &vec![entity.clone()]));
        assert_eq!(request.refresh, std::slice::from_ref(&entity));
        assert_eq!(request.received, [Received { entity: entity.clone(), values: vec!["A=1".into(), "B=2".into()] }]);
        assert_eq!(request.wanted, [Wanted { entity, names: vec!["x".into()] }]);
    }
}
