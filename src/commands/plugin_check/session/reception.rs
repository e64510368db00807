//! Judges the answers to a request as they arrive.

use crate::commands::plugin_check::finding::{Rule, Severity};
use crate::commands::plugin_check::heard::{CallError, Heard, MAX_KEPT, keep, quoted};
use crate::plugin::process::{Channel, Exit};
use bstr::{BString, ByteSlice};
use holo_protocol::session::{Answer, Operation, Outcome, Stream};
use holo_protocol::{Message, Text};

/// The number of complaints about one request after which the session is abandoned.
const MAX_COMPLAINTS: usize = 20;

/// A violation of the protocol by the answers.
pub(in crate::commands::plugin_check) type Complaint = (Rule, Severity, String);

/// The stage of the answers about an entity, which must come in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    #[default]
    Waiting,
    Begun,
    Output,
    Diff,
    Result,
}

/// The answers about an entity.
#[derive(Default)]
struct Answered {
    step: Step,
    begun: bool,
    heard: Heard,
}

/// The answers to a request as they arrive.
pub(super) struct Reception<'a> {
    request: u64,
    operation: Operation,
    ids: &'a [BString],
    /// The answers about each entity.
    answered: Vec<Answered>,
    /// The index of the entity that stray output is attributed to.
    at_work: usize,
    complaints: Vec<Complaint>,
    outcome: Option<Outcome>,
    /// Whether output bypassed the session.
    has_strayed: bool,
    /// Whether the answers cannot be parsed any more.
    pub(super) is_broken: bool,
}

