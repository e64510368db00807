//! The forms of `[[line]]`, `[[block]]` and `[[ini]]` tables, and their valid values.

use super::pattern::compile;
use crate::edits::ledger::{Draft, Spot};
use crate::edits::pattern::Pattern;
use holo_plugin::definitions::{Command, Definition, Invalid, NameError, NameKeys, values};
use serde::{Deserialize, Serialize};

/// Whether an edit must be present or absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ensure {
    /// It must be present.
    #[default]
    Present,
    /// It must be absent.
    Absent,
}

/// Declares the table of a type of edits: its own keys and the shared ones.
macro_rules! edit_table {
    // A type whose position in the file can be chosen.
    ($(#[$attribute:meta])* anchored $name:ident { $($own:tt)* }) => {
        edit_table! {
            $(#[$attribute])*
            $name {
                $($own)*
                /// A regular expression, `BOF` or `EOF`: new lines are inserted after the last matching line.
                pub(crate) insert_after: Option<String>,
                /// A regular expression, `BOF` or `EOF`: new lines are inserted before the first matching line.
                pub(crate) insert_before: Option<String>,
            }
            anchors(table) {
                Anchors { after: table.insert_after.as_deref(), before: table.insert_before.as_deref() }
            }
        }
    };
    ($(#[$attribute:meta])* $name:ident { $($own:tt)* }) => {
        edit_table! { $(#[$attribute])* $name { $($own)* } anchors(_table) { Anchors::default() } }
    };
    ($(#[$attribute:meta])* $name:ident { $($own:tt)* } anchors($table:pat) $anchors:block) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            /// The absolute path of the file.
            pub(crate) path: String,
            $($own)*
            /// Whether the edit must be present or absent.
            #[serde(default)]
            pub(crate) ensure: Ensure,
            /// Creates the file if it does not exist.
            #[serde(default)]
            pub(crate) create: bool,
            /// A program that must accept the new content before it replaces the old one; `{}` is the path of a copy.
            pub(crate) validate: Option<Command>,
            /// Never shows the content of the file.
            #[serde(default)]
            pub(crate) sensitive: bool,
            /// Overwrites the existing file instead of replacing it, for a file that is a mount point.
            #[serde(default)]
            pub(crate) in_place: bool,
        }

        impl $name {
            /// Returns the values of the shared keys.
            pub(in crate::edits) fn shared(&self) -> super::SharedKeys<'_> {
                let $table = self;
                super::SharedKeys {
                    anchors: $anchors,
                    path: &self.path,
                    ensure: self.ensure,
                    create: self.create,
                    validate: self.validate.as_ref(),
                    sensitive: self.sensitive,
                    in_place: self.in_place,
                }
            }
        }
    };
}

/// The values of the keys that all types of edits share.
pub(super) struct SharedKeys<'a> {
    pub(super) path: &'a str,
    pub(super) ensure: Ensure,
    pub(super) create: bool,
    pub(super) validate: Option<&'a Command>,
    pub(super) sensitive: bool,
    pub(super) in_place: bool,
    pub(super) anchors: Anchors<'a>,
}

impl SharedKeys<'_> {
    fn doubts(&self) -> Vec<Invalid> {
        self.validate.iter().filter_map(|command| command.doubt("validate")).collect()
    }

    /// Returns the invalid values among these keys and the edit's own ones.
    fn invalid_values<const COUNT: usize>(&self, own: [Result<(), Invalid>; COUNT]) -> Vec<Invalid> {
        let path = values::target("path", self.path).map(drop);
        Invalid::all([path].into_iter().chain(own).chain(self.anchors.validate_values()))
    }

    /// Checks combinations of keys.
    fn validate(&self) -> Result<(), Invalid> {
        self.anchors.validate(self.ensure)?;
        not_absent("create", self.create, self.ensure)
    }
}

/// Returns the name of an entity with a path and an optional name.
fn named(keys: &NameKeys<'_, '_>) -> Result<String, NameError> {
    let path = keys.required("path")?;
    Ok(match keys.optional("name")? {
        Some(name) => format!("{path}#{name}"),
        None => path.to_owned(),
    })
}

fn not_absent(key: &'static str, given: bool, ensure: Ensure) -> Result<(), Invalid> {
    if given && ensure == Ensure::Absent {
        return Err(Invalid::new(key, "is only for ensure = \"present\""));
    }
    Ok(())
}

fn one_line(key: &'static str, text: &str) -> Result<(), Invalid> {
    if text.contains(['\n', '\r', '\0']) {
        return Err(Invalid::new(key, format!("{text:?} is not one line")));
    }
    Ok(())
}

fn trimmed(key: &'static str, text: &str) -> Result<(), Invalid> {
    if text.trim() == text {
        return Ok(());
    }
    Err(Invalid::new(key, format!("{text:?} begins or ends with a blank, which would not be read as part of it")))
}

/// The values of an anchor that are not regular expressions: the beginning and the end of the file.
const BEGINNING: &str = "BOF";
const END: &str = "EOF";

/// The keys for the position of new lines.
#[derive(Clone, Copy, Default)]
pub(crate) struct Anchors<'a> {
    after: Option<&'a str>,
    before: Option<&'a str>,
}

impl Anchors<'_> {
    /// Returns the position for new lines: the end, if there is no matching line.
    pub(in crate::edits) fn place(&self, draft: &mut Draft) -> Result<Spot, Invalid> {
        Ok(match (self.after, self.before) {
            (Some(BEGINNING), _) | (_, Some(BEGINNING)) => draft.beginning(),
            (Some(END), _) | (_, Some(END)) | (None, None) => Spot::End,
            (Some(after), _) => {
                let after = Pattern::new("insert_after", after)?;
                draft.last_match(&after).map_or(Spot::End, |last| draft.behind(last))
            }
            (_, Some(before)) => {
                let before = Pattern::new("insert_before", before)?;
                draft.first_match(&before).map_or(Spot::End, Spot::Before)
            }
        })
    }

    /// Checks each value.
    fn validate_values(&self) -> [Result<(), Invalid>; 2] {
        [("insert_after", self.after), ("insert_before", self.before)].map(|(key, anchor)| match anchor {
            None | Some(BEGINNING | END) => Ok(()),
            Some(anchor) => compile(key, anchor).map(drop),
        })
    }

    /// Checks combinations of keys.
    fn validate(&self, ensure: Ensure) -> Result<(), Invalid> {
        if self.after.is_some() && self.before.is_some() {
            return Err(Invalid::new("insert_before", "cannot be given together with insert_after"));
        }
        not_absent("insert_after", self.after.is_some(), ensure)?;
        not_absent("insert_before", self.before.is_some(), ensure)
    }
}

