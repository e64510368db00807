//! Applying an edit to the draft of a file, and taking it back.

use super::EditDefinition;
use super::ledger::{Draft, Ledger, SharedLine, Spot};
use super::text::Text;
use holo_plugin::definitions::Invalid;

/// The type of entities that share lines: the settings of a section need its header.
const LED: &str = "ini:";
/// The type of entities whose lines are contiguous.
const WHOLE: &str = "block:";

/// The reason why an edit cannot be applied.
#[derive(Debug, thiserror::Error)]
pub(super) enum EditError {
    #[error("{0}")]
    Invalid(#[from] Invalid),
    #[error("a line of it is that of {}, too; one of both has to go", .0.0)]
    Shared(SharedLine),
}

/// The effect of an edit on a draft. It can be [reverted](Draft::roll_back) until it is committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Whether the text of the file changes.
    pub(super) changes: bool,
    /// Whether manual changes of the edit's own lines would be lost.
    pub(super) needs_force: bool,
}

/// Adds the changes that users and other programs have made in a file.
pub(super) fn follow(ledger: &mut Ledger, current: &Text) {
    ledger.follow(current, &|edit| edit.starts_with(WHOLE));
}

/// Applies an edit. `is_known` means that it was applied from the same definition before.
///
/// # Errors
/// If another edit owns a line that the edit would remove.
pub(super) fn make(
    draft: &mut Draft,
    id: &str,
    definition: &EditDefinition,
    is_known: bool,
) -> Result<Outcome, EditError> {
    if is_known && definition.holds(draft)? {
        return Ok(Outcome::default());
    }
    let was_changed = draft.is_changed(id);
    let before = undo(draft, id);
    let visible = before.map(|before| draft.visible_from(before));
    let plan = definition.plan(draft, visible)?;
    draft.make(id, plan, before).map_err(EditError::Shared)?;
    Ok(outcome(draft, was_changed))
}

/// Takes an edit back.
pub(super) fn take_back(draft: &mut Draft, id: &str) -> Outcome {
    let was_changed = draft.is_changed(id);
    undo(draft, id);
    outcome(draft, was_changed)
}

/// Takes an edit back, with manual changes of its lines. Returns its former position.
fn undo(draft: &mut Draft, id: &str) -> Option<Spot> {
    draft.take_back(id, id.starts_with(LED))
}

fn outcome(draft: &Draft, was_changed: bool) -> Outcome {
    let changes = draft.changes_text();
    Outcome { changes, needs_force: was_changed && changes }
}

#[cfg(test)]
mod tests;
