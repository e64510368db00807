//! Names and numbers of health states.

use holo_events::HealthState;

/// Returns the word for a state.
pub(crate) fn state_name(state: HealthState) -> &'static str {
    match state {
        HealthState::Ok => "ok",
        HealthState::Warning => "warning",
        HealthState::Critical => "critical",
        HealthState::Unknown => "unknown",
    }
}

/// Returns the number of a state, which is Nagios's exit status.
pub(crate) fn state_number(state: HealthState) -> i64 {
    match state {
        HealthState::Ok => 0,
        HealthState::Warning => 1,
        HealthState::Critical => 2,
        HealthState::Unknown => 3,
    }
}