impl<'a> Reception<'a> {
    pub(super) fn new(request: u64, operation: Operation, ids: &'a [BString]) -> Reception<'a> {
        // A request without entities has a single answer.
        let answered = (0..ids.len().max(1)).map(|_| Answered::default()).collect();
        Reception {
            request,
            operation,
            ids,
            answered,
            at_work: 0,
            complaints: Vec::new(),
            outcome: None,
            has_strayed: false,
            is_broken: false,
        }
    }

    fn heard(&mut self, index: usize) -> Option<&mut Heard> {
        self.answered.get_mut(index).map(|answered| &mut answered.heard)
    }

    pub(super) fn is_over(&self) -> bool {
        self.outcome.is_some() || self.is_broken
    }

    pub(super) fn complain(&mut self, rule: Rule, text: String) {
        self.complaints.push((rule, Severity::Failure, text));
        self.is_broken |= self.complaints.len() >= MAX_COMPLAINTS;
    }

    /// Takes output that bypasses the session.
    pub(super) fn stray(&mut self, channel: Channel, bytes: &[u8]) {
        let (name, stream) = match channel {
            Channel::Stderr => ("error", Stream::Stderr),
            Channel::Stdout | Channel::Extra => ("output", Stream::Stdout),
        };
        let text = format!("prints {} on standard {name}, where an answer \"output\" is expected", quoted(bytes));
        if !std::mem::replace(&mut self.has_strayed, true) {
            self.complaints.push((Rule::Sessions, Severity::Warning, text));
        }
        self.output(self.at_work, stream, bytes);
    }

    fn output(&mut self, index: usize, stream: Stream, bytes: &[u8]) {
        // The standard output of a scan is its report.
        let is_stdout = stream == Stream::Stdout && self.operation != Operation::Scan;
        if let Some(heard) = self.heard(index) {
            keep(if is_stdout { &mut heard.stdout } else { &mut heard.stderr }, bytes, MAX_KEPT);
        }
    }

    pub(super) fn take_line(&mut self, line: &[u8]) {
        if self.is_broken {
            return;
        }
        let answer = match serde_json::from_slice::<Answer>(line) {
            Ok(answer) => answer,
            Err(error) => {
                self.complain(Rule::Answers, format!("says {}, which is no answer: {error}", quoted(line)));
                self.is_broken = true;
                return;
            }
        };
        if answer.request() != self.request {
            let (given, expected) = (answer.request(), self.request);
            self.complain(Rule::Order, format!("answers request {given}, where {expected} is the one to answer"));
        } else if self.outcome.is_some() {
            self.complain(Rule::Order, format!("says {} after \"end\"", quoted(line)));
        } else {
            self.take(answer);
        }
    }

    fn take(&mut self, answer: Answer) {
        match answer {
            Answer::End { result, .. } => self.outcome = Some(result),
            Answer::Report { text, .. } => self.take_report(text.as_bstr()),
            Answer::Output { entity: None, stream, text, .. } => self.output(self.at_work, stream, text.as_bstr()),
            Answer::Output { entity: Some(entity), stream, text, .. } => {
                if let Some(index) = self.step(&entity, Step::Output) {
                    self.output(index, stream, text.as_bstr());
                }
            }
            Answer::Begin { entity, .. } => self.begin(&entity),
            // Progress may come wherever output may, and is not shown here.
            Answer::Progress { entity, .. } => drop(self.step(&entity, Step::Output)),
            Answer::Diff { entity, from, to, from_label, to_label, modes, .. } => {
                if let Some(index) = self.step(&entity, Step::Diff)
                    && matches!(self.operation, Operation::Diff | Operation::Preview)
                    && let Some(heard) = self.heard(index)
                {
                    // In the form that a process would have written.
                    let mut parts = vec![from, to];
                    if modes || from_label.is_some() || to_label.is_some() {
                        parts.extend([from_label, to_label].map(Option::unwrap_or_default));
                        parts.extend(modes.then(|| "modes".into()));
                    }
                    heard.messages =
                        parts.iter().flat_map(|part| [part.as_bstr().as_bytes(), b"\0"]).collect::<Vec<_>>().concat();
                }
            }
            Answer::Text { entity, text, .. } => self.take_text(entity.as_ref(), text.as_bstr()),
            Answer::Result { entity, messages, result, .. } => self.finish(&entity, &messages, result),
        }
    }

    fn take_report(&mut self, text: &[u8]) {
        let is_scan = self.operation == Operation::Scan;
        if !matches!(self.operation, Operation::Scan | Operation::Doctor | Operation::Health) {
            let operation = self.operation.word();
            self.complain(Rule::Order, format!("answers \"report\", which is no answer to \"{operation}\""));
        } else if let Some(heard) = self.heard(0) {
            keep(if is_scan { &mut heard.stdout } else { &mut heard.messages }, text, MAX_KEPT);
            if !text.ends_with(b"\n") {
                let problem = format!("the report {} does not consist of whole lines", quoted(text));
                self.complain(Rule::Answers, problem);
            }
        }
    }

    /// Takes text that a process would have written to file descriptor 3, or to standard output if it is about an
    /// entity.
    fn take_text(&mut self, entity: Option<&Text>, text: &[u8]) {
        if !matches!(self.operation, Operation::Adopt | Operation::Blame) || entity.is_some() == self.ids.is_empty() {
            let operation = self.operation.word();
            self.complain(Rule::Order, format!("answers \"text\", which is no answer to \"{operation}\""));
            return;
        }
        let index = entity.map_or(Some(0), |entity| self.step(entity, Step::Output));
        if let Some(heard) = index.and_then(|index| self.heard(index)) {
            keep(if entity.is_some() { &mut heard.stdout } else { &mut heard.messages }, text, MAX_KEPT);
        }
    }

    fn begin(&mut self, entity: &Text) {
        if !matches!(self.operation, Operation::Apply | Operation::ForceApply) {
            let operation = self.operation.word();
            self.complain(Rule::Order, format!("answers \"begin\", which is no answer to \"{operation}\""));
        } else if let Some(index) = self.step(entity, Step::Begun) {
            self.at_work = index;
            self.answered.get_mut(index).into_iter().for_each(|answered| answered.begun = true);
        }
    }

    /// Advances an entity to the next stage of its answers. Returns its index if it was requested.
    fn step(&mut self, entity: &Text, step: Step) -> Option<usize> {
        let id = quoted(entity.as_bstr());
        let index = self.ids.iter().position(|id| *id == *entity.as_bstr());
        let Some((index, answered)) = index.and_then(|index| Some((index, self.answered.get_mut(index)?))) else {
            self.complain(Rule::Order, format!("answers for {id}, which was not asked for"));
            return None;
        };
        let last = answered.step;
        answered.step = step.max(last);
        if last == Step::Result {
            self.complain(Rule::Order, format!("says more of {id} after its \"result\""));
            return None;
        }
        // Output may come in many pieces, every other answer once.
        if step < last || (step == last && step != Step::Output) {
            let name = |step: Step| format!("{step:?}").to_lowercase().replace("begun", "begin");
            self.complain(Rule::Order, format!("answers \"{}\" for {id} after \"{}\"", name(step), name(last)));
        }
        Some(index)
    }

    fn finish(&mut self, entity: &Text, messages: &[Text], result: Outcome) {
        let Some(index) = self.step(entity, Step::Result) else { return };
        let id = quoted(entity.as_bstr());
        if messages.iter().any(|message| message.as_bstr().contains(&b'\n')) {
            self.complain(Rule::Answers, format!("a message of the \"result\" for {id} has a newline in it"));
        }
        let means = |message: &Text| Message::parse(message.as_bstr(), holo_protocol::API_VERSION_4);
        let changed = |message: Message| !message.is_nothing_to_do() && !message.is_refusal();
        let has_worked = messages.is_empty() || messages.iter().filter_map(means).any(changed);
        let applies = matches!(self.operation, Operation::Apply | Operation::ForceApply);
        let has_begun = self.answered.get(index).is_some_and(|answered| answered.begun);
        if applies && result == Outcome::Done && has_worked && !has_begun {
            self.complain(Rule::Order, format!("{id} was changed without \"begin\""));
        }
        let is_diff = matches!(self.operation, Operation::Diff | Operation::Preview);
        let Some(heard) = self.heard(index) else { return };
        if !is_diff {
            heard.messages = bstr::join("\n", messages.iter().map(Text::as_bstr));
        }
        if result == Outcome::Failed {
            heard.error = Some(CallError::Failed("result \"failed\"".to_owned()));
        }
    }

    /// Returns the answers for each entity, and the complaints.
    pub(super) fn into_heard(self) -> (Vec<Heard>, Vec<Complaint>) {
        (self.answered.into_iter().map(|answered| answered.heard).collect(), self.complaints)
    }

    /// Marks the entities that have no result with the reason.
    pub(super) fn conclude(&mut self, in_time: bool, ended: Option<Exit>) {
        let died = ended.filter(|_| self.outcome.is_none()).map(|ended| ended.status.in_words());
        if let Some(how) = &died {
            self.complain(Rule::WhenASessionDies, format!("the session ends by itself: {how}"));
        }
        let lost = !in_time || self.is_broken || died.is_some();
        if self.ids.is_empty() {
            let has_failed = self.outcome == Some(Outcome::Failed);
            let error = has_failed.then(|| CallError::Failed("end \"failed\"".to_owned()));
            if let Some(heard) = self.heard(0) {
                heard.error = if lost { Some(CallError::Told) } else { error };
            }
            return;
        }
        let mut missing = Vec::new();
        for (id, answered) in
            self.ids.iter().zip(&mut self.answered).filter(|(_, answered)| answered.step != Step::Result)
        {
            answered.heard.error = Some(CallError::Told);
            missing.push(id);
        }
        for id in missing.into_iter().filter(|_| !lost) {
            self.complain(Rule::Order, format!("there is no \"result\" for {} at the \"end\"", quoted(id)));
        }
    }
}
