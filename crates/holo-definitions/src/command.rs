//! Commands in definitions.

mod words;

use words::{meant_for_a_shell, words_of};

use crate::definition::Invalid;
use serde::{Deserialize, Deserializer, de};

/// A command as written in a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenCommand {
    /// A string, which is split according to a shell's rules.
    Text(String),
    /// The program and its arguments.
    Words(Vec<String>),
}

/// The reason why a command is invalid, worded to follow "KEY: ".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The command has no program.
    #[error("the command is empty")]
    Empty,
    /// A quote is not closed.
    #[error("a quote or backslash is not closed in {0:?}")]
    OpenQuote(String),
    /// An argument contains a NUL byte, which cannot be passed to a program.
    #[error("a command cannot hold NUL")]
    Nul,
}

impl WrittenCommand {
    /// Returns the program and its arguments. No shell is involved.
    ///
    /// # Errors
    /// If there is no program.
    pub fn words(&self) -> Result<Vec<String>, CommandError> {
        let words = match self {
            WrittenCommand::Text(text) => words_of(text).ok_or_else(|| CommandError::OpenQuote(text.clone()))?,
            WrittenCommand::Words(words) => words.clone(),
        };
        if words.first().is_none_or(String::is_empty) {
            return Err(CommandError::Empty);
        }
        if words.iter().any(|word| word.contains('\0')) {
            return Err(CommandError::Nul);
        }
        Ok(words)
    }

    /// Returns the first word that has a meaning only in a shell, if any.
    #[must_use]
    pub fn meant_for_a_shell(&self) -> Option<&'static str> {
        match self {
            WrittenCommand::Text(text) => meant_for_a_shell(text),
            WrittenCommand::Words(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for WrittenCommand {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrWords)
    }
}

struct TextOrWords;

impl<'de> de::Visitor<'de> for TextOrWords {
    type Value = WrittenCommand;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a command as a string or a list of strings")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<WrittenCommand, E> {
        Ok(WrittenCommand::Text(text.to_owned()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut values: A) -> Result<WrittenCommand, A::Error> {
        let mut words = Vec::new();
        while let Some(word) = values.next_element()? {
            words.push(word);
        }
        Ok(WrittenCommand::Words(words))
    }
}

/// A program and its arguments: a list, or a string that is split according to a shell's rules. No shell is involved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Command {
    words: Vec<String>,
    /// A word that has a meaning only in a shell.
    for_a_shell: Option<&'static str>,
}

impl Command {
    /// Returns the program and its arguments.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns a warning about the value of this key if the command seems to be written for a shell.
    #[must_use]
    pub fn doubt(&self, key: &'static str) -> Option<Invalid> {
        self.for_a_shell.map(|sign| {
            Invalid::new(
                key,
                format!("no shell is called, and {sign:?} is an argument; [\"sh\", \"-c\", \"...\"] calls one"),
            )
        })
    }
}

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = WrittenCommand::deserialize(deserializer)?;
        let words = written.words().map_err(de::Error::custom)?;
        Ok(Command { words, for_a_shell: written.meant_for_a_shell() })
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for WrittenCommand {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Command".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A program and its arguments: a list, or a string that is split by a shell's rules.",
            "anyOf": [{ "type": "string", "minLength": 1 }, { "type": "array", "items": { "type": "string" }, "minItems": 1 }],
        })
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Command {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        WrittenCommand::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        WrittenCommand::json_schema(generator)
    }
}
