//! The main function of plugins: the operations of version 3, and sessions.

mod adoption;
mod operations;
mod session;

use crate::definitions::Hindrance;
use crate::{Applied, Entity, EntityReport, ForceTo, Host, Output, Plugin, ScanError, Span, Verdict};
use bstr::BString;
use holo_protocol::words::one_line;
use holo_protocol::{API_VERSION_3, API_VERSION_4, Diagnosis, Info, Message, ScanLimit};
use std::borrow::Cow;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: info | scan [ID...] | check ID | apply ID | force-apply ID | diff ID | preview ID | blame ID [PATH] | doctor | health [ID...] | adopt [ID] | watch | session";

/// The operation that a plugin process was started for.
#[derive(Debug, PartialEq, Eq)]
enum Operation {
    Info,
    /// Limited to these IDs, unless empty.
    Scan {
        ids: Vec<BString>,
    },
    Check {
        id: Vec<u8>,
    },
    Apply {
        id: Vec<u8>,
        force: bool,
    },
    Diff {
        id: Vec<u8>,
    },
    Preview {
        id: Vec<u8>,
    },
    Doctor,
    /// Limited to these IDs, unless empty.
    Health {
        ids: Vec<BString>,
    },
    Blame {
        id: Vec<u8>,
        path: Option<PathBuf>,
    },
    /// Lists candidates if there is no ID.
    Adopt {
        id: Option<Vec<u8>>,
    },
    Session,
    Watch,
}

