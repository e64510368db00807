//! Answers for a subset of a set, for plugins that process the types of its entities one after the other.

use crate::index::{Table, define_index};
use crate::{Output, SetAnswers};

define_index! {
    /// The index of an entity in a subset.
    pub PartIndex
}

/// Receives the answers for a subset, by the index of the entity in the subset.
pub struct Part<'a, R> {
    /// The index in the set for each entity of the subset.
    pub places: Table<PartIndex, usize>,
    /// Receives the answers for the set.
    pub answers: &'a mut dyn SetAnswers<R>,
}

impl<R> SetAnswers<R> for Part<'_, R> {
    fn begin(&mut self, place: usize) {
        self.answers.begin(self.places[PartIndex::from(place)]);
    }

    fn output(&mut self, place: usize) -> Output<'_> {
        self.answers.output(self.places[PartIndex::from(place)])
    }

    fn end(&mut self, place: usize, result: R) {
        self.answers.end(self.places[PartIndex::from(place)], result);
    }

    fn hold_back(&mut self) {
        self.answers.hold_back();
    }

    fn flush(&mut self) {
        self.answers.flush();
    }
}