edit_table! {
    /// A line in a file that others own.
    anchored LineDefinition {
        /// The name that distinguishes it from other lines of the file.
        #[expect(dead_code, reason = "it is a part of the ID")]
        pub(crate) name: Option<String>,
        /// The line, without a line ending.
        pub(crate) line: Option<String>,
        /// A regular expression: the last matching line is replaced, or all matching lines are removed.
        #[serde(rename = "match")]
        pub(crate) matches: Option<String>,
    }
}

impl Definition for LineDefinition {
    const TABLE: &'static str = "line";
    const HAS_FOLDERS: bool = true;

    fn entity_name(keys: &NameKeys<'_, '_>) -> Result<String, NameError> {
        named(keys)
    }

    fn doubts(&self) -> Vec<Invalid> {
        self.shared().doubts()
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        self.shared().invalid_values([
            self.line.iter().try_for_each(|line| one_line("line", line)),
            self.matches.iter().try_for_each(|pattern| compile("match", pattern).map(drop)),
        ])
    }

    fn validate(&self) -> Result<(), Invalid> {
        if self.ensure == Ensure::Present && self.line.is_none() {
            return Err(Invalid::new("line", "is missing"));
        }
        if self.line.is_none() && self.matches.is_none() {
            return Err(Invalid::new("match", "is missing; without line, it says which lines go"));
        }
        self.shared().validate()
    }
}

edit_table! {
    /// Lines between two marker lines in a file that others own.
    anchored BlockDefinition {
        /// The name that distinguishes it from other blocks of the file; it is part of the marker lines.
        pub(crate) name: Option<String>,
        /// The lines between the marker lines.
        pub(crate) content: Option<String>,
        /// The prefix of a comment, or its prefix and suffix.
        #[serde(default)]
        pub(crate) comment: Comment,
    }
}

/// The form of a comment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Comment {
    /// The prefix; the comment ends with the line.
    Prefix(String),
    /// The prefix and the suffix.
    Pair([String; 2]),
}

impl Default for Comment {
    fn default() -> Self {
        Comment::Prefix("#".to_owned())
    }
}

impl Definition for BlockDefinition {
    const TABLE: &'static str = "block";
    const HAS_FOLDERS: bool = true;

    fn entity_name(keys: &NameKeys<'_, '_>) -> Result<String, NameError> {
        named(keys)
    }

    fn doubts(&self) -> Vec<Invalid> {
        self.shared().doubts()
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        self.shared().invalid_values([
            self.comment.validate(),
            self.content.iter().try_for_each(|content| self.validate_content(content)),
        ])
    }

