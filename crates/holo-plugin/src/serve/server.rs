//! Answers requests: those of a session, which serves a whole run, or the one that a process was started for.

use super::answers::{AnswerSink, Answers, JsonLines, Streams, Wire, messages};
use super::set::EntitySet;
use super::{
    applied_messages, complain, diagnoses, hindered_apply, hindered_check, listed, span_lines, unknown_entity,
    verdict_messages,
};
use crate::{
    Adopted, Adoption, Applied, Entity, FilePair, ForgetError, Host, Job, Mode, Output, Plugin, SetAnswers, Silence,
    Sink, Verdict, concurrently,
};
use bstr::{BString, ByteSlice};
use holo_protocol::session::{Operation, Outcome, Request};
use holo_protocol::{AdoptMessage, OnEdit, ScanLimit, Text, Witness};
use holo_system::offline::DEFERRAL;
use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, BufWriter};
use std::mem;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The approximate number of bytes of a scan report per answer. Fewer answers are read faster, and the dispatcher reads
/// one while the next is created.
const REPORTED_TOGETHER: usize = 32 << 10;

/// Answers the requests on standard input until its end.
pub(super) fn serve_session<P: Plugin>(plugin: &P, host: &Host) -> ExitCode {
    let reason = holo_protocol::words::reason;
    let wire = match messages() {
        Ok(messages) => JsonLines(BufWriter::new(messages)),
        Err(error) => return complain(&format!("cannot write to file descriptor 3: {}", reason(&error)), 1),
    };
    let mut server = Server::new(plugin, host, wire);
    for line in io::stdin().lock().split(b'\n') {
        let request = match line.map(|line| serde_json::from_slice::<Request>(&line)) {
            Ok(Ok(request)) => request,
            Ok(Err(error)) => return complain(&format!("cannot understand the request: {error}"), 1),
            Err(error) => return complain(&format!("cannot read requests: {}", reason(&error)), 1),
        };
        if server.answer(&request).is_err() {
            // The dispatcher has closed the connection.
            return ExitCode::FAILURE;
        }
    }
    // The process ends, which frees the memory of thousands of entities at once.
    mem::forget(server.known);
    ExitCode::SUCCESS
}

/// Answers one request on the streams of this process.
pub(super) fn serve_request<P: Plugin>(plugin: &P, host: &Host, request: &Request) -> ExitCode {
    let mut server = Server::new(plugin, host, Streams::new(host.api_version(), request.operation));
    match server.answer(request) {
        Ok(()) => server.answers.wire.exit_code(),
        Err(_) => ExitCode::FAILURE,
    }
}

struct Server<'a, P: Plugin, W> {
    plugin: &'a P,
    host: Host,
    /// The entities that have been found so far.
    known: HashMap<BString, P::Entity>,
    answers: Answers<W>,
}

