//! A `[[scaffold]]` table, and the check of its values.

use crate::engines::{Form, Language};
use holo_plugin::definitions::{Command, Definition, Invalid, values};
use serde::Deserialize;
use std::path::Path;

/// A directory that is rendered from templates.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct ScaffoldDefinition {
    /// The absolute path of the directory that is rendered.
    pub(crate) target: String,
    /// The desired presence of the target.
    #[serde(default)]
    pub(crate) ensure: Ensure,
    /// The directory of templates: a path below the resource directory, or an absolute path.
    pub(crate) source: Option<String>,
    /// The language of the templates.
    #[serde(default)]
    pub(crate) engine: Language,
    /// The delimiters of a value in a template, such as `["[[", "]]"]`.
    pub(crate) delimiters: Option<[String; 2]>,
    /// The data for these templates, instead of all other data. Strings may contain expressions, such as `{{ Facts.os.id }}`.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, serde_json::Value>"))]
    pub(crate) data: toml::Table,
    /// Merges `data` with all other data; the values in `data` take precedence.
    #[serde(default)]
    pub(crate) data_merge: bool,
    /// Patterns for entries of the source that are ignored, instead of `.git`: for names, or with a slash for paths.
    pub(crate) ignore: Option<Vec<String>>,
    /// Omits files whose rendered content is empty or only white space.
    #[serde(default)]
    pub(crate) skip_empty: bool,
    /// Removes paths from the target that the source does not contain.
    #[serde(default)]
    pub(crate) purge: bool,
    /// The owner of the rendered files and directories: a name or a number.
    pub(crate) owner: Option<String>,
    /// The group of the rendered files and directories: a name or a number.
    pub(crate) group: Option<String>,
    /// The mode of files, as an octal number such as `0640` or `0o640`.
    pub(crate) mode: Option<String>,
    /// The mode of directories.
    pub(crate) dir_mode: Option<String>,
    /// Programs that must accept the rendered files before any file is changed.
    #[serde(default)]
    pub(crate) validate: Vec<FileCommand>,
    /// Programs that are run for files that have changed.
    #[serde(default)]
    pub(crate) post: Vec<FileCommand>,
    /// Removes the newline after a block.
    #[serde(default)]
    pub(crate) trim_blocks: bool,
    /// Removes the white space before a block at the start of a line.
    #[serde(default)]
    pub(crate) lstrip_blocks: bool,
}

/// The desired content of the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ensure {
    /// The rendered templates.
    #[default]
    Present,
    /// Its state before the first apply.
    Absent,
}

/// A program that is run for files.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct FileCommand {
    /// A pattern for names, or, if it has a slash, for paths below the target.
    pub(crate) glob: String,
    /// The program and its arguments. `{}` stands for the path of the file, which is appended if there is no `{}`.
    pub(crate) command: Command,
}

impl Definition for ScaffoldDefinition {
    const TABLE: &'static str = "scaffold";
    const KEY: &'static str = "target";
    const HAS_FOLDERS: bool = true;
    const HAS_EXPRESSIONS: bool = true;

    fn doubts(&self) -> Vec<Invalid> {
        let doubts = |key, commands: &[FileCommand]| -> Vec<Invalid> {
            commands.iter().filter_map(|command| command.command.doubt(key)).collect()
        };
        [doubts("validate", &self.validate), doubts("post", &self.post)].concat()
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        let account = |key, name: &Option<String>| name.iter().try_for_each(|name| values::account(key, name));
        let mode = |key, text: &Option<String>| text.iter().try_for_each(|text| values::mode(key, text).map(drop));
        Invalid::all([
            values::target("target", &self.target).map(drop),
            self.source.iter().try_for_each(|source| validate_source(source)),
            self.delimiters.iter().try_for_each(validate_delimiters),
            account("owner", &self.owner),
            account("group", &self.group),
            mode("mode", &self.mode),
            mode("dir_mode", &self.dir_mode),
            values::globs("validate", self.validate.iter().map(|command| &command.glob)),
            self.validate.iter().try_for_each(validate_validation),
            values::globs("post", self.post.iter().map(|command| &command.glob)),
            values::globs("ignore", self.ignore.iter().flatten()),
        ])
    }

    fn validate(&self) -> Result<(), Invalid> {
        if self.source.is_none() && self.ensure == Ensure::Present {
            return Err(Invalid::new("source", "is missing"));
        }
        for (key, is_set) in [("trim_blocks", self.trim_blocks), ("lstrip_blocks", self.lstrip_blocks)] {
            if is_set && !self.engine.0.has_blocks() {
                let engine = self.engine.0.name();
                return Err(Invalid::new(
                    key,
                    format!("the engine {engine} has no blocks; {{{{- and -}}}} trim there"),
                ));
            }
        }
        Ok(())
    }
}

fn validate_delimiters([open, close]: &[String; 2]) -> Result<(), Invalid> {
    let is_one = |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control());
    if !is_one(open) || !is_one(close) || open == close {
        return Err(Invalid::new("delimiters", format!("{open:?} and {close:?} cannot be delimiters")));
    }
    Ok(())
}

/// Validates that a validation command contains `{}`: without the path of the file, its result would always be the
/// same.
fn validate_validation(validation: &FileCommand) -> Result<(), Invalid> {
    if validation.command.words().iter().any(|word| word.contains("{}")) {
        return Ok(());
    }
    let command = validation.command.words().join(" ");
    Err(Invalid::new("validate", format!("`{command}` has no {{}}, which stands for the file that is looked at")))
}

fn validate_source(source: &str) -> Result<(), Invalid> {
    let path = Path::new(source);
    if source.contains("://") {
        Err(Invalid::new("source", format!("{source:?} is a URL; use archives to download files")))
    } else if path.is_absolute() {
        values::target("source", source).map(drop)
    } else if values::is_below(path) {
        Ok(())
    } else {
        let problem = "is neither a path below the resource directory nor an absolute one";
        Err(Invalid::new("source", format!("{source:?} {problem}")))
    }
}

impl ScaffoldDefinition {
    /// Returns the directory that is rendered.
    pub(crate) fn target(&self) -> &Path {
        Path::new(&self.target)
    }

    /// Returns the directory of templates: a path below the resource directory, or an absolute path.
    pub(crate) fn source(&self) -> &Path {
        Path::new(self.source.as_deref().unwrap_or_default())
    }

    /// Returns the syntax options of the templates.
    pub(crate) fn form(&self) -> Form {
        Form { delimiters: self.delimiters.clone(), trim_blocks: self.trim_blocks, lstrip_blocks: self.lstrip_blocks }
    }

    /// Returns the declared keys, as displayed to the user.
    pub(crate) fn summary(&self) -> String {
        let mut words = vec![format!("engine: {}", self.engine.0.name())];
        let keys = [("owner", &self.owner), ("group", &self.group), ("mode", &self.mode), ("dir_mode", &self.dir_mode)];
        for (key, value) in keys {
            words.extend(value.iter().map(|value| format!("{key}: {value}")));
        }
        for (key, is_set) in [("skip_empty", self.skip_empty), ("purge", self.purge)] {
            words.extend(is_set.then(|| key.to_owned()));
        }
        words.join(", ")
    }
}

#[cfg(test)]
mod tests;
