//! Commands in definitions, as lists of words or as text that is split by a shell's rules.

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

/// Splits a command according to a shell's rules. Returns `None` if a quote is not closed.
#[must_use]
fn words_of(text: &str) -> Option<Vec<String>> {
    shlex::split(&for_the_library(text))
}

/// Words that only have a meaning in a shell, if they stand alone.
const OF_A_SHELL: [&str; 14] = ["|", "||", "|&", "&", "&&", ";", ">", ">>", "<", "<<", "2>", "2>>", "2>&1", "&>"];

/// Returns a word that only has a meaning in a shell, and that seems to be meant that way: it stands alone and
/// unquoted.
#[must_use]
fn meant_for_a_shell(text: &str) -> Option<&'static str> {
    let words = words_of(text)?;
    let is_find = words.first().is_some_and(|program| program.rsplit('/').next() == Some("find"));
    let stands_alone =
        |sign: &str| words.iter().any(|word| word == sign) && text.split_whitespace().any(|part| part == sign);
    // `find` takes a semicolon as an argument.
    OF_A_SHELL.into_iter().filter(|sign| !(is_find && *sign == ";")).find(|sign| stands_alone(sign))
}

/// Removes backslashes at the ends of lines, which join two lines except within single quotes. shlex would parse one
/// that stands alone as a word, and the text after a `#` at the start of a word as a comment, which only a script has.
fn for_the_library(text: &str) -> String {
    let mut joined = String::new();
    let (mut in_single, mut in_double) = (false, false);
    let mut is_between_words = true;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if !in_single => match letters.next() {
                Some('\n') => {}
                escaped => {
                    is_between_words = false;
                    joined.extend([Some(letter), escaped].into_iter().flatten());
                }
            },
            '#' if is_between_words => {
                is_between_words = false;
                joined.push_str("\\#");
            }
            _ => {
                in_single ^= letter == '\'' && !in_double;
                in_double ^= letter == '"' && !in_single;
                is_between_words = !in_single && !in_double && letter.is_ascii_whitespace();
                joined.push(letter);
            }
        }
    }
    joined
}

#[cfg(test)]
mod words_tests {
    use super::*;

    #[test]
    fn words_for_a_shell_are_found() {
        for (text, sign) in [
            ("a | b", Some("|")),
            ("a && b", Some("&&")),
            ("a || true", Some("||")),
            ("echo x > /etc/y", Some(">")),
            ("a 2>&1", Some("2>&1")),
            ("sleep 5 &", Some("&")),
            ("cd /x ; make", Some(";")),
            ("grep '|' x", None),
            ("grep \\| x", None),
            ("echo 'a | b'", None),
            ("sh -c 'a && b'", None),
            ("find / -exec rm {} ;", None),
            ("/usr/bin/find / -name x | sort", Some("|")),
            ("test a = b", None),
            ("a|b", None),
            ("don't", None),
        ] {
            assert_eq!(meant_for_a_shell(text), sign, "{text}");
        }
    }

    #[test]
    fn commands_are_split_as_a_shell_would() {
        for (text, words) in [
            ("hello", &["hello"][..]),
            ("hello   goodbye", &["hello", "goodbye"]),
            ("glob* test? $HOME", &["glob*", "test?", "$HOME"]),
            (r"don\'t you know the decimal system\?", &["don't", "you", "know", "the", "decimal", "system?"]),
            (r"'don'\''t you know?'", &["don't you know?"]),
            ("one '' two", &["one", "", "two"]),
            ("x # foo", &["x", "#", "foo"]),
            ("#x '#' \"a #b\" c#d\n#e 'f'#g \\#h", &["#x", "#", "a #b", "c#d", "#e", "f#g", "#h"]),
            ("text with\\\na backslash-escaped newline", &["text", "witha", "backslash-escaped", "newline"]),
            ("text \"with\na\" quoted newline", &["text", "with\na", "quoted", "newline"]),
            ("\"quoted\\d\\\\\\\" text with\\\na newline\"", &["quoted\\d\\\" text witha newline"]),
            ("text with an escaped \\\n newline", &["text", "with", "an", "escaped", "newline"]),
            ("'single\\\nquotes' \"it's\\\n\" end", &["single\\\nquotes", "it's", "end"]),
            ("foo\"bar\"baz", &["foobarbaz"]),
            ("/bin/sh -c 'echo hello | cat'", &["/bin/sh", "-c", "echo hello | cat"]),
            ("", &[]),
        ] {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            assert_eq!(words_of(text), Some(words), "{text:?}");
        }
        for text in ["don't worry", r"'test'\''ing", "\"foo'bar", "foo\\", "/bin/echo 'unterminated"] {
            assert_eq!(words_of(text), None, "{text:?}");
        }
    }
}
