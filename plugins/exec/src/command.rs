//! Commands in definitions: a string that is split according to a shell's rules, a list, or a shell script.

use holo_plugin::definitions::{self, WrittenCommand};
use holo_plugin::process::Program;

const SHELL: &str = "/bin/sh";

/// The reason why a command is invalid, worded to follow "KEY: ".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CommandError {
    #[error(transparent)]
    Words(#[from] definitions::CommandError),
    #[error("with shell = true a command is a string")]
    ListForShell,
}

/// Returns the program and its arguments; with `shell`, a string is a script.
///
/// # Errors
/// If there is no program.
pub(crate) fn words(command: &WrittenCommand, shell: bool) -> Result<Vec<String>, CommandError> {
    let script = match command {
        _ if !shell => return Ok(command.words()?),
        WrittenCommand::Words(_) => return Err(CommandError::ListForShell),
        WrittenCommand::Text(text) if text.trim().is_empty() => return Err(definitions::CommandError::Empty.into()),
        WrittenCommand::Text(text) => text,
    };
    Ok(WrittenCommand::Words([SHELL, "-c", script].map(str::to_owned).into()).words()?)
}

/// Returns the command on one line, as written.
pub(crate) fn shown(command: &WrittenCommand) -> String {
    let text = match command {
        WrittenCommand::Text(text) => text.trim().to_owned(),
        WrittenCommand::Words(words) => Program::from_words(words).to_string(),
    };
    let mut lines = text.lines();
    let first: String = lines.next().unwrap_or_default().chars().map(blank_for_control).collect();
    if lines.next().is_some() { format!("{} …", first.trim_end()) } else { first }
}

fn blank_for_control(letter: char) -> char {
    if letter.is_control() { ' ' } else { letter }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> WrittenCommand {
        WrittenCommand::Text(text.to_owned())
    }

    fn list(words: &[&str]) -> WrittenCommand {
        WrittenCommand::Words(words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn a_string_is_split_and_a_list_is_taken() {
        assert_eq!(words(&text("a 'b c'"), false).unwrap(), ["a", "b c"]);
        assert_eq!(words(&list(&["a", "'b c'"]), false).unwrap(), ["a", "'b c'"]);
        for wrong in ["don't worry", "", " ", "''", "a\0b"] {
            assert!(words(&text(wrong), false).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_shell_gets_the_string_as_it_is() {
        let script = "don't split this; it's for a shell";
        assert_eq!(words(&text(script), true).unwrap(), ["/bin/sh", "-c", script]);
        assert!(words(&list(&["a"]), true).is_err());
        for wrong in [" \n", "a\0b"] {
            assert!(words(&text(wrong), true).is_err(), "{wrong:?}");
        }
        assert!(words(&list(&[]), false).is_err());
    }

    #[test]
    fn is_shown_in_one_line() {
        assert_eq!(shown(&text(" a 'b c' \n")), "a 'b c'");
        assert_eq!(shown(&text("set -e\ta\necho b\n")), "set -e a …");
        assert_eq!(shown(&list(&["a", "b c", "d\ne"])), "a 'b c' 'd …");
    }
}
