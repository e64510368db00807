//! The forms of `[[line]]`, `[[block]]` and `[[ini]]` tables, and their valid values.

mod anchors;
mod block;
mod ini;
mod line;

pub(super) use anchors::Anchors;
pub(crate) use block::BlockDefinition;
pub(crate) use ini::IniDefinition;
pub(crate) use line::LineDefinition;

use super::text::{is_lead, uncommented};
use holo_plugin::definitions::{Command, Invalid, NameError, NameKeys, values};
use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::{Extractor, Literal};
use regex_syntax::hir::{Class, Hir, HirKind, Look};
use serde::{Deserialize, Serialize};
use std::slice;

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

/// Declares the table of a type of edits: its own keys, and those that all types have.
macro_rules! edit_table {
    // One whose place in the file can be chosen.
    ($(#[$attribute:meta])* anchored $name:ident { $($own:tt)* }) => {
        edit_table! {
            $(#[$attribute])*
            $name {
                $($own)*
                /// A regular expression, `BOF` or `EOF`: something new comes behind the last line that it matches.
                pub(crate) insert_after: Option<String>,
                /// A regular expression, `BOF` or `EOF`: something new comes before the first line that it matches.
                pub(crate) insert_before: Option<String>,
            }
            anchors(table) {
                super::Anchors { after: table.insert_after.as_deref(), before: table.insert_before.as_deref() }
            }
        }
    };
    ($(#[$attribute:meta])* $name:ident { $($own:tt)* }) => {
        edit_table! { $(#[$attribute])* $name { $($own)* } anchors(_table) { super::Anchors::default() } }
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
            /// True if it is to be there.
            #[serde(default)]
            pub(crate) ensure: Ensure,
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

        impl $name {
            /// Returns the values of the keys that all types of edits have.
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

use edit_table;

/// The values of the keys that all types of edits have.
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

    /// Returns what is wrong with single values of these keys, and of an edit's own ones.
    fn invalid_values<const COUNT: usize>(&self, own: [Result<(), Invalid>; COUNT]) -> Vec<Invalid> {
        let path = values::target("path", self.path).map(drop);
        Invalid::all([path].into_iter().chain(own).chain(self.anchors.validate_values()))
    }

    /// Checks them together.
    fn validate(&self) -> Result<(), Invalid> {
        self.anchors.validate(self.ensure)?;
        not_absent("create", self.create, self.ensure)
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

/// A regular expression for lines.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    prefixes: Option<Vec<Vec<u8>>>,
}

impl Pattern {
    /// Compiles the value of a key.
    ///
    /// # Errors
    /// If it is not a regular expression.
    pub(super) fn new(key: &'static str, pattern: &str) -> Result<Pattern, Invalid> {
        Ok(Pattern { regex: compile(key, pattern)?, prefixes: prefixes(pattern) })
    }

    pub(super) fn is_match(&self, line: &[u8]) -> bool {
        self.regex.is_match(line)
    }

    /// Returns prefixes such that every matching line, [uncommented], has one of them; `None` if there are none, or too many.
    pub(super) fn prefixes(&self) -> Option<&[Vec<u8>]> {
        self.prefixes.as_deref()
    }
}

fn prefixes(pattern: &str) -> Option<Vec<Vec<u8>>> {
    let parsed = ParserBuilder::new().utf8(false).build().parse(pattern).ok()?;
    if !parsed.properties().look_set_prefix().contains(Look::Start) {
        return None;
    }
    let parts = match parsed.kind() {
        HirKind::Concat(parts) => parts.as_slice(),
        _ => slice::from_ref(&parsed),
    };
    let rest: Vec<Hir> = parts.iter().skip_while(|part| is_lead_only(part)).cloned().collect();
    let literals = Extractor::new().extract(&Hir::concat(rest));
    let prefix = |literal: &Literal| {
        // A literal may end within a character.
        let text = literal.as_bytes().utf8_chunks().next().map(|chunk| uncommented(chunk.valid().as_bytes()).to_vec());
        text.filter(|text| !text.is_empty())
    };
    literals.literals()?.iter().map(prefix).collect()
}

/// Returns true if a part of a pattern only matches what [`uncommented`] removes from the beginning of a line.
fn is_lead_only(part: &Hir) -> bool {
    match part.kind() {
        HirKind::Empty | HirKind::Look(Look::Start) => true,
        HirKind::Repetition(repetition) => is_lead_only(&repetition.sub),
        HirKind::Capture(capture) => is_lead_only(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().all(is_lead_only),
        HirKind::Class(Class::Unicode(class)) => class.iter().all(|range| (range.start()..=range.end()).all(is_lead)),
        HirKind::Class(Class::Bytes(class)) => {
            class.iter().all(|range| (range.start()..=range.end()).all(|byte| byte.is_ascii() && is_lead(byte.into())))
        }
        HirKind::Literal(literal) => str::from_utf8(&literal.0).is_ok_and(|text| text.chars().all(is_lead)),
        HirKind::Look(_) => false,
    }
}

/// Returns a regular expression for lines.
///
/// # Errors
/// If it is not one.
fn compile(key: &'static str, pattern: &str) -> Result<Regex, Invalid> {
    let words = |error: &regex::Error| match error {
        regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
        // The first lines show where.
        error => error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    };
    let compiled = RegexBuilder::new(pattern).build();
    compiled.map_err(|error| Invalid::new(key, format!("{pattern:?} is not a regular expression: {}", words(&error))))
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
