//! Applying single entities in plugins that apply sets.

use crate::{Applied, Job, Mode, Output, SetAnswers};

/// Applies one entity as a set of its own, and returns its result.
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

/// Receives the answer for a set of one entity.
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