impl<'a, P: Plugin, W: Wire> Server<'a, P, W> {
    fn new(plugin: &'a P, host: &Host, wire: W) -> Server<'a, P, W> {
        Server { plugin, host: host.clone(), known: HashMap::new(), answers: Answers::new(wire) }
    }

    fn answer(&mut self, request: &Request) -> io::Result<()> {
        self.answers.request = request.request;
        // Other plugins may have changed accounts since the last request.
        self.host.accounts().forget_owners();
        if !request.resource_dirs.is_empty() {
            self.host.set_resources(
                request.resource_dirs.iter().map(|path| path.as_bstr().to_path_lossy().into()).collect(),
            );
        }
        if !request.renewed.is_empty() {
            self.renew(&request.renewed.iter().map(|id| id.0.clone()).collect::<Vec<_>>());
        }
        let ids = || request.entities.iter().map(|id| id.0.clone());
        let result = match request.operation {
            Operation::Scan => {
                let ids: Vec<BString> = ids().collect();
                let [needs, provides, owns] = request.assets();
                let is_about_neighbours = !needs.is_empty() || !provides.is_empty();
                let limit = match &request.prefix {
                    Some(prefix) => Some(ScanLimit::Prefix(prefix.as_bstr())),
                    None if !ids.is_empty() => Some(ScanLimit::Ids(&ids)),
                    None if is_about_neighbours => Some(ScanLimit::Neighbours { needs: &needs, provides: &provides }),
                    None if !owns.is_empty() => Some(ScanLimit::Owners(&owns)),
                    None => None,
                };
                self.scan(limit, request.remembers)
            }
            Operation::Check => self.check(ids().collect(), &Modes::new(request, &self.host)),
            Operation::Apply => self.apply(ids().collect(), false, &Modes::new(request, &self.host)),
            Operation::ForceApply => self.apply(ids().collect(), true, &Modes::new(request, &self.host)),
            Operation::Forget => self.forget(ids().collect(), &Modes::new(request, &self.host)),
            Operation::Diff => self.diff(ids().collect(), P::Entity::diff),
            Operation::Preview => self.diff(ids().collect(), P::Entity::preview),
            Operation::Doctor => self.doctor(),
            Operation::Health => self.health(ids().collect()),
            Operation::Blame => {
                let path = request.path.as_ref().map(|path| path.as_bstr().to_path_lossy().into_owned());
                self.blame(ids().collect(), path.as_deref())
            }
            Operation::Adopt => match &*request.entities {
                [] => self.candidates(request),
                [id] => self.adopt(&id.0, request),
                _ => Outcome::Failed,
            },
        };
        self.answers.end(result)
    }

    fn scan(&mut self, limit: Option<ScanLimit<'_>>, remembers: bool) -> Outcome {
        let mut sink = AnswerSink { answers: &mut self.answers, entity: None };
        let listed = listed(self.plugin, &self.host, limit, &mut Output::new(&mut sink));
        let Ok(entities) = listed else { return Outcome::Failed };
        // A limited scan may be one of several, and the entities of the others are still needed.
        if limit.is_none() {
            self.known.clear();
        }
        let mut text = Vec::new();
        for (report, entity) in entities {
            report.write(&mut text, self.host.api_version());
            if text.len() >= REPORTED_TOGETHER {
                self.answers.report(mem::take(&mut text));
            }
            self.known.insert(report.id, entity);
        }
        self.answers.report(text);
        if remembers && limit.is_none() {
            self.witness_scan();
        }
        Outcome::Done
    }

    /// Reports the witnesses of a full scan. A list that rests on facts or data has none, because facts are not files.
    fn witness_scan(&mut self) {
        if self.host.knowledge().is_used() {
            return;
        }
        let witnesses = match self.known.is_empty() {
            true => Some(vec![Witness::file(self.host.state_dir())]),
            false => self.plugin.scan_witnesses(&self.host),
        };
        if let Some(lines) = witnesses.as_deref().and_then(lines_of) {
            self.answers.text(None, &lines);
        }
    }

    fn doctor(&mut self) -> Outcome {
        let mut sink = AnswerSink { answers: &mut self.answers, entity: None };
        let lines = diagnoses(self.plugin, &self.host, &mut Output::new(&mut sink));
        self.answers.report(lines);
        Outcome::Done
    }

    /// Runs the health checks of the entities with these IDs, or of all entities if there are none.
    fn health(&mut self, mut ids: Vec<BString>) -> Outcome {
        let is_known = !ids.is_empty() && ids.iter().all(|id| self.known.contains_key(id));
        if !is_known {
            let limit = (!ids.is_empty()).then_some(ScanLimit::Ids(&ids));
            let mut sink = AnswerSink { answers: &mut self.answers, entity: None };
            // An earlier scan of this process has printed the errors of definitions.
            let sink: &mut dyn Sink = if self.known.is_empty() { &mut sink } else { &mut Silence };
            let found = listed(self.plugin, &self.host, limit, &mut Output::new(sink));
            let Ok(found) = found else { return Outcome::Failed };
            self.known.extend(found.map(|(report, entity)| (report.id, entity)));
        }
        if ids.is_empty() {
            ids.extend(self.known.keys().cloned());
            ids.sort();
        }
        let entities = ids.iter().filter_map(|id| Some((id, self.known.get(id)?.health_checks())));
        self.answers.report(crate::health::lines(entities, &self.host));
        Outcome::Done
    }

    fn blame(&mut self, ids: Vec<BString>, path: Option<&Path>) -> Outcome {
        for id in self.find_all(ids) {
            let spans = self.known.get(&id).and_then(|entity| entity.blame(&self.host, path));
            self.answers.text(Some(&id), &span_lines(&spans.unwrap_or_default()));
            self.answers.result(&id, None, Outcome::Done);
        }
        Outcome::Done
    }

    fn candidates(&mut self, request: &Request) -> Outcome {
        let include: Vec<PathBuf> =
            request.adopt_include.iter().map(|path| path.as_bstr().to_path_lossy().into_owned()).collect();
        let mut sink = AnswerSink { answers: &mut self.answers, entity: None };
        let listed = self.plugin.candidates(&self.host, &include, &mut Output::new(&mut sink));
        let Ok(candidates) = listed else { return Outcome::Failed };
        let lines = candidates.iter().flat_map(|candidate| [candidate.to_line(), "\n".into()]);
        self.answers.text(None, &lines.collect::<Vec<_>>().concat());
        Outcome::Done
    }

    fn adopt(&mut self, id: &BString, request: &Request) -> Outcome {
        let path = |text: &Option<Text>| text.as_ref().map(|text| text.as_bstr().to_path_lossy().into_owned());
        let Some(directory) = path(&request.adopt_dir) else { return Outcome::Failed };
        let resolved = path(&request.adopt_resolved);
        let with: Vec<BString> = request.adopt_with.iter().map(|id| id.0.clone()).collect();
        let (id_asked, resolved) = (id.as_bstr(), resolved.as_deref());
        let adoption = Adoption { id: id_asked, directory: &directory, resolved, with: &with };
        let mut sink = AnswerSink { answers: &mut self.answers, entity: Some(id) };
        let adopted = self.plugin.adopt(&self.host, adoption, &mut Output::new(&mut sink));
        if let Adopted::Done { definition } = &adopted {
            self.answers.text(Some(id), definition.as_bytes());
        }
        let message = match &adopted {
            Adopted::Unknown => Some(AdoptMessage::Unknown),
            Adopted::Unchanged => Some(AdoptMessage::NotChanged),
            Adopted::Entity(id) => Some(AdoptMessage::Entity(id.clone())),
            Adopted::Conflict(path) => Some(AdoptMessage::Conflict(path.clone())),
            Adopted::Done { .. } | Adopted::Failed => None,
        };
        let result = if adopted == Adopted::Failed { Outcome::Failed } else { Outcome::Done };
        self.answers.result_in_lines(id, message.iter().map(AdoptMessage::to_line), result);
        Outcome::Done
    }

    /// Returns the IDs of existing entities. For the others, an error has been reported.
    fn find_all(&mut self, ids: Vec<BString>) -> Vec<BString> {
        ids.into_iter().filter(|id| self.find(id)).collect()
    }

    fn find(&mut self, id: &BString) -> bool {
        if self.known.contains_key(id) {
            return true;
        }
        let mut sink = AnswerSink { answers: &mut self.answers, entity: Some(id) };
        let mut output = Output::new(&mut sink);
        match self.plugin.find(&self.host, id.as_bstr(), &mut output) {
            Ok(Some(entity)) => {
                self.known.insert(id.clone(), entity);
                return true;
            }
            Ok(None) => output.error(unknown_entity(id)),
            Err(_) => {}
        }
        self.answers.result(id, None, Outcome::Failed);
        false
    }

    /// Reads the definitions of entities again, because their received values have changed. Errors are reported when
    /// the missing entities are processed.
    fn renew(&mut self, ids: &[BString]) {
        self.host.sent().forget();
        ids.iter().for_each(|id| drop(self.known.remove(id)));
        for entity in self.plugin.find_again(&self.host, ids, &mut Output::new(&mut Silence)) {
            self.known.insert(entity.report().id, entity);
        }
    }

    /// Answers for entities that cannot be processed, and returns the others.
    fn without_hindered(&mut self, ids: Vec<BString>, operation: Operation) -> Vec<BString> {
        let Server { known, answers, .. } = self;
        let is_able = |id: &BString| {
            let Some(hindrance) = known.get(id).and_then(Entity::hindrance) else { return true };
            let mut sink = AnswerSink { answers, entity: Some(id) };
            let mut output = Output::new(&mut sink);
            if operation == Operation::Check {
                let messages = verdict_messages(&hindered_check(hindrance, &mut output));
                let outcome = if messages.is_some() { Outcome::Done } else { Outcome::Failed };
                answers.result(id, messages.into_iter().flatten(), outcome);
            } else {
                let messages = applied_messages(&hindered_apply(hindrance, &mut output));
                answers.result(id, messages, Outcome::Failed);
            }
            false
        };
        ids.into_iter().filter(is_able).collect()
    }

    /// If the system is not running, answers for the entities that need it, and returns the others.
    fn without_deferred(&mut self, ids: Vec<BString>, modes: &Modes<'_>) -> Vec<BString> {
        let Server { known, answers, host, .. } = self;
        let can_be_applied = |id: &BString| {
            let Some(entity) = known.get(id).filter(|entity| host.is_offline() && entity.needs_running_system()) else {
                return true;
            };
            let applied = match entity.check(host, modes.of_entity(id, false), &mut Output::new(&mut Silence)) {
                Verdict::InDesiredState => Applied::Unchanged,
                Verdict::Skipped(reason) => Applied::Skipped(reason),
                _ => Applied::Deferred(DEFERRAL.to_owned()),
            };
            answers.result(id, applied_messages(&applied), Outcome::Done);
            false
        };
        ids.into_iter().filter(can_be_applied).collect()
    }

    fn apply(&mut self, ids: Vec<BString>, force: bool, modes: &Modes<'_>) -> Outcome {
        let ids = self.find_all(ids);
        let ids = self.without_hindered(ids, Operation::Apply);
        let ids = self.without_deferred(ids, modes);
        self.work_on_set(&ids, force, modes, |plugin, host, set, answers| match set {
            // Preparations for sets, such as reading a list of unchanged files, do not pay off for one entity.
            [_] if W::ONE_REQUEST => concurrently::apply(host, set, 1, answers),
            set => plugin.apply_set(host, set, answers),
        })
    }

    fn forget(&mut self, ids: Vec<BString>, modes: &Modes<'_>) -> Outcome {
        let ids = self.find_all(ids);
        self.work_on_set(&ids, false, modes, |_, host, set, answers| {
            let answers: &mut dyn SetAnswers = answers;
            for (index, job) in set.iter().enumerate() {
                answers.begin(index);
                let report = job.entity.report();
                let mut output = answers.output(index);
                let forgotten = match report.edges.orphan {
                    true => job.entity.forget(host, &mut output),
                    false => Err("it is defined; remove its definition first".into()),
                };
                let applied = match forgotten {
                    Ok(()) => Applied::ChangedQuietly(vec![format!("forgot {}", report.id)]),
                    Err(ForgetError(reason)) => {
                        output.error(reason);
                        Applied::FAILED_UNCHANGED
                    }
                };
                answers.end(index, applied);
            }
        })
    }

    fn check(&mut self, ids: Vec<BString>, modes: &Modes<'_>) -> Outcome {
        let ids = self.find_all(ids);
        let ids = self.without_hindered(ids, Operation::Check);
        self.work_on_set(&ids, false, modes, |plugin, host, set, answers| match set {
            [_] if W::ONE_REQUEST => concurrently::check(host, set, 1, answers),
            set => plugin.check_set(host, set, answers),
        })
    }

    fn work_on_set(
        &mut self,
        ids: &[BString],
        force: bool,
        modes: &Modes<'_>,
        work: impl FnOnce(&P, &Host, &[Job<'_, P::Entity>], &mut EntitySet<'_, P::Entity, W>),
    ) -> Outcome {
        let entities = ids.iter().filter_map(|id| Some((id, self.known.get(id)?)));
        let jobs = entities.clone().map(|(id, entity)| Job { entity, mode: modes.of_entity(id, force) });
        let set: Vec<Job<'_, P::Entity>> = jobs.collect();
        let entities = entities.map(|(id, entity)| (id, entity, modes.wanted_of(id)));
        let mut answers = EntitySet::new(&self.host, entities, &mut self.answers, (modes.remembers, modes.watches));
        // Each entity may look up several records.
        let _reads = self.host.locations().database().reads();
        work(self.plugin, &self.host, &set, &mut answers);
        Outcome::Done
    }

    fn diff(&mut self, ids: Vec<BString>, pair: fn(&P::Entity, &Host) -> Option<FilePair>) -> Outcome {
        for id in self.find_all(ids) {
            let entity = self.known.get(&id).filter(|entity| entity.hindrance().is_none());
            if let Some(pair) = entity.and_then(|entity| pair(entity, &self.host)) {
                self.answers.diff(&id, &pair);
            }
            self.answers.result(&id, None, Outcome::Done);
        }
        Outcome::Done
    }
}

/// Returns one line per witness; `None` if a path cannot be written in one.
fn lines_of(witnesses: &[Witness]) -> Option<Vec<u8>> {
    let lines: Option<Vec<BString>> = witnesses.iter().map(Witness::to_text).collect();
    Some(lines?.iter().flat_map(|line| [line.as_slice(), b"\n"]).collect::<Vec<_>>().concat())
}

/// The parts of a request that concern single entities.
struct Modes<'a> {
    /// The entities that are refreshed, or would be.
    refreshed: HashSet<&'a BString>,
    due: HashMap<&'a BString, i64>,
    pending: HashSet<&'a BString>,
    received: HashMap<&'a BString, Vec<BString>>,
    wanted: HashMap<&'a BString, Vec<BString>>,
    /// Whether the witnesses of unchanged entities are reported.
    remembers: bool,
    /// Whether the parts of entities are reported.
    watches: bool,
    /// The policy for entities that a person has changed.
    on_edit: OnEdit,
}

impl<'a> Modes<'a> {
    fn new(request: &'a Request, host: &Host) -> Modes<'a> {
        let values = |values: &[Text]| values.iter().map(|value| value.0.clone()).collect();
        Modes {
            remembers: request.remembers,
            watches: request.watches,
            on_edit: host.on_edit(),
            refreshed: request.refresh.iter().map(|id| &id.0).collect(),
            due: request.due.iter().map(|due| (&due.entity.0, due.since)).collect(),
            pending: request.pending.iter().map(|id| &id.0).collect(),
            received: request.received.iter().map(|received| (&received.entity.0, values(&received.values))).collect(),
            wanted: request.wanted.iter().map(|wanted| (&wanted.entity.0, values(&wanted.names))).collect(),
        }
    }

    fn of_entity(&self, id: &BString, force: bool) -> Mode<'_> {
        let received = self.received.get(id).map(Vec::as_slice).unwrap_or_default();
        let (refresh, pending) = (self.refreshed.contains(id), self.pending.contains(id));
        let (on_edit, due_since) = (self.on_edit, self.due.get(id).copied());
        Mode { force, on_edit, refresh, due_since, pending, received, wanted: self.wanted_of(id) }
    }

    fn wanted_of(&self, id: &BString) -> &[BString] {
        self.wanted.get(id).map(Vec::as_slice).unwrap_or_default()
    }
}
