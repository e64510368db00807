//! Words for changes of paths: for one that would be made, and for one that was made. They go before the path.

use holo_change::tracked::State;

/// Returns the words for a path that becomes another state.
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

/// Returns the words for a path whose base comes back.
pub(super) fn back(base: &State, current: &State) -> (&'static str, &'static str) {
    match base {
        base if base == current => FORGET,
        State::Absent => ("remove", "removed"),
        _ => ("restore", "restored"),
    }
}
