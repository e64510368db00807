//! The state of a systemd unit.

use crate::answer::Answer;
use holo_process::Program;
use std::time::Duration;

/// Asks systemd for the state of a unit.
pub(crate) fn look(name: &str, limit: Duration) -> Result<Answer, Answer> {
    let mut systemctl = Program::new("systemctl");
    systemctl.args(["is-active", "--", name]).timeout(limit);
    let said = systemctl.output().map_err(|error| Answer::unknown(error.to_string()))?;
    let state = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    match state.as_str() {
        "active" => Ok(Answer::ok(format!("{name} is active"))),
        "activating" | "reloading" | "refreshing" => Err(Answer::warning(format!("{name} is {state}"))),
        "" => {
            let reason = String::from_utf8_lossy(&said.stderr).trim().to_owned();
            Err(Answer::unknown(if reason.is_empty() { "systemctl printed no output".to_owned() } else { reason }))
        }
        _ => Err(Answer::critical(format!("{name} is {state}"))),
    }
}
