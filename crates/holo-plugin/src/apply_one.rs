//! A set of one entity, for plugins that work on sets.

use crate::{Applied, Job, Mode, Output, SetAnswers};

/// Applies one entity as a plugin applies its sets, and returns its result.
pub fn apply_one<'e, E>(
    entity: &'e E,
    mode: Mode<'e>,
    output: &mut Output<'_>,
    apply: impl FnOnce(&[Job<'e, E>], &mut dyn SetAnswers),
) -> Applied {
    let mut answer = Answer { output: output.again(), applied: Applied::FAILED };
    apply(&[Job { entity, mode }], &mut answer);
    answer.applied
}

/// The answer to a set of one.
struct Answer<'a> {
    output: Output<'a>,
    applied: Applied,
}

impl SetAnswers for Answer<'_> {
    fn begin(&mut self, _: usize) {}

    fn output(&mut self, _: usize) -> Output<'_> {
        self.output.again()
    }

    fn end(&mut self, _: usize, applied: Applied) {
        self.applied = applied;
    }
}
