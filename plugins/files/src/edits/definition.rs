//! The forms of `[[line]]`, `[[block]]` and `[[ini]]` tables, and their valid values.

use holo_plugin::definitions::{Command, Definition, Invalid, NameError, NameKeys, values};
use regex::bytes::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

/// The words for the beginning and the end of a file, where an anchor can be a regular expression.
pub(super) const BEGINNING: &str = "BOF";
pub(super) const END: &str = "EOF";

/// A line in a file that others own.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct LineDefinition {
    /// The absolute path of the file.
    pub(crate) path: String,
    /// The name that tells it from other lines of the file.
    #[expect(dead_code, reason = "it is a part of the ID")]
    pub(crate) name: Option<String>,
    /// The line, without its end.
    pub(crate) line: Option<String>,
    /// A regular expression: the last line that it matches is replaced, or all that it matches go.
    #[serde(rename = "match")]
    pub(crate) matches: Option<String>,
    /// True if the line is to be there.
    #[serde(default)]
    pub(crate) ensure: Ensure,
    /// A regular expression, `BOF` or `EOF`: a new line comes behind the last line that it matches.
    pub(crate) insert_after: Option<String>,
    /// A regular expression, `BOF` or `EOF`: a new line comes before the first line that it matches.
    pub(crate) insert_before: Option<String>,
    /// Makes the file if there is none.
    #[serde(default)]
    pub(crate) create: bool,
    /// A program that has to find the new content well before it takes the place of the old; `{}` is the path of a copy of it.
    pub(crate) validate: Option<Command>,
    /// True if nobody may see the content of the file: there is no difference to be shown.
    #[serde(default)]
    pub(crate) sensitive: bool,
    /// Writes to the file that is there instead of replacing it: for one that something is mounted on.
    #[serde(default)]
    pub(crate) in_place: bool,
}

/// Lines between two marker lines in a file that others own.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct BlockDefinition {
    /// The absolute path of the file.
    pub(crate) path: String,
    /// The name that tells it from other blocks of the file; it is in the marker lines.
    pub(crate) name: Option<String>,
    /// The lines between the marker lines.
    pub(crate) content: Option<String>,
    /// The beginning of a comment, or its beginning and its end.
    #[serde(default)]
    pub(crate) comment: Comment,
    /// True if the block is to be there.
    #[serde(default)]
    pub(crate) ensure: Ensure,
    /// A regular expression, `BOF` or `EOF`: a new block comes behind the last line that it matches.
    pub(crate) insert_after: Option<String>,
    /// A regular expression, `BOF` or `EOF`: a new block comes before the first line that it matches.
    pub(crate) insert_before: Option<String>,
    /// Makes the file if there is none.
    #[serde(default)]
    pub(crate) create: bool,
    /// A program that has to find the new content well before it takes the place of the old; `{}` is the path of a copy of it.
    pub(crate) validate: Option<Command>,
    /// True if nobody may see the content of the file: there is no difference to be shown.
    #[serde(default)]
    pub(crate) sensitive: bool,
    /// Writes to the file that is there instead of replacing it: for one that something is mounted on.
    #[serde(default)]
    pub(crate) in_place: bool,
}

/// The value of a key in a file of sections.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct IniDefinition {
    /// The absolute path of the file.
    pub(crate) path: String,
    /// The section, without brackets; without it, the key is above all sections.
    pub(crate) section: Option<String>,
    /// The key.
    pub(crate) key: String,
    /// The value.
    pub(crate) value: Option<String>,
    /// True if the key is to be there.
    #[serde(default)]
    pub(crate) ensure: Ensure,
    /// The text between key and value where the key is new; ` = ` if nothing is said.
    pub(crate) delimiter: Option<String>,
    /// Makes the file if there is none.
    #[serde(default)]
    pub(crate) create: bool,
    /// A program that has to find the new content well before it takes the place of the old; `{}` is the path of a copy of it.
    pub(crate) validate: Option<Command>,
    /// True if nobody may see the content of the file: there is no difference to be shown.
    #[serde(default)]
    pub(crate) sensitive: bool,
    /// Writes to the file that is there instead of replacing it: for one that something is mounted on.
    #[serde(default)]
    pub(crate) in_place: bool,
}

/// The word for whether something is to be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ensure {
    /// It is.
    #[default]
    Present,
    /// It is not.
    Absent,
}

/// The form of a comment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum Comment {
    /// Its beginning; it ends with the line.
    Prefix(String),
    /// Its beginning and its end.
    Pair([String; 2]),
}

impl Default for Comment {
    fn default() -> Self {
        Comment::Prefix("#".to_owned())
    }
}

impl Definition for LineDefinition {
    const TABLE: &'static str = "line";
    const HAS_FOLDERS: bool = true;

