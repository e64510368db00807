//! The forms of `[[line]]`, `[[block]]` and `[[ini]]` tables, and their valid values.

mod anchors;
mod block;
mod ini;
mod line;

pub(super) use anchors::Anchors;
pub(crate) use block::BlockDefinition;
pub(crate) use ini::IniDefinition;
pub(crate) use line::LineDefinition;

use super::pattern::compile;
use holo_plugin::definitions::{Command, Invalid, NameError, NameKeys, values};
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

use edit_table;

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
