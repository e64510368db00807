//! Files of adopted definitions. Each definition follows comments with the ID of its entity and the reason.

use bstr::{BStr, BString, ByteSlice};
use holo_definitions::values::quoted;
use std::borrow::Cow;

/// The first line of such a file.
const HEADER: &str =
    "# Written by holo adopt, which replaces what is below the name of an entity when that is adopted again.";
/// The beginning of the line that names an entity.
const MARK: &str = "# adopted: ";

/// A file of definitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Definitions {
    blocks: Vec<Block>,
}

/// The definition of an entity.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    id: String,
    /// Everything below the line with its ID, without trailing blank lines.
    text: BString,
}

/// The file was not written by `holo adopt`.
#[derive(Debug, thiserror::Error)]
#[error("it was not written by holo adopt")]
pub(super) struct ForeignError;

impl Definitions {
    /// Returns an empty file.
    pub(super) fn new() -> Definitions {
        Definitions { blocks: Vec::new() }
    }

    /// Parses a file.
    pub(super) fn parse(text: &[u8]) -> Result<Definitions, ForeignError> {
        let mut lines = text.split_str("\n");
        if lines.next() != Some(HEADER.as_bytes()) {
            return Err(ForeignError);
        }
        let mut blocks: Vec<Block> = Vec::new();
        for line in lines {
            match (line.strip_prefix(MARK.as_bytes()), blocks.last_mut()) {
                (Some(id), _) => blocks.push(Block { id: parse_id(id).ok_or(ForeignError)?, text: BString::default() }),
                (None, Some(block)) => block.text.extend([line, b"\n"].concat()),
                // A blank line that a user may have added.
                (None, None) if line.is_empty() => {}
                (None, None) => return Err(ForeignError),
            }
        }
        blocks.iter_mut().for_each(|block| block.text = block.text.trim_end().into());
        Ok(Definitions { blocks })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Removes the definition of an entity. Returns true if there was one.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        let count = self.blocks.len();
        self.blocks.retain(|block| block.id != id);
        self.blocks.len() < count
    }

    /// Returns true if the file defines the entity.
    pub(super) fn has(&self, id: &str) -> bool {
        self.blocks.iter().any(|block| block.id == id)
    }

    /// Adds a definition, replacing an earlier one of the same entity. Without a reason, an earlier reason is kept.
    pub(super) fn set(&mut self, id: &str, reason: Option<&BString>, definition: &[u8]) {
        let earlier = self.blocks.iter_mut().find(|block| block.id == id);
        let reason = reason.map(|reason| format!("# {}", as_comment(reason.as_bstr())).into_bytes());
        let reason = reason.or_else(|| {
            let first = earlier.as_ref()?.text.lines().next()?;
            first.starts_with(b"# ").then(|| first.to_vec())
        });
        let reason = reason.map(|reason| [&reason[..], b"\n"].concat()).unwrap_or_default();
        let text = [&reason[..], definition.trim()].concat().into();
        match earlier {
            Some(block) => block.text = text,
            None => self.blocks.push(Block { id: id.to_owned(), text }),
        }
    }

    /// Returns the text of the file.
    pub(super) fn to_text(&self) -> Vec<u8> {
        let mut text = format!("{HEADER}\n").into_bytes();
        for Block { id, text: definition } in &self.blocks {
            text.extend([b"\n", MARK.as_bytes(), shown_id(id).as_bytes(), b"\n", definition, b"\n"].concat());
        }
        text
    }
}

/// Returns the form of an ID in its comment: a TOML string if a control character would end the comment or make it invalid.
fn shown_id(id: &str) -> Cow<'_, str> {
    let is_plain = !id.starts_with('"') && !id.contains(char::is_control);
    if is_plain { Cow::Borrowed(id) } else { Cow::Owned(quoted(id)) }
}

/// Parses an ID in this form.
fn parse_id(shown: &[u8]) -> Option<String> {
    let shown = shown.to_str().ok()?;
    if !shown.starts_with('"') {
        return Some(shown.to_owned());
    }
    let table: toml::Table = format!("id = {shown}").parse().ok()?;
    Some(table.get("id")?.as_str()?.to_owned())
}

