//! Renders events as JSON Lines, for programs.

use super::console::Console;
use super::event::{End, Event, Noticed};
use super::json_state::JsonState;
use super::remark::{Remark, RemarkKind, Severity};
use super::{Consumer, noticed};
use crate::entity::Entity;
use crate::error::FatalError;
use bstr::BString;
use holo_events::{self as line, Edges, Information, Line, Outcome, Refusal, Text};
use holo_protocol::Message;
use holo_protocol::session::Stream;
use std::mem;
use std::path::PathBuf;
use std::time::Duration;

/// Renders each event as a [`Line`], or as part of one.
#[derive(Default)]
pub(super) struct Json {
    state: JsonState,
    /// The messages about the current entity, for its last line.
    said: Said,
}

/// The messages about an entity, other than output.
#[derive(Default)]
struct Said {
    messages: Vec<Message>,
    reason: Option<String>,
}

impl Json {
    /// Takes an event, and returns the bytes to write.
    fn lines(&mut self, event: &Event<'_>) -> Vec<u8> {
        match event {
            Event::Remark(remark) => self.remark(remark),
            Event::About(entity) => self.state.set_entity(entity.map(Entity::id)),
            Event::Aside(severity, text) => self.marked(*severity, text.as_bytes()),
            Event::UnknownSelector(selector) => self.state.error(&[&b"Unrecognized argument: "[..], selector].concat()),
            Event::Conflict(owners, text) => self.conflict(owners, text),
            Event::Text(text) => [self.state.finish(), text.to_vec()].concat(),
            Event::Listed { entity, plugin, .. } => self.listed(entity, plugin),
            Event::Adopted(adopted) => {
                let paths = |paths: &'_ [PathBuf]| -> Vec<BString> {
                    paths.iter().map(|path| path.as_os_str().as_encoded_bytes().into()).collect()
                };
                let (written, removed) = (paths(&adopted.written), paths(&adopted.removed));
                self.state.line(&Line::Adopted {
                    id: (&adopted.id).into(),
                    plugin: (&adopted.plugin).into(),
                    reason: adopted.reason.as_ref().map(Text::from),
                    group: adopted.group.as_ref().map(Text::from),
                    written: written.iter().map(Text::from).collect(),
                    removed: removed.iter().map(Text::from).collect(),
                    pending: adopted.is_pending,
                })
            }
            Event::Finding(finding) => self.state.line(&Line::Finding {
                check: (&finding.check).into(),
                level: finding.level().into(),
                title: finding.title().into(),
                remedy: finding.remedy().map(Text::from),
            }),
            Event::Selector(selector) => self.state.line(&Line::Selector { selector: (*selector).into() }),
            Event::Line(line) => self.state.line(line),
            // The same answer comes as lines.
            Event::Table(_) | Event::Description(_) | Event::Blamed(_) => Vec::new(),
            Event::Difference(diff) | Event::Diff(diff) => self.state.diff(diff),
            Event::Preview { difference, .. } => self.state.preview(difference),
            Event::RunBegins(run) => {
                self.state.begin_run(run);
                Vec::new()
            }
            Event::WorkBegins => {
                self.state.begin_tally();
                Vec::new()
            }
            Event::RefreshesDue(number) => {
                self.state.set_refreshes_due(*number);
                Vec::new()
            }
            Event::Generation(number) => {
                self.state.set_generation(*number);
                Vec::new()
            }
            Event::Begin(entity) => {
                let rest = self.state.set_entity(Some(entity.id()));
                let action = &entity.report().action;
                let line = Line::Begin { id: entity.id().into(), action: action.into() };
                [rest, self.state.line(&line)].concat()
            }
            Event::Belated(stream, bytes) => self.state.output_of_nobody(*stream, bytes),
            // These events are meant for people.
            Event::Message(Message::Progress(_)) | Event::Waiting(..) | Event::Burst { .. } => Vec::new(),
            Event::Message(message) => {
                self.said.messages.push((*message).clone());
                Vec::new()
            }
            Event::Skipped(reason) => {
                self.said.reason = Some((*reason).to_owned());
                Vec::new()
            }
            Event::Failed(reason) => {
                self.said.reason = reason.map(str::to_owned);
                Vec::new()
            }
            Event::Refresh(entity, _) | Event::WouldRefresh(entity, _) => {
                self.state.line(&Line::Refresh { id: entity.id().into() })
            }
            Event::End(entity, end, duration) => self.end(entity, (*end).into(), *duration),
            Event::Noticed(noticed) => self.noticed(noticed),
            Event::RunEnds(exit_code, fatal) => self.run_ends(*exit_code, *fatal),
            // The summary line contains the numbers, and an invalid command line does not request JSON.
            Event::Applied(..) | Event::Diagnosed(_) | Event::Usage(_) => Vec::new(),
        }
    }

    fn remark(&mut self, Remark { kind, text }: &Remark<'_>) -> Vec<u8> {
        match kind {
            RemarkKind::Output(stream) => self.state.output(*stream, text),
            RemarkKind::Diagnostic(None) => self.state.output(Stream::Stderr, text),
            RemarkKind::Diagnostic(Some(severity)) | RemarkKind::Own(severity) => self.marked(*severity, text),
            RemarkKind::ParagraphEnd => self.state.finish(),
            // It follows line by line.
            RemarkKind::UnsortedOutput => Vec::new(),
            // These remarks are meant for people.
            RemarkKind::Explanation | RemarkKind::Advice => Vec::new(),
        }
    }

    fn marked(&mut self, severity: Severity, text: &[u8]) -> Vec<u8> {
        match severity {
            Severity::Error => self.state.error(text),
            Severity::Warning => self.state.warning(text),
        }
    }

    /// Returns the error of a conflict once for each of its entities, as programs look for their own entity.
    fn conflict(&mut self, owners: &[&Entity], text: &str) -> Vec<u8> {
        let mut lines = Vec::new();
        for owner in owners {
            lines.extend(self.state.set_entity(Some(owner.id())));
            lines.extend(self.state.error(text.as_bytes()));
        }
        lines.extend(self.state.set_entity(None));
        lines
    }

    fn listed(&mut self, entity: &Entity, plugin: &str) -> Vec<u8> {
        let report = &entity.report();
        let information = report.information.iter();
        self.state.line(&Line::Entity {
            id: entity.id().into(),
            plugin: plugin.into(),
            action: (&report.action).into(),
            sources: report.sources.iter().map(Text::from).collect(),
            information: information
                .map(|line| Information { key: (&line.key).into(), value: (&line.value).into() })
                .collect(),
            edges: Box::new(Edges::from(&report.edges)),
            controls: (report.controls != holo_protocol::Controls::NONE).then(|| Box::new((&report.controls).into())),
        })
    }

    fn end(&mut self, entity: &Entity, outcome: Outcome, duration: Duration) -> Vec<u8> {
        let Said { messages, reason } = mem::take(&mut self.said);
        let texts = |text: fn(&Message) -> Option<&BString>| messages.iter().filter_map(text).map(Text::from).collect();
        let condition = messages.iter().find_map(|message| match message {
            Message::Skipped(reason) if outcome == Outcome::Skipped => Some(reason),
            _ => None,
        });
        let sent: Vec<BString> = messages.iter().filter_map(shown_value).collect();
        let line = Line::End {
            id: entity.id().into(),
            plugin: entity.plugin_id().into(),
            result: outcome,
            duration: line::seconds(duration),
            changed: texts(|message| match message {
                Message::Changed(text) | Message::ChangedQuietly(text) => Some(text),
                _ => None,
            }),
            would_change: texts(|message| if let Message::WouldChange(text) = message { Some(text) } else { None }),
            refused: messages.iter().filter_map(refusal).collect(),
            sent: sent.iter().map(Text::from).collect(),
            kept: texts(|message| if let Message::Keep(value) = message { Some(value) } else { None }),
            unknown: messages.contains(&Message::Unknown),
            reason: reason.as_ref().map(Text::from).or(condition.map(Text::from)),
        };
        self.state.count(outcome);
        [self.state.line(&line), self.state.set_entity(None)].concat()
    }

    fn noticed(&mut self, noticed: &Noticed<'_>) -> Vec<u8> {
        match noticed {
            Noticed::Watching(entities) => self.state.line(&Line::Watching { entities: *entities }),
            Noticed::Drifted { id, reason, writer, needs_force } => {
                let reason = reason.as_ref().map(Text::from);
                let (id, writer) = ((*id).into(), writer.clone());
                self.state.line(&Line::Drifted { id, reason, writer, needs_force: *needs_force })
            }
            Noticed::Returned(id) => self.state.line(&Line::Returned { id: (*id).into() }),
            Noticed::Repaired { id, changes } => {
                let changed = changes.iter().map(Text::from).collect();
                self.state.line(&Line::Repaired { id: (*id).into(), changed })
            }
            Noticed::Failed { id, .. } | Noticed::LeftAlone { id, .. } => {
                let rest = self.state.set_entity(Some(id));
                let error = self.state.error(&noticed::reason(noticed));
                [rest, error, self.state.set_entity(None)].concat()
            }
        }
    }

    fn run_ends(&mut self, exit_code: u8, fatal: Option<&FatalError>) -> Vec<u8> {
        let Some(fatal) = fatal else { return self.state.summary(exit_code, None) };
        // This is about the run, not the current entity.
        let rest = self.state.set_entity(None);
        let error = fatal.message().map(|message| self.state.error(message.as_bytes())).unwrap_or_default();
        [rest, error, self.state.summary(exit_code, Some(&fatal.to_string()))].concat()
    }
}

