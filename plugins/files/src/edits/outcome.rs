//! The lines that a file has once an edit is made in it, or taken back.

use super::EditDefinition;
use super::ini;
use super::ledger::{Ledger, Place, SharedLine};
use super::text::Text;
use holo_plugin::definitions::Invalid;

/// The type of entities whose lines stand below a line that several of them may need.
const LED: &str = "ini:";
/// The type of entities whose lines belong together.
const WHOLE: &str = "block:";

/// The reason why an edit cannot be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum EditError {
    #[error("{0}")]
    Invalid(#[from] Invalid),
    #[error("a line of it is that of {}, too; one of both has to go", .0.0)]
    Shared(SharedLine),
}

/// The lines of a file as an edit leaves them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) ledger: Ledger,
    /// True if something would be lost that others have made of the edit's own lines.
    pub(super) needs_force: bool,
}

/// Brings in what others have made of a file.
pub(super) fn follow(ledger: &mut Ledger, current: &Text) {
    ledger.follow(current, &|edit| edit.starts_with(WHOLE));
}

/// Returns the lines once an edit is made; `is_known` says that it was made so before.
///
/// # Errors
/// If another edit is in the way.
pub(super) fn make(
    ledger: &Ledger,
    id: &str,
    definition: &EditDefinition,
    is_known: bool,
) -> Result<Outcome, EditError> {
    if is_known && definition.holds(&ledger.lines())? {
        return Ok(Outcome { ledger: ledger.clone(), needs_force: false });
    }
    let mut made = ledger.clone();
    let before = undo(&mut made, id);
    let plan = definition.plan(&made.lines(), before.map(|before| before.line))?;
    made.make(id, plan, before).map_err(EditError::Shared)?;
    Ok(outcome(ledger, made, id))
}

/// Returns the lines once an edit is taken back.
pub(super) fn take_back(ledger: &Ledger, id: &str) -> Outcome {
    let mut without = ledger.clone();
    undo(&mut without, id);
    outcome(ledger, without, id)
}

/// Takes an edit back with what others have made of its lines; returns the place where it was.
fn undo(ledger: &mut Ledger, id: &str) -> Option<Place> {
    ledger.drop_changes(id);
    ledger.take_back(id, &|line, below| if id.starts_with(LED) { ini::led(line, below) } else { None })
}

fn outcome(before: &Ledger, after: Ledger, id: &str) -> Outcome {
    let needs_force = before.is_changed(id) && before.text() != after.text();
    Outcome { ledger: after, needs_force }
}

#[cfg(test)]
mod tests;