    fn entity_name(keys: &NameKeys<'_, '_>) -> Result<String, NameError> {
        named(keys)
    }

    fn doubts(&self) -> Vec<Invalid> {
        self.validate.iter().filter_map(|command| command.doubt("validate")).collect()
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        Invalid::all([
            values::target("path", &self.path).map(drop),
            self.line.iter().try_for_each(|line| one_line("line", line)),
            self.matches.iter().try_for_each(|pattern| compile("match", pattern).map(drop)),
            self.insert_after.iter().try_for_each(|anchor| validate_anchor("insert_after", anchor)),
            self.insert_before.iter().try_for_each(|anchor| validate_anchor("insert_before", anchor)),
        ])
    }

    fn validate(&self) -> Result<(), Invalid> {
        if self.ensure == Ensure::Present && self.line.is_none() {
            return Err(Invalid::new("line", "is missing"));
        }
        if self.line.is_none() && self.matches.is_none() {
            return Err(Invalid::new("match", "is missing; without line, it says which lines go"));
        }
        one_anchor(self.insert_after.as_ref(), self.insert_before.as_ref(), self.ensure)?;
        not_absent("create", self.create, self.ensure)
    }
}

impl Definition for BlockDefinition {
    const TABLE: &'static str = "block";
    const HAS_FOLDERS: bool = true;

    fn entity_name(keys: &NameKeys<'_, '_>) -> Result<String, NameError> {
        named(keys)
    }

    fn doubts(&self) -> Vec<Invalid> {
        self.validate.iter().filter_map(|command| command.doubt("validate")).collect()
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        Invalid::all([
            values::target("path", &self.path).map(drop),
            self.comment.validate(),
            self.content.iter().try_for_each(|content| self.validate_content(content)),
            self.insert_after.iter().try_for_each(|anchor| validate_anchor("insert_after", anchor)),
            self.insert_before.iter().try_for_each(|anchor| validate_anchor("insert_before", anchor)),
        ])
    }

    fn validate(&self) -> Result<(), Invalid> {
        if self.ensure == Ensure::Present && self.content.is_none() {
            return Err(Invalid::new("content", "is missing"));
        }
        one_anchor(self.insert_after.as_ref(), self.insert_before.as_ref(), self.ensure)?;
        not_absent("create", self.create, self.ensure)
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
        self.validate.iter().filter_map(|command| command.doubt("validate")).collect()
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        Invalid::all([
            values::target("path", &self.path).map(drop),
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
        not_absent("create", self.create, self.ensure)
    }
}

impl BlockDefinition {
    /// Returns the marker lines.
    pub(super) fn markers(&self) -> [String; 2] {
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

impl IniDefinition {
    /// Returns the text between key and value where the key is new.
    pub(super) fn delimiter(&self) -> &str {
        self.delimiter.as_deref().unwrap_or(" = ")
    }

    /// Returns the character that ends a key; none if that is a blank.
    pub(super) fn separator(&self) -> Option<char> {
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

/// Returns the name of an entity that has a path, and perhaps a name.
fn named(keys: &NameKeys<'_, '_>) -> Result<String, NameError> {
    let path = keys.required("path")?;
    Ok(match keys.optional("name")? {
        Some(name) => format!("{path}#{name}"),
        None => path.to_owned(),
    })
}

/// Returns a regular expression for lines.
///
/// # Errors
/// If it is not one.
pub(super) fn compile(key: &'static str, pattern: &str) -> Result<Regex, Invalid> {
    let words = |error: &regex::Error| match error {
        regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
        // The first lines show where.
        error => error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    };
    let compiled = RegexBuilder::new(pattern).build();
    compiled.map_err(|error| Invalid::new(key, format!("{pattern:?} is not a regular expression: {}", words(&error))))
}

fn validate_anchor(key: &'static str, anchor: &str) -> Result<(), Invalid> {
    if anchor == BEGINNING || anchor == END { Ok(()) } else { compile(key, anchor).map(drop) }
}

fn one_anchor(after: Option<&String>, before: Option<&String>, ensure: Ensure) -> Result<(), Invalid> {
    if after.is_some() && before.is_some() {
        return Err(Invalid::new("insert_before", "cannot be given together with insert_after"));
    }
    not_absent("insert_after", after.is_some(), ensure)?;
    not_absent("insert_before", before.is_some(), ensure)
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

fn validate_delimiter(delimiter: &str) -> Result<(), Invalid> {
    one_line("delimiter", delimiter)?;
    let mark = delimiter.trim();
    if delimiter.is_empty() || mark.chars().count() > 1 || mark.contains(char::is_alphanumeric) {
        let problem = "is not a character with blanks around it, such as \" = \", nor blanks";
        return Err(Invalid::new("delimiter", format!("{delimiter:?} {problem}")));
    }
    Ok(())
}