/// Returns a text that is valid in a comment.
fn as_comment(text: &BStr) -> String {
    text.to_str_lossy().replace(char::is_control, " ")
}

/// Returns the name of the file for a group.
pub(super) fn file_name(group: Option<&BString>) -> String {
    let safe = |letter: char| if letter.is_ascii_alphanumeric() || "._+-".contains(letter) { letter } else { '-' };
    match group {
        Some(group) => format!("adopted-{}.toml", group.to_str_lossy().chars().map(safe).collect::<String>()),
        None => "adopted.toml".to_owned(),
    }
}

/// Returns true if a file has such a name.
pub(super) fn is_file_name(name: &str) -> bool {
    let rest = name.strip_prefix("adopted").and_then(|rest| rest.strip_suffix(".toml"));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use holo_testing::random;

    #[test]
    fn definition_is_added_replaced_and_removed() {
        let mut definitions = Definitions::new();
        let reason = BString::from("installed\nby hand");
        definitions.set("package:a", Some(&reason), b"[[package]]\nname = \"a\"\n\n");
        definitions.set("package:b", None, b"[[package]]\nname = \"b\"\n");
        let text = definitions.to_text();
        let expected = format!(
            "{HEADER}\n\n# adopted: package:a\n# installed by hand\n[[package]]\nname = \"a\"\n\n# adopted: package:b\n[[package]]\nname = \"b\"\n"
        );
        assert_eq!(text.as_bstr(), expected.as_bytes().as_bstr());
        let mut again = Definitions::parse(&text).unwrap();
        assert_eq!(again, definitions);
        again.set("package:a", None, b"[[package]]\nname = \"c\"");
        assert!(again.to_text().contains_str(
            "# adopted: package:a\n# installed by hand\n[[package]]\nname = \"c\"\n\n# adopted: package:b"
        ));
        assert!(again.remove("package:a") && !again.remove("package:a") && !again.is_empty());
        assert!(again.remove("package:b") && again.is_empty());
    }

    #[test]
    fn hostile_name_stays_in_its_comment() {
        const PIECES: [&str; 14] = [
            "\n",
            "\r",
            "\t",
            "\u{1b}[2J",
            "\0",
            "\u{85}",
            "\"",
            "\\",
            "'",
            "# adopted: b:b",
            "[[file]]",
            "path = 1",
            " ",
            "é",
        ];
        random::cases(1000, |random| {
            let mut text = || (0..random.below(6)).map(|_| *random.pick(&PIECES)).collect::<String>();
            let (one, two, reason) = (format!("x:{}", text()), format!("y:{}", text()), format!("for {}", text()));
            let mut definitions = Definitions::new();
            definitions.set(&one, Some(&reason.into()), b"[[one]]\nname = 1\n");
            definitions.set(&two, None, b"[[two]]\nname = 2\n");
            let written = definitions.to_text();
            let table: toml::Table = written.to_str().unwrap().parse().unwrap();
            assert_eq!(table, "[[one]]\nname = 1\n[[two]]\nname = 2\n".parse().unwrap(), "{}", written.as_bstr());
            let mut again = Definitions::parse(&written).unwrap();
            assert_eq!(again, definitions, "{}", written.as_bstr());
            again.set(&one, None, b"[[one]]\nname = 1\n");
            assert_eq!(again, definitions, "the definition is replaced, and keeps its reason");
        });
    }

    #[test]
    fn handwritten_file_is_rejected() {
        for text in ["", "[[package]]\n", &format!("{HEADER}\nname = 1\n"), &format!("x\n{HEADER}\n")] {
            assert!(Definitions::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn file_names_are_derived_from_groups() {
        assert_eq!(file_name(None), "adopted.toml");
        assert_eq!(file_name(Some(&"nginx".into())), "adopted-nginx.toml");
        assert_eq!(file_name(Some(&"../etc x".into())), "adopted-..-etc-x.toml");
        for (name, is_one) in [("adopted.toml", true), ("adopted-x.toml", true), ("adoptedx.toml", false), ("x", false)]
        {
            assert_eq!(is_file_name(name), is_one, "{name}");
        }
    }
}
