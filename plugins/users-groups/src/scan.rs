//! Scans for managed accounts: defined ones and orphans.

use crate::account::{AccountError, AccountId, Kind};
use crate::document::{self, Entry};
use crate::entity::{AccountEntity, Shared, groups_of};
use crate::histories::{self, Histories, Sources};
use crate::images::{Images, Moment};
use crate::plan;
use crate::stack::Stack;
use holo_change::error::PathError;
use holo_plugin::declared::Declared;
use holo_plugin::definitions::{Hindrance, ListError};
use holo_plugin::facts::LocatedError;
use holo_plugin::{Host, Output, ScanError};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The suffix of definition files.
const SUFFIX: &str = ".toml";
/// The suffix of definition files that are templates.
const TEMPLATE_SUFFIX: &str = ".toml.jinja";

/// The merged content of all definition files.
#[derive(Debug, Default)]
struct Definitions {
    defined: BTreeMap<AccountId, Stack>,
    /// Accounts that have invalid definitions.
    broken: BTreeSet<AccountId>,
    /// A file whose set of accounts cannot be determined.
    unknowable: Option<PathBuf>,
}

/// Lists all managed accounts.
pub(crate) fn all(host: &Host, output: &mut Output<'_>) -> Result<Vec<Declared<AccountEntity>>, ScanError> {
    let mut definitions = Definitions::default();
    for file in definition_files(host, output)? {
        definitions.add(&file, host, output);
    }
    host.knowledge().take_warnings().iter().for_each(|warning| output.warning(warning.to_string()));
    let shared = Arc::new(Shared::new(host));
    definitions.entities(host, &shared, output).map_err(|error| {
        output.error(error.to_string());
        ScanError
    })
}

/// Returns the definition files, ordered by name.
fn definition_files(host: &Host, output: &mut Output<'_>) -> Result<Vec<PathBuf>, ScanError> {
    let mut files = host.resources().list(Path::new("")).map_err(|ListError { path, error }| {
        output.error(PathError::new("open", path, error).to_string());
        ScanError
    })?;
    let is_definition = |file: &Path| has_suffix(file, SUFFIX) || has_suffix(file, TEMPLATE_SUFFIX);
    files.retain(|file| is_definition(&file.path) && !file.path.is_dir());
    files.sort_by(|one, other| one.below.cmp(&other.below));
    Ok(files.into_iter().map(|file| file.path).collect())
}

fn has_suffix(file: &Path, suffix: &str) -> bool {
    file.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(suffix.as_bytes()))
}

/// Why a definition file cannot be read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("{}: this is not a regular file", .0.display())]
    NotAFile(PathBuf),
    #[error("{0}: this is not UTF-8")]
    NotText(String),
    #[error(transparent)]
    Template(#[from] LocatedError),
}

/// Reads a file, and renders it if it is a template.
fn read(file: &Path, host: &Host) -> Result<Vec<u8>, ReadError> {
    // Reading a FIFO could block forever.
    if fs::metadata(file).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(ReadError::NotAFile(file.to_owned()));
    }
    let text = fs::read(file).map_err(|error| PathError::new("open", file, error))?;
    if !has_suffix(file, TEMPLATE_SUFFIX) {
        return Ok(text);
    }
    let name = file.display().to_string();
    let text = String::from_utf8(text).map_err(|_| ReadError::NotText(name.clone()))?;
    let rendered = host.templates().render(&name, &text, &serde_json::Map::new())?;
    if rendered.is_sensitive() {
        let problem = "an encrypted value cannot be used in a definition of accounts, because definitions are shown";
        return Err(LocatedError::new(name, problem).into());
    }
    Ok(rendered.text.into_bytes())
}