impl Consumer for Json {
    fn consume(&mut self, event: &Event<'_>, console: &mut Console) {
        let lines = self.lines(event);
        console.raw(Stream::Stdout, &lines);
        if !matches!(event, Event::Listed { .. } | Event::Selector(_)) {
            console.flush();
        }
    }
}

/// Returns the value that a message sends as `KEY=VALUE`, unless it is sensitive.
fn shown_value(message: &Message) -> Option<BString> {
    match message {
        Message::Send(sent) if !sent.sensitive => Some(sent.to_pair()),
        _ => None,
    }
}

fn refusal(message: &Message) -> Option<Refusal<'_>> {
    match message {
        Message::RequiresForceToOverwrite => Some(Refusal::Overwrite),
        Message::RequiresForceToRestore => Some(Refusal::Restore),
        Message::RequiresForce(reason) => Some(Refusal::Other { reason: reason.into() }),
        _ => None,
    }
}

impl From<End> for Outcome {
    fn from(end: End) -> Self {
        match end {
            End::Unchanged => Outcome::Unchanged,
            End::Changed => Outcome::Changed,
            End::Pending => Outcome::Pending,
            End::Refused => Outcome::Refused,
            End::ConditionNotMet | End::DependencyFailed => Outcome::Skipped,
            End::Failed => Outcome::Failed,
        }
    }
}
