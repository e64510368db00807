//! The same events as JSON Lines, for programs.

use super::line::{Action, Asset, Edges, Information, Line, Outcome, Refusal, Text};
use super::{Console, End, Event, Reporter};
use crate::entity::Entity;
use bstr::{BStr, BString};
use holo_protocol::Message;
use std::mem;

/// Shows an apply as [`Line`]s, on a console that [speaks](Console::set_json) them.
pub struct Json<'a> {
    console: &'a mut Console,
    /// The messages about the entity at work, for its end.
    said: Said,
}

/// The messages about an entity beside its output.
#[derive(Default)]
struct Said {
    messages: Vec<Message>,
    reason: Option<String>,
}

impl<'a> Json<'a> {
    /// Shows what is done on this console.
    pub fn new(console: &'a mut Console) -> Json<'a> {
        console.begin_tally();
        Json { console, said: Said::default() }
    }

    fn end(&mut self, entity: &Entity, outcome: Outcome) {
        let Said { messages, reason } = mem::take(&mut self.said);
        let texts = |text: fn(&Message) -> Option<&BString>| messages.iter().filter_map(text).map(Text::from).collect();
        let condition = messages.iter().find_map(|message| match message {
            Message::Skipped(reason) if outcome == Outcome::Skipped => Some(reason),
            _ => None,
        });
        let line = Line::End {
            id: entity.id().into(),
            result: outcome,
            changed: texts(|message| match message {
                Message::Changed(text) | Message::ChangedQuietly(text) => Some(text),
                _ => None,
            }),
            would_change: texts(|message| if let Message::WouldChange(text) = message { Some(text) } else { None }),
            refused: messages.iter().filter_map(refusal).collect(),
            sent: texts(|message| if let Message::Send(value) = message { Some(value) } else { None }),
            unknown: messages.contains(&Message::Unknown),
            reason: reason.as_ref().map(Text::from).or(condition.map(Text::from)),
        };
        self.console.end_entity(outcome, &line);
    }
}

impl Reporter for Json<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Begin(entity) => {
                self.console.set_entity(Some(entity.id().into()));
                self.console.line(&Line::Begin { id: entity.id().into(), action: action(&entity.report().action) });
            }
            Event::Output(stream, bytes) => self.console.write(stream, bytes),
            Event::Belated(stream, bytes) => {
                let at_work = self.console.set_entity(None);
                self.console.write(stream, bytes);
                self.console.set_entity(at_work);
            }
            // It is for those who wait and look.
            Event::Message(Message::Progress(_)) | Event::Waiting(..) => {}
            Event::Message(message) => self.said.messages.push(message.clone()),
            Event::Diff(diff) => self.console.raw_diff(diff),
            Event::Warning(text) => self.console.warning(text),
            Event::Error(text) => self.console.error(text),
            Event::Skipped(reason) => self.said.reason = Some(reason.to_owned()),
            Event::Failed(reason) => self.said.reason = reason.map(str::to_owned),
            Event::Refresh(entity) => self.console.line(&Line::Refresh { id: entity.id().into() }),
            Event::End(entity, end) => self.end(entity, end.into()),
        }
        self.console.flush();
    }
}

/// Shows an entity as `scan --json` does.
pub fn entity_line(console: &mut Console, entity: &Entity, plugin: &str) {
    let report = &entity.report();
    let information = &report.information;
    console.line(&Line::Entity {
        id: entity.id().into(),
        plugin,
        action: action(&report.action),
        sources: report.sources.iter().map(Text::from).collect(),
        information: information
            .iter()
            .map(|line| Information { key: (&line.key).into(), value: (&line.value).into() })
            .collect(),
        edges: Box::new(Edges::from(&report.edges)),
    });
}

/// Shows a selector as `selectors --json` does.
pub fn selector_line(console: &mut Console, selector: &BStr) {
    console.line(&Line::Selector { selector: selector.into() });
}

fn action(action: &holo_protocol::Action) -> Action<'_> {
    Action { verb: (&action.verb).into(), reason: action.reason.as_ref().map(Text::from) }
}

fn refusal(message: &Message) -> Option<Refusal<'_>> {
    match message {
        Message::RequiresForceToOverwrite => Some(Refusal::Overwrite),
        Message::RequiresForceToRestore => Some(Refusal::Restore),
        Message::RequiresForce(reason) => Some(Refusal::Other { reason: reason.into() }),
        _ => None,
    }
}

impl<'a> From<&'a holo_protocol::Edges> for Edges<'a> {
    fn from(edges: &'a holo_protocol::Edges) -> Self {
        let texts = |list: &'a [BString]| list.iter().map(Text::from).collect();
        let assets = |list: &'a [holo_protocol::Asset]| {
            list.iter().map(|asset| Asset { kind: (&asset.kind).into(), value: (&asset.value).into() }).collect()
        };
        Edges {
            after: texts(&edges.after),
            before: texts(&edges.before),
            requires: texts(&edges.requires),
            subscribes: texts(&edges.subscribes),
            notifies: texts(&edges.notifies),
            provides: assets(&edges.provides),
            needs: assets(&edges.needs),
            owns: assets(&edges.owns),
            watch: texts(&edges.watch),
            orphan: edges.orphan,
        }
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