    fn validate(&self) -> Result<(), Invalid> {
        if self.ensure == Ensure::Present && self.content.is_none() {
            return Err(Invalid::new("content", "is missing"));
        }
        self.shared().validate()
    }
}

impl BlockDefinition {
    /// Returns the marker lines.
    pub(in crate::edits) fn markers(&self) -> [String; 2] {
        let name = self.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        ["BEGIN", "END"].map(|word| match &self.comment {
            Comment::Prefix(prefix) => format!("{prefix} {word} holo{name}"),
            Comment::Pair([prefix, suffix]) => format!("{prefix} {word} holo{name} {suffix}"),
        })
    }

    fn validate_content(&self, content: &str) -> Result<(), Invalid> {
        match content.lines().find(|line| self.markers().iter().any(|marker| marker == line)) {
            Some(line) => Err(Invalid::new("content", format!("{line:?} is a marker line of the block"))),
            None => Ok(()),
        }
    }
}

impl Comment {
    fn validate(&self) -> Result<(), Invalid> {
        let parts: &[String] = match self {
            Comment::Prefix(prefix) => std::slice::from_ref(prefix),
            Comment::Pair(pair) => pair,
        };
        parts.iter().try_for_each(|part| {
            one_line("comment", part)?;
            if part.is_empty() { Err(Invalid::new("comment", "is empty")) } else { trimmed("comment", part) }
        })
    }
}

edit_table! {
    /// The value of a key in a file of sections.
    IniDefinition {
        /// The section, without brackets; without it, the key is above all sections.
        pub(crate) section: Option<String>,
        /// The key.
        pub(crate) key: String,
        /// The value.
        pub(crate) value: Option<String>,
        /// The text between a new key and its value; ` = ` by default.
        pub(crate) delimiter: Option<String>,
    }
}

impl Definition for IniDefinition {
    const TABLE: &'static str = "ini";
    const KEY: &'static str = "key";
    const HAS_FOLDERS: bool = true;

    fn entity_name(keys: &NameKeys<'_, '_>) -> Result<String, NameError> {
        let (path, key) = (keys.required("path")?, keys.required("key")?);
        Ok(match keys.optional("section")? {
            Some(section) => format!("{path}#{section}.{key}"),
            None => format!("{path}#{key}"),
        })
    }

    fn doubts(&self) -> Vec<Invalid> {
        self.shared().doubts()
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        self.shared().invalid_values([
            self.section.iter().try_for_each(|section| self.validate_section(section)),
            self.validate_key(),
            self.value.iter().try_for_each(|value| one_line("value", value).and_then(|()| trimmed("value", value))),
            self.delimiter.iter().try_for_each(|delimiter| validate_delimiter(delimiter)),
        ])
    }

    fn validate(&self) -> Result<(), Invalid> {
        if self.ensure == Ensure::Present && self.value.is_none() {
            return Err(Invalid::new("value", "is missing"));
        }
        not_absent("value", self.value.is_some(), self.ensure)?;
        self.shared().validate()
    }
}

impl IniDefinition {
    /// Returns the text between a new key and its value.
    pub(in crate::edits) fn delimiter(&self) -> &str {
        self.delimiter.as_deref().unwrap_or(" = ")
    }

    /// Returns the character that ends a key; `None` if white space does.
    pub(in crate::edits) fn separator(&self) -> Option<char> {
        self.delimiter().trim().chars().next()
    }

    fn validate_key(&self) -> Result<(), Invalid> {
        let key = &self.key;
        let ends_early = match self.separator() {
            Some(separator) => key.contains(separator),
            None => key.contains(char::is_whitespace),
        };
        if key.starts_with(['[', '#', ';']) || ends_early {
            return Err(Invalid::new("key", format!("{key:?} would not be read as a key")));
        }
        trimmed("key", key)
    }

    fn validate_section(&self, section: &str) -> Result<(), Invalid> {
        if section.contains(['[', ']']) {
            return Err(Invalid::new("section", format!("{section:?} is to be written without brackets")));
        }
        trimmed("section", section)
    }
}

fn validate_delimiter(delimiter: &str) -> Result<(), Invalid> {
    one_line("delimiter", delimiter)?;
    let mark = delimiter.trim();
    if delimiter.is_empty() || mark.chars().count() > 1 || mark.contains(char::is_alphanumeric) {
        let problem = "is not a character with blanks around it, such as \" = \", nor blanks";
        return Err(Invalid::new("delimiter", format!("{delimiter:?} {problem}")));
    }
    Ok(())
}
