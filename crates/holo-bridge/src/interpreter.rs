//! The interpreter of a module, as declared.

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use std::fmt;
use std::path::Path;

/// A program and its first arguments: a path, or a list. A path is never split.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interpreter(Vec<String>);

impl Interpreter {
    /// Returns the interpreter at a path, without arguments.
    #[must_use]
    pub fn new(path: &str) -> Interpreter {
        Interpreter(vec![path.to_owned()])
    }

    /// Returns the program and its first arguments.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.0
    }

    /// Returns the reason why the interpreter is invalid, worded to follow `interpreter: `; `None` if it is valid.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let program = self.0.first()?;
        if self.0.iter().any(|word| word.contains('\0')) {
            return Some("cannot hold NUL".to_owned());
        }
        let hint = self.hint();
        (!Path::new(program).is_absolute()).then(|| format!("{program:?} is not an absolute path; {hint}"))
    }

    /// Returns how to write the interpreter so that it is looked up in `PATH`.
    #[must_use]
    pub fn hint(&self) -> String {
        let program = self.0.first().map(String::as_str).unwrap_or_default();
        let mut words: Vec<&str> = program.split_whitespace().collect();
        if words.len() < 2 {
            let name = program.rsplit('/').find(|name| !name.is_empty()).unwrap_or("python3");
            words = vec!["/usr/bin/env", name];
        }
        format!("write {}", serde_json::json!(words).to_string().replace("\",\"", "\", \""))
    }
}

impl<'de> Deserialize<'de> for Interpreter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Interpreter, D::Error> {
        deserializer.deserialize_any(WordsVisitor)
    }
}

impl Serialize for Interpreter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

struct WordsVisitor;

impl<'de> Visitor<'de> for WordsVisitor {
    type Value = Interpreter;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path or a list of strings")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Interpreter, E> {
        checked(vec![text.to_owned()])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Interpreter, A::Error> {
        let mut words = Vec::new();
        while let Some(word) = values.next_element()? {
            words.push(word);
        }
        checked(words)
    }
}

fn checked<E: de::Error>(words: Vec<String>) -> Result<Interpreter, E> {
    if words.first().is_none_or(String::is_empty) {
        return Err(E::custom("is empty"));
    }
    Ok(Interpreter(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Interpreter, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn a_path_or_a_list() {
        assert_eq!(read("\"/usr/bin/python3\"").unwrap().words(), ["/usr/bin/python3"]);
        assert_eq!(read("[\"/usr/bin/env\", \"python3\"]").unwrap().words(), ["/usr/bin/env", "python3"]);
        assert_eq!(read("\"/my programs/python\"").unwrap().problem(), None);
        assert!(read("\"\"").is_err() && read("[]").is_err() && read("3").is_err());
    }

    #[test]
    fn what_is_looked_up_is_looked_up_by_env() {
        let problem = |json: &str| read(json).unwrap().problem().unwrap();
        assert_eq!(
            problem("\"python3\""),
            "\"python3\" is not an absolute path; write [\"/usr/bin/env\", \"python3\"]"
        );
        assert_eq!(read("\"/usr/bin/env python3\"").unwrap().hint(), "write [\"/usr/bin/env\", \"python3\"]");
        assert_eq!(read("\"/opt/bin/perl\"").unwrap().hint(), "write [\"/usr/bin/env\", \"perl\"]");
        assert_eq!(problem("[\"/a\", \"b\\u0000\"]"), "cannot hold NUL");
    }
}
