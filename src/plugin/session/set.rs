//! The entities of a request, and their progress.

use super::conversation::Said;
use crate::plugin::{Failure, Job, PluginError, Progress};
use bstr::BStr;
use holo_protocol::session::{Answer, Outcome};
use holo_protocol::{API_VERSION_4, FilePair, Message, Text};
use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// The entities of a request, and their progress. They are identified by their index in the list of jobs.
pub(super) struct Set<'a> {
    jobs: &'a [Job<'a>],
    /// The indexes of all entities, built on demand: answers usually come in the order of the request.
    indexes: OnceCell<HashMap<&'a BStr, usize>>,
    /// The entity that the last answer was about.
    last: Cell<usize>,
    unfinished: BTreeSet<usize>,
    /// The entities that the plugin has begun, and when.
    in_hand: BTreeMap<usize, Instant>,
    /// The differences that were received before the message that asks to show them.
    differences: HashMap<usize, FilePair>,
    /// The entity that stray output is attributed to: the last one begun.
    at_work: usize,
}

impl<'a> Set<'a> {
    pub(super) fn new(jobs: &'a [Job<'a>]) -> Set<'a> {
        Set {
            jobs,
            indexes: OnceCell::new(),
            last: Cell::new(0),
            unfinished: (0..jobs.len()).collect(),
            in_hand: BTreeMap::new(),
            differences: HashMap::new(),
            at_work: 0,
        }
    }

    /// Returns the unfinished entities, if there are any.
    pub(super) fn waiting(&self) -> Option<Vec<Job<'a>>> {
        let mut waiting = Vec::with_capacity(self.unfinished.len());
        waiting.extend(self.unfinished.iter().filter_map(|&index| self.jobs.get(index)));
        (!waiting.is_empty()).then_some(waiting)
    }

    /// Returns the number of unfinished entities.
    pub(super) fn unfinished(&self) -> usize {
        self.unfinished.len()
    }

    /// Takes a message of the session, and passes its meaning for an entity on.
    pub(super) fn take(&mut self, said: Said<'_>, on_progress: &mut dyn FnMut(usize, Progress<'_>)) {
        let answer = match said {
            Said::Stray(stream, bytes) => return on_progress(self.at_work, Progress::Output(stream, bytes)),
            // The output is not about an entity, and there may be no time left for those that are shown later.
            Said::AtTheEnd(stream, bytes) => {
                let first = self.unfinished.first().copied().unwrap_or(self.at_work);
                return on_progress(first, Progress::Output(stream, bytes));
            }
            Said::Waiting => {
                if let Some((index, begun)) = self.oldest() {
                    on_progress(index, Progress::Waiting(begun.elapsed()));
                }
                return;
            }
            Said::Burst { is_over } => return on_progress(self.at_work, Progress::Burst { is_over }),
            Said::Begun(at) => {
                *at = self.oldest().map_or(*at, |(_, begun)| begun);
                return;
            }
            Said::Answer(answer) => answer,
        };
        match answer {
            Answer::Begin { entity, .. } => {
                if let Some(index) = self.index(&entity) {
                    self.in_hand.insert(index, Instant::now());
                    self.at_work = index;
                }
            }
            Answer::Output { entity, stream, text, .. } => {
                let index = entity.and_then(|entity| self.find(entity.as_bstr()));
                let index = index.unwrap_or(self.at_work);
                on_progress(index, Progress::Output(stream, text.as_bstr()));
            }
            Answer::Progress { entity, text, .. } => {
                if let Some(index) = self.index(&entity) {
                    on_progress(index, Progress::Message(Message::Progress(text.0)));
                }
            }
            Answer::Diff { ref entity, .. } => {
                if let Some((index, pair)) = self.index(entity).zip(FilePair::from_answer(&answer)) {
                    self.differences.insert(index, pair);
                }
            }
            Answer::Result { entity, messages, result, .. } => {
                if let Some(index) = self.index(&entity) {
                    self.finish(index, &messages, result, on_progress);
                }
            }
            Answer::Report { .. } | Answer::Text { .. } | Answer::End { .. } => {}
        }
    }

    /// Returns the entity that was begun first and is not finished, and when it was begun.
    fn oldest(&self) -> Option<(usize, Instant)> {
        self.in_hand.iter().map(|(&index, &begun)| (index, begun)).min_by_key(|&(index, begun)| (begun, index))
    }

    /// Returns the IDs of the entities that were begun and are not finished, or else of the next one.
    pub(super) fn at_work(&self) -> Vec<String> {
        let next = self.unfinished.first().filter(|_| self.in_hand.is_empty());
        let indexes = self.in_hand.keys().chain(next);
        indexes.filter_map(|&index| self.jobs.get(index)).map(|job| job.id.to_string()).collect()
    }

    /// Fails the entities that were begun when the plugin was ended after a timeout. Returns true if there were any.
    pub(super) fn fail_late(&mut self, limit: Duration, on_progress: &mut dyn FnMut(usize, Progress<'_>)) -> bool {
        let Some((oldest, _)) = self.oldest() else { return false };
        let reason = PluginError::TimedOut(limit).to_string();
        let lost: Vec<(usize, bool)> =
            self.in_hand.iter().map(|(&index, begun)| (index, begun.elapsed() >= limit)).collect();
        let first_late = self.jobs.get(oldest).map(|job| job.id).unwrap_or_default();
        for (index, is_late) in lost {
            let reason =
                if is_late { reason.clone() } else { format!("{first_late} {reason}, and its plugin was ended") };
            self.end(index, Progress::Failed(Failure::Broken(reason)), on_progress);
        }
        true
    }

    /// Returns the index of an unfinished entity; messages about other entities are ignored.
    fn index(&self, entity: &Text) -> Option<usize> {
        self.find(entity.as_bstr()).filter(|index| self.unfinished.contains(index))
    }

    /// Returns the index of an entity.
    fn find(&self, id: &BStr) -> Option<usize> {
        let last = self.last.get();
        let is_it = |index: &usize| self.jobs.get(*index).is_some_and(|job| job.id == id);
        let indexes = || self.jobs.iter().enumerate().map(|(index, job)| (job.id, index)).collect();
        let near = [last, last + 1].into_iter().find(is_it);
        let index = near.or_else(|| self.indexes.get_or_init(indexes).get(id).copied())?;
        self.last.set(index);
        Some(index)
    }

    fn finish(
        &mut self,
        index: usize,
        messages: &[Text],
        result: Outcome,
        on_progress: &mut dyn FnMut(usize, Progress<'_>),
    ) {
        let messages: Vec<Message> =
            messages.iter().filter_map(|line| Message::parse(line.as_bstr(), API_VERSION_4)).collect();
        let is_modified = messages.contains(&Message::RequiresForceToOverwrite);
        messages.into_iter().for_each(|message| on_progress(index, Progress::Message(message)));
        let difference = self.differences.remove(&index);
        if let Some(pair) = difference.filter(|_| is_modified) {
            on_progress(index, Progress::Diff(pair));
        }
        self.end(
            index,
            if result == Outcome::Done { Progress::Done } else { Progress::Failed(Failure::Told) },
            on_progress,
        );
    }

    fn end(&mut self, index: usize, how: Progress<'_>, on_progress: &mut dyn FnMut(usize, Progress<'_>)) {
        self.unfinished.remove(&index);
        self.in_hand.remove(&index);
        on_progress(index, how);
    }

    /// Fails the entities that were begun. Returns true if there were any.
    pub(super) fn fail_in_hand(&mut self, reason: &str, on_progress: &mut dyn FnMut(usize, Progress<'_>)) -> bool {
        let lost: Vec<usize> = self.in_hand.keys().copied().collect();
        self.fail_each(&lost, reason, on_progress);
        !lost.is_empty()
    }

    /// Fails those of the entities that are not finished.
    pub(super) fn fail(&mut self, jobs: &[Job<'_>], reason: &str, on_progress: &mut dyn FnMut(usize, Progress<'_>)) {
        let indexes = jobs.iter().filter_map(|job| self.find(job.id));
        let indexes: Vec<usize> = indexes.filter(|index| self.unfinished.contains(index)).collect();
        self.fail_each(&indexes, reason, on_progress);
    }

    /// Fails all unfinished entities.
    pub(super) fn fail_all(&mut self, reason: &str, on_progress: &mut dyn FnMut(usize, Progress<'_>)) {
        let indexes: Vec<usize> = self.unfinished.iter().copied().collect();
        self.fail_each(&indexes, reason, on_progress);
    }

    fn fail_each(&mut self, indexes: &[usize], reason: &str, on_progress: &mut dyn FnMut(usize, Progress<'_>)) {
        for &index in indexes {
            self.end(index, Progress::Failed(Failure::Broken(reason.to_owned())), on_progress);
        }
    }
}