impl Definitions {
    fn add(&mut self, file: &Path, host: &Host, output: &mut Output<'_>) {
        let text = match read(file, host) {
            Ok(text) => text,
            Err(error) => {
                output.error(error.to_string());
                self.unknowable.get_or_insert_with(|| file.to_owned());
                return;
            }
        };
        let mut document = document::parse(&text, host.sent());
        // Line numbers are those of the rendered text.
        let rendered = if has_suffix(file, TEMPLATE_SUFFIX) { " as rendered" } else { "" };
        for entry in &mut document.entries {
            if let Entry::Definition(stated) = entry {
                stated.common.relocate(|line| format!("{}:{line}{rendered}", file.display()));
                for hindrance in &mut stated.hindrances {
                    if let Hindrance::Unfit(problem) = hindrance {
                        *problem = format!("File {}{rendered}: {problem}", file.display());
                    }
                }
            }
        }
        for unknown in &document.unknown_keys {
            let of = if unknown.of.is_empty() { String::new() } else { format!(" of {}", unknown.of) };
            let hint = unknown.hint.as_ref().map_or_else(String::new, |hint| format!("; {hint}"));
            let (shown, line, key) = (file.display(), unknown.line, &unknown.key);
            output.warning(format!("{shown}:{line}{rendered}: unknown key {key:?}{of} is ignored{hint}"));
        }
        if document.is_unknowable {
            self.unknowable.get_or_insert_with(|| file.to_owned());
        }
        // As in version 3, errors of the file itself are printed before conflicts with other files.
        let (definitions, broken): (Vec<_>, Vec<_>) =
            document.entries.into_iter().partition(|entry| matches!(entry, Entry::Definition(_)));
        let entries = broken.into_iter().chain(definitions);
        let problems: Vec<String> = entries.flat_map(|entry| self.take(entry, file, host)).collect();
        if !problems.is_empty() {
            output.error(format!("File {} is invalid{rendered}:", file.display()));
            problems.iter().for_each(|problem| output.warning(problem));
        }
    }

    /// Adds an entry of a file. Returns its problems.
    fn take(&mut self, entry: Entry, file: &Path, host: &Host) -> Vec<String> {
        let stated = match entry {
            Entry::Definition(stated) => stated,
            Entry::Broken(id, problems) => {
                self.broken.extend(id);
                return problems;
            }
        };
        let id = stated.definition.account.id.clone();
        let left_out = match stated.common.why_skipped(&host.templates()) {
            Ok(left_out) => left_out,
            Err(problem) => {
                self.broken.insert(id);
                return vec![format!("{}: {problem}", stated.place)];
            }
        };
        let stack = self.defined.entry(id.clone()).or_default();
        let conflicts = match left_out {
            None => stack.lay(*stated, file),
            Some(reason) => {
                stack.leave_out(file, reason);
                Vec::new()
            }
        };
        if !conflicts.is_empty() {
            self.broken.insert(id);
        }
        conflicts
    }

    fn is_defined(&self, id: &AccountId) -> bool {
        self.defined.contains_key(id) || self.broken.contains(id)
    }

    /// Returns defined accounts, and orphans that have images but no definition.
    fn entities(
        self,
        host: &Host,
        shared: &Arc<Shared>,
        output: &mut Output<'_>,
    ) -> Result<Vec<Declared<AccountEntity>>, AccountError> {
        let images = Images::open(host)?;
        let known: BTreeSet<AccountId> = images.all(Moment::Base)?.into_iter().collect();
        let mut orphans: BTreeSet<AccountId> = known.iter().filter(|id| !self.is_defined(id)).cloned().collect();
        if let Some(file) = self.unknowable.as_ref().filter(|_| !orphans.is_empty()) {
            let file = file.display();
            output.warning(format!(
                "No users or groups are scrubbed until {file} is valid, because the accounts it defines are unknown"
            ));
            orphans.clear();
        }
        let Definitions { mut defined, broken, .. } = self;
        defined.retain(|id, _| !broken.contains(id));
        let sources = Sources { host, images: &images, accounts: &shared.accounts, defined: &defined, known: &known };
        let mut histories = Histories::find(sources, histories::all(host, output)?, &mut orphans)?;
        let wanted_names = histories.wanted_names();
        let orphan = |id: &AccountId| {
            // An unusable image is reported when it is needed.
            let image =
                [Moment::Provisioned, Moment::Base].into_iter().find_map(|moment| images.load(moment, id).ok()?);
            let mut groups = image.as_ref().map(groups_of).unwrap_or_default();
            // Only groups that are orphans too have to wait for the user.
            groups.retain(|name| orphans.contains(&AccountId { kind: Kind::Group, name: name.clone() }));
            let (id, history) = (id.clone(), histories.take(id));
            let mut after = plan::recall(host, &id).unwrap_or_default();
            // Orphans are scrubbed before the entities that preceded them.
            after.extend(wanted_names.get(&id).map(|other| other.to_string().into()));
            let (left_out, timeout, shared) = (Vec::new(), None, Arc::clone(shared));
            let definition = None;
            Declared::orphan(AccountEntity { id, definition, left_out, groups, after, timeout, history, shared })
        };
        let mut entities: Vec<_> = orphans.iter().map(orphan).collect();
        entities.extend(defined.into_iter().map(|(id, stack)| {
            let history = histories.take(&id);
            stack.into_entity(id, history, shared)
        }));
        Ok(entities)
    }
}
