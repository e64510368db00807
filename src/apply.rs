//! Walks the entities, and turns what plugins say into events, in the entities' order whatever was finished first.

use crate::diff::{self, Side};
use crate::entity::Entity;
use crate::error::Fatal;
use crate::interrupt::Interrupt;
use crate::plugin::{FilePair, Job, Plugin, Progress, Task};
use crate::report::{Event, Reporter};
use crate::resources::Resources;
use crate::root::Root;
use bstr::{BStr, BString};
use holo_protocol::Message;
use holo_protocol::session::Stream;
use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What became of the entities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many failed or were refused for want of `--force`.
    pub failed: usize,
}

/// Applies entities in their order.
///
/// # Errors
/// Only what ends the run: what goes wrong with an entity is an event, and counted.
pub fn apply(
    entities: &[Entity],
    plugins: &mut [Plugin],
    view: View<'_>,
    force: bool,
    interrupt: &Interrupt,
    reporter: &mut dyn Reporter,
) -> Result<Tally, Fatal> {
    let task = if force { Task::ForceApply } else { Task::Apply };
    let mut tally = Tally::default();
    let mut rest = entities;
    while !rest.is_empty() {
        let (set, after) = rest.split_at(next_set(rest));
        rest = after;
        let Some(plugin) = set.first().and_then(|first| plugins.get_mut(first.plugin)) else { continue };
        let jobs: Vec<Job<'_>> = set.iter().map(|entity| Job { id: entity.id(), refresh: false }).collect();
        let mut in_order = InOrder::new(set, view, reporter);
        plugin.work(task, &jobs, interrupt, &mut |place, progress| in_order.take(place, progress))?;
        tally.failed += in_order.failed;
    }
    Ok(tally)
}

/// How many of the first entities make a set: of one plugin, and no ID twice.
fn next_set(entities: &[Entity]) -> usize {
    let plugin = entities.first().map(|entity| entity.plugin);
    let mut seen = HashSet::new();
    entities.iter().take_while(|entity| Some(entity.plugin) == plugin && seen.insert(entity.id())).count()
}

/// Shows what is said of the first unfinished entity at once, and keeps what is said of the others until it is their turn.
struct InOrder<'a> {
    entities: &'a [Entity],
    view: View<'a>,
    reporter: &'a mut dyn Reporter,
    first_unfinished: usize,
    kept: Vec<Vec<Said>>,
    failed: usize,
}

/// What was said of an entity, by someone who may have reused the memory since.
enum Said {
    Output(Stream, BString),
    Message(Message),
    Diff(Vec<u8>),
    Warning(String),
    Error(String),
    Failed(Option<String>),
    Done,
}

impl<'a> InOrder<'a> {
    fn new(entities: &'a [Entity], view: View<'a>, reporter: &'a mut dyn Reporter) -> InOrder<'a> {
        let kept = std::iter::repeat_with(Vec::new).take(entities.len()).collect();
        if let Some(first) = entities.first() {
            reporter.event(Event::Begin(first));
        }
        InOrder { entities, view, reporter, first_unfinished: 0, kept, failed: 0 }
    }

    fn take(&mut self, place: usize, progress: Progress<'_>) {
        let said = self.understand(self.entities[place].id(), progress);
        if place > self.first_unfinished {
            self.kept[place].push(said);
            return;
        }
        self.show(place, &said);
        // Showing may have finished this entity: then the next ones have their turn.
        let mut shown = usize::MAX;
        while shown != self.first_unfinished && self.first_unfinished < self.entities.len() {
            shown = self.first_unfinished;
            for said in std::mem::take(&mut self.kept[shown]) {
                self.show(shown, &said);
            }
        }
    }

    fn understand(&self, id: &BStr, progress: Progress<'_>) -> Said {
        match progress {
            Progress::Output(stream, bytes) => Said::Output(stream, bytes.into()),
            Progress::Message(message) => Said::Message(message),
            Progress::Diff(pair) => match self.view.difference(&pair) {
                Ok(text) => Said::Diff(text),
                Err(reason) => Said::Error(format!("cannot diff {id}: {reason}")),
            },
            Progress::CannotDiff(reason) => Said::Error(format!("cannot diff {id}: {reason}")),
            Progress::Warning(text) => Said::Warning(text),
            Progress::Done => Said::Done,
            Progress::Failed(reason) => Said::Failed(reason),
        }
    }

    fn show(&mut self, place: usize, said: &Said) {
        let reporter = &mut *self.reporter;
        match said {
            Said::Output(stream, bytes) if place < self.first_unfinished => {
                reporter.event(Event::Belated(*stream, bytes));
            }
            // Nothing else counts of an entity that is done with.
            _ if place < self.first_unfinished => {}
            Said::Output(stream, bytes) => reporter.event(Event::Output(*stream, bytes)),
            Said::Message(message) => {
                self.failed += usize::from(message.is_refusal());
                reporter.event(Event::Message(message));
            }
            Said::Diff(text) => reporter.event(Event::Diff(text)),
            Said::Warning(text) => reporter.event(Event::Warning(text)),
            Said::Error(text) => reporter.event(Event::Error(text)),
            Said::Failed(reason) => {
                self.failed += 1;
                reporter.event(Event::Failed(reason.as_deref()));
                self.finish();
            }
            Said::Done => self.finish(),
        }
    }

    fn finish(&mut self) {
        let place = self.first_unfinished;
        self.first_unfinished += 1;
        self.reporter.event(Event::End(&self.entities[place]));
        if let Some(next) = self.entities.get(self.first_unfinished) {
            self.reporter.event(Event::Begin(next));
        }
    }
}

/// How files are looked at, and what they are called.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The root of the system, which nothing looked at leads out of.
    pub root: &'a Root,
    /// What paths are shown as.
    pub resources: &'a Resources,
}

impl View<'_> {
    /// The difference between two files, under the names that the user knows.
    ///
    /// # Errors
    /// If one cannot be read, or is neither a file nor a symlink.
    pub fn difference(self, pair: &FilePair) -> Result<Vec<u8>, diff::LoadError> {
        let root = self.root.join("");
        let side = |path: &Path| -> Result<Side, diff::LoadError> {
            let name = self.resources.show(path.as_os_str().as_bytes().into());
            Ok(Side { name, content: diff::load(path, &root)? })
        };
        Ok(diff::render(&side(&pair.from)?, &side(&pair.to)?))
    }
}
