//! The answers to some of a set, for plugins that work on the kinds of entities in it one after the other.

use crate::index::{Table, define_index};
use crate::{Output, SetAnswers};

define_index! {
    /// The index of an entity among some of a set.
    pub PartIndex
}

/// Takes the answers to some of a set, by their places among these.
pub struct Part<'a, R> {
    /// Their places in the set.
    pub places: Table<PartIndex, usize>,
    /// Takes the answers to all of the set.
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
