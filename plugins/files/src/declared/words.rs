//! Verbs for changes of paths, pending and completed.

use holo_change::tracked::State;

/// Returns the verbs for a change of a path's state.
pub(super) fn change(current: &State, desired: &State) -> (String, String) {
    match (current, desired) {
        (_, State::Absent) => ("remove".to_owned(), "removed".to_owned()),
        (State::Absent, _) => ("make".to_owned(), "made".to_owned()),
        _ => match current.differs_by(desired) {
            Some(what) => (format!("change {what} of"), format!("changed {what} of")),
            None => ("write".to_owned(), "wrote".to_owned()),
        },
    }
}

pub(super) const FORGET: (&str, &str) = ("forget", "forgot");

/// Returns the verbs for restoring a path.
pub(super) fn back(base: &State, current: &State) -> (&'static str, &'static str) {
    match base {
        base if base == current => FORGET,
        State::Absent => ("remove", "removed"),
        _ => ("restore", "restored"),
    }
}
