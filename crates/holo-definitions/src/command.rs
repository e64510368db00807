//! Commands in definitions.

mod words;

pub use words::{meant_for_a_shell, words_of};

use crate::definition::Invalid;
use serde::{Deserialize, Deserializer, de};

/// A program and its arguments: a list, or a string that is split by a shell's rules. No shell is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    words: Vec<String>,
    /// A word that only a shell would understand.
    for_a_shell: Option<&'static str>,
}

impl Command {
    /// The program, and its arguments.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// That the command seems to be meant for a shell, if it does: the value of this key, in which it is a part.
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
        deserializer.deserialize_any(Words)
    }
}

struct Words;

impl<'de> de::Visitor<'de> for Words {
    type Value = Command;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a command as a string or a list of strings")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Command, E> {
        let words =
            words_of(text).ok_or_else(|| E::custom(format!("a quote or backslash is not closed in {text:?}")))?;
        Command::checked(words, meant_for_a_shell(text))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut values: A) -> Result<Command, A::Error> {
        let mut words = Vec::new();
        while let Some(word) = values.next_element()? {
            words.push(word);
        }
        Command::checked(words, None)
    }
}

impl Command {
    fn checked<E: de::Error>(words: Vec<String>, for_a_shell: Option<&'static str>) -> Result<Command, E> {
        if words.first().is_none_or(String::is_empty) {
            return Err(E::custom("the command is empty"));
        }
        if words.iter().any(|word| word.contains('\0')) {
            return Err(E::custom("a command cannot hold NUL"));
        }
        Ok(Command { words, for_a_shell })
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Command {
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
