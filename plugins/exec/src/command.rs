//! Commands as they are written down: a string that is split by a shell's rules, a list, or a script for a shell.

use holo_plugin::definitions;
use holo_plugin::process::Program;
use serde::de::{self, Deserializer};
use std::fmt;

const SHELL: &str = "/bin/sh";

/// A command, as it is written down.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(untagged))]
pub(crate) enum Command {
    /// A string: split by a shell's rules without a shell or, with `shell = true`, a script for one.
    Text(String),
    /// The program and its arguments.
    Words(Vec<String>),
}

/// A command that has no words, in a message that reads after "KEY: ".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("the command is empty")]
    Empty,
    #[error("a quote or backslash is not closed in {0:?}")]
    OpenQuote(String),
    #[error("with shell = true a command is a string")]
    ListForShell,
    #[error("a command cannot hold NUL")]
    Nul,
}

impl Command {
    /// The program and its arguments.
    ///
    /// # Errors
    /// If there are none.
    pub(crate) fn words(&self, shell: bool) -> Result<Vec<String>, CommandError> {
        let words = match self {
            Command::Text(text) if shell && text.trim().is_empty() => return Err(CommandError::Empty),
            Command::Text(text) if shell => vec![SHELL.to_owned(), "-c".to_owned(), text.clone()],
            Command::Text(text) => definitions::words_of(text).ok_or_else(|| CommandError::OpenQuote(text.clone()))?,
            Command::Words(_) if shell => return Err(CommandError::ListForShell),
            Command::Words(words) => words.clone(),
        };
        if words.first().is_none_or(String::is_empty) {
            return Err(CommandError::Empty);
        }
        if words.iter().any(|word| word.contains('\0')) {
            return Err(CommandError::Nul);
        }
        Ok(words)
    }

    /// A word that only a shell would understand, if there is one.
    pub(crate) fn meant_for_a_shell(&self) -> Option<&'static str> {
        match self {
            Command::Text(text) => definitions::meant_for_a_shell(text),
            Command::Words(_) => None,
        }
    }

    /// The command in one line, as it is written down.
    pub(crate) fn shown(&self) -> String {
        let text = match self {
            Command::Text(text) => text.trim().to_owned(),
            Command::Words(words) => Program::from_words(words).to_string(),
        };
        let mut lines = text.lines();
        let first: String = lines.next().unwrap_or_default().chars().map(blank_for_control).collect();
        if lines.next().is_some() { format!("{} …", first.trim_end()) } else { first }
    }
}

fn blank_for_control(letter: char) -> char {
    if letter.is_control() { ' ' } else { letter }
}

impl<'de> de::Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Command;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a command as a string or a list of strings")
            }

            fn visit_str<E>(self, text: &str) -> Result<Command, E> {
                Ok(Command::Text(text.to_owned()))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut values: A) -> Result<Command, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = values.next_element()? {
                    words.push(word);
                }
                Ok(Command::Words(words))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_split_and_a_list_is_taken() {
        assert_eq!(Command::Text("a 'b c'".into()).words(false).unwrap(), ["a", "b c"]);
        assert_eq!(Command::Words(vec!["a".into(), "'b c'".into()]).words(false).unwrap(), ["a", "'b c'"]);
        for text in ["don't worry", "", " ", "''", "a\0b"] {
            assert!(Command::Text(text.into()).words(false).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_shell_gets_the_string_as_it_is() {
        let text = "don't split this; it's for a shell";
        assert_eq!(Command::Text(text.into()).words(true).unwrap(), ["/bin/sh", "-c", text]);
        assert!(Command::Words(vec!["a".into()]).words(true).is_err());
        assert!(Command::Text(" \n".into()).words(true).is_err());
        assert!(Command::Words(Vec::new()).words(false).is_err());
    }

    #[test]
    fn is_shown_in_one_line() {
        assert_eq!(Command::Text(" a 'b c' \n".into()).shown(), "a 'b c'");
        assert_eq!(Command::Text("set -e\ta\necho b\n".into()).shown(), "set -e a …");
        assert_eq!(Command::Words(vec!["a".into(), "b c".into(), "d\ne".into()]).shown(), "a 'b c' 'd …");
    }
}
