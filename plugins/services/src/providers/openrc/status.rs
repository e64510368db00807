//! Parses the output of `rc-status` about many services.

use crate::provider::ManagerError;
use crate::state::Phase;
use std::collections::HashMap;

/// The phase of a service, and OpenRC's word for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) phase: Phase,
    pub(super) word: String,
}

/// Parses a list of services. Each line has a name, and the state in brackets or after an equals sign; for a supervised
/// service also the time since when it runs, and the number of restarts.
pub(super) fn parse(text: &str) -> HashMap<String, Result<Status, ManagerError>> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<(String, Result<Status, ManagerError>)> {
    let (name, rest) = line.trim().split_once(char::is_whitespace)?;
    let state = rest.trim().strip_prefix(['[', '='])?;
    let word = state.split_whitespace().next()?.trim_end_matches(']');
    Some((name.to_owned(), of_word(word)))
}

/// Returns the status for OpenRC's word.
///
/// # Errors
/// If the word is unknown.
pub(super) fn of_word(word: &str) -> Result<Status, ManagerError> {
    phase(word).map(|phase| Status { phase, word: word.to_owned() })
}

fn phase(word: &str) -> Result<Phase, ManagerError> {
    match word {
        // An inactive service was started, and waits for an external event.
        "started" | "inactive" => Ok(Phase::Up),
        "starting" => Ok(Phase::Coming),
        "stopping" => Ok(Phase::Going),
        "stopped" | "scheduled" | "hotplugged" | "wasinactive" => Ok(Phase::Down),
        "crashed" | "unsupervised" | "failed" => Ok(Phase::Failed),
        _ => Err(ManagerError::UnknownWord { property: "the state", word: word.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_lines_are_read() {
        let text = " demo                         [  started  ]\n sup              [  started 00:00:01 (0) ]\n\
                    crash =  crashed \nnet.eth0 = stopped\n odd   [ dancing ]\nRunlevel: boot\n[default]\n\n";
        let states = parse(text);
        let phase = |name: &str| states[name].as_ref().map(|status| (status.phase, status.word.as_str())).ok();
        assert_eq!(phase("demo"), Some((Phase::Up, "started")));
        assert_eq!(phase("sup"), Some((Phase::Up, "started")));
        assert_eq!(phase("crash"), Some((Phase::Failed, "crashed")));
        assert_eq!(phase("net.eth0"), Some((Phase::Down, "stopped")));
        assert_eq!(
            states["odd"].as_ref().unwrap_err().to_string(),
            "the state \"dancing\" is unknown to this version of holo"
        );
        assert_eq!(states.len(), 5);
    }
}