/// Performs the operation that the command line and the environment specify. The `main` of a plugin consists of this
/// call.
pub fn serve<P: Plugin>(plugin: &P) -> ExitCode {
    // Programs that a plugin runs must not inherit its descriptors, because a process that waits for end of file would
    // also wait for those programs. Nor may they outlive the plugin when it is ended.
    let _prepared = holo_process::prepare();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let Some(operation) = understand(arguments) else {
        return complain(USAGE, 2);
    };
    if operation == Operation::Info {
        let concurrency = if P::CONCURRENT { None } else { Some(1) };
        let info = Info {
            min_api_version: API_VERSION_3,
            max_api_version: API_VERSION_4,
            session: true,
            preview: true,
            doctor: true,
            health: true,
            blames: true,
            limits_scan: true,
            finds_neighbours: true,
            adopts: P::ADOPTS,
            watches: P::WATCHES,
            sends: P::SENDS
                .iter()
                .filter_map(|sent| sent.split_once('#'))
                .map(|(of, name)| (of.into(), name.into()))
                .collect(),
            concurrency,
        };
        return match std::io::stdout().write_all(info.to_text().as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    match Host::from_environment(|name| std::env::var_os(name)) {
        Ok(host) => {
            let status = match operation {
                Operation::Info => ExitCode::SUCCESS,
                // Not supported by version 3.
                Operation::Scan { ids } if !ids.is_empty() && host.api_version() < API_VERSION_4 => complain(USAGE, 2),
                Operation::Scan { ids } => operations::scan(plugin, &host, &ids),
                Operation::Check { id } => operations::check(plugin, &host, &id),
                Operation::Apply { id, force } => operations::apply(plugin, &host, &id, force),
                Operation::Diff { id } => operations::diff(plugin, &host, &id, |entity| entity.diff(&host)),
                Operation::Preview { id } => operations::diff(plugin, &host, &id, |entity| entity.preview(&host)),
                Operation::Doctor if host.api_version() < API_VERSION_4 => complain(USAGE, 2),
                Operation::Doctor => operations::doctor(plugin, &host),
                Operation::Health { .. } if host.api_version() < API_VERSION_4 => complain(USAGE, 2),
                Operation::Health { ids } => operations::health(plugin, &host, &ids),
                Operation::Blame { .. } if host.api_version() < API_VERSION_4 => complain(USAGE, 2),
                Operation::Blame { id, path } => operations::blame(plugin, &host, &id, path.as_deref()),
                Operation::Adopt { .. } if !P::ADOPTS || host.api_version() < API_VERSION_4 => complain(USAGE, 2),
                Operation::Adopt { id: None } => adoption::candidates(plugin, &host),
                Operation::Adopt { id: Some(id) } => adoption::adopt(plugin, &host, &id),
                Operation::Watch if !P::WATCHES || host.api_version() < API_VERSION_4 => complain(USAGE, 2),
                Operation::Watch => operations::watch(plugin, &host),
                Operation::Session => session::serve(plugin, &host),
            };
            plugin.end(&host);
            status
        }
        Err(error) => complain(&error.to_string(), 1),
    }
}

fn understand(arguments: Vec<OsString>) -> Option<Operation> {
    let mut arguments = arguments.into_iter();
    let word = arguments.next()?.into_string().ok()?;
    if word == "scan" || word == "health" {
        let ids = arguments.map(|id| id.into_vec().into()).collect();
        return Some(if word == "scan" { Operation::Scan { ids } } else { Operation::Health { ids } });
    }
    let id = arguments.next().map(OsString::into_vec);
    if word == "blame" {
        let path = arguments.next().map(PathBuf::from);
        return id.filter(|_| arguments.next().is_none()).map(|id| Operation::Blame { id, path });
    }
    match (word.as_str(), id, arguments.next()) {
        ("info", None, None) => Some(Operation::Info),
        ("doctor", None, None) => Some(Operation::Doctor),
        ("session", None, None) => Some(Operation::Session),
        ("watch", None, None) => Some(Operation::Watch),
        ("check", Some(id), None) => Some(Operation::Check { id }),
        ("apply", Some(id), None) => Some(Operation::Apply { id, force: false }),
        ("force-apply", Some(id), None) => Some(Operation::Apply { id, force: true }),
        ("diff", Some(id), None) => Some(Operation::Diff { id }),
        ("preview", Some(id), None) => Some(Operation::Preview { id }),
        ("adopt", id, None) => Some(Operation::Adopt { id }),
        _ => None,
    }
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
    let wanted = limit.wanted(found.iter().map(|(report, _)| report));
    Ok(Box::new(found.into_iter().zip(wanted).filter_map(|(found, is_wanted)| is_wanted.then_some(found))))
}

/// Returns the lines with all diagnoses of the plugin.
fn diagnoses<P: Plugin>(plugin: &P, host: &Host, output: &mut Output<'_>) -> Vec<u8> {
    let common = crate::plugin::common(host);
    common.iter().chain(&plugin.doctor(host, output)).map(Diagnosis::to_line).collect::<Vec<_>>().concat()
}

fn complain(text: &str, code: u8) -> ExitCode {
    // If stderr is closed too, only the exit code remains.
    let _ = writeln!(std::io::stderr(), "!! {text}");
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
    fn understands_what_version_3_says() {
        let understood = |words: &[&str]| understand(words.iter().map(OsString::from).collect());
        assert_eq!(understood(&["info"]), Some(Operation::Info));
        assert_eq!(understood(&["force-apply", "a:b"]), Some(Operation::Apply { id: b"a:b".to_vec(), force: true }));
        assert_eq!(understood(&["scan"]), Some(Operation::Scan { ids: Vec::new() }));
        assert_eq!(understood(&["scan", "a", "b"]), Some(Operation::Scan { ids: vec!["a".into(), "b".into()] }));
        assert_eq!(understood(&["health", "a"]), Some(Operation::Health { ids: vec!["a".into()] }));
        assert_eq!(understood(&["adopt"]), Some(Operation::Adopt { id: None }));
        assert_eq!(understood(&["adopt", "a"]), Some(Operation::Adopt { id: Some(b"a".to_vec()) }));
        let path = Some("/x".into());
        assert_eq!(understood(&["blame", "a", "/x"]), Some(Operation::Blame { id: b"a".to_vec(), path }));
        assert_eq!(understood(&["blame", "a"]), Some(Operation::Blame { id: b"a".to_vec(), path: None }));
        for odd in [
            &[][..],
            &["blame"],
            &["blame", "a", "b", "c"],
            &["apply"],
            &["apply", "a", "b"],
            &["session", "a"],
            &["frobnicate"],
        ] {
            assert_eq!(understood(odd), None);
        }
    }
}
