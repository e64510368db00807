//! `holo why`

mod answer;
mod shown;

use super::Context;
use super::history::{Sought, records, runs};
use crate::cli::Why;
use crate::diff::view::View;
use crate::discovery::discover_what_answers;
use crate::discovery::inventory::{Inventory, Purpose};
use crate::discovery::limited::Interest;
use crate::entities::entity::Entity;
use crate::entities::node::EntityIndex;
use crate::entities::subject::Subject;
use crate::error::{FatalError, exit};
use crate::history::{EntityRecord, History, RunResult};
use crate::host::interrupt::Interrupt;
use crate::host::root::Root;
use crate::host::settings::Settings;
use crate::plugin::OperationError;
use crate::report::table::Description;
use crate::report::{Event, Reporter, Severity};
use answer::{Answer, Edit, Neighbours, Packaged};
use bstr::{BString, ByteSlice};
use holo_events::Line;
use holo_protocol::FilePair;
use holo_system::System;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(super) fn run(arguments: &Why, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let subject = Subject::new(&arguments.subject, &settings.root);
    let mut inventory = ask(&subject, settings, interrupt, *reporter)?;
    let indexes = inventory.as_ref().map_or_else(Vec::new, |inventory| meant(&subject, inventory, &settings.root));
    let mut answers = inventory.as_ref().map_or_else(Vec::new, |known| managed(&indexes, known, &settings.root));
    if answers.is_empty() {
        let exists = settings.root.join(subject.path()).symlink_metadata().is_ok();
        if !exists && !subject.is_path() {
            let text = format!("no entity is called {}, and there is no such path", subject.given);
            reporter.event(Event::Aside(Severity::Error, &text));
            return Ok(exit::FAILED);
        }
        answers.push(Answer { exists: Some(exists), ..unmanaged(&subject, inventory.as_ref()) });
    }
    Packaged::find(&System::new(&settings.root.join("")), &settings.root, &mut answers);
    for (index, answer) in indexes.iter().zip(&mut answers) {
        if let Some(inventory) = &mut inventory {
            answer.edited = edited(*index, answer.path.as_deref(), inventory, settings, interrupt)?;
        }
        answer.data = answer::read_by(answer, settings, *reporter);
        answer.last_change = last_change(answer, &settings.root, *reporter);
    }
    for answer in &answers {
        show(answer, *reporter);
    }
    Ok(if indexes.is_empty() { exit::FAILED } else { exit::DONE })
}

/// Scans the plugins. Without any configuration, no path is managed.
fn ask(
    subject: &Subject,
    settings: &Settings,
    interrupt: &Interrupt,
    reporter: &mut dyn Reporter,
) -> Result<Option<Inventory>, FatalError> {
    let (holorc, snippets) = (settings.root.holorc(), settings.root.holorc_snippets());
    if [&holorc, &snippets].iter().all(|path| is_missing(path)) {
        let text = format!("there is no {}, so nothing is managed", holorc.display());
        reporter.event(Event::Aside(Severity::Warning, &text));
        return Ok(None);
    }
    let interest = Interest::Subject(subject);
    discover_what_answers(settings, Purpose::Inspect, interest, interrupt, reporter).map(Some)
}

fn is_missing(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// Returns the entities that match a subject.
fn meant(subject: &Subject, inventory: &Inventory, root: &Root) -> Vec<EntityIndex> {
    let is_source = |source: &BString| *source == subject.given || is_at(source, subject, root);
    let is_meant =
        |entity: &Entity| subject.is_of(entity.id(), &entity.edges()) || entity.report().sources.iter().any(is_source);
    inventory.entities.entries().filter(|(_, entity)| is_meant(entity)).map(|(index, _)| index).collect()
}

/// Returns true if a resource file is at the given path.
fn is_at(source: &BString, subject: &Subject, root: &Root) -> bool {
    *source == bytes(&root.join(subject.path()))
}

fn managed(indexes: &[EntityIndex], inventory: &Inventory, root: &Root) -> Vec<Answer> {
    let neighbours = Neighbours::new(inventory);
    let answer = |&index: &EntityIndex| Answer::of_entity(index, inventory, neighbours.of(index), root);
    indexes.iter().map(answer).collect()
}

/// Returns the answer about a path that no entity manages.
fn unmanaged(subject: &Subject, inventory: Option<&Inventory>) -> Answer {
    let provider = |path: &Path| {
        let path = bytes(path);
        let provides = |entity: &&Entity| entity.edges().provides.iter().any(|asset| asset.value == path);
        inventory?
            .entities
            .iter()
            .filter(|entity| entity.has_edges())
            .find(provides)
            .map(|entity| entity.id().to_owned())
    };
    let path = subject.path();
    let within = path.ancestors().skip(1).find_map(provider);
    Answer { path: Some(subject.path()), within, ..Answer::default() }
}

/// Returns the manual change to an entity since it was last applied: `Some(None)` if there is none, `None` if the
/// plugin has no difference to show.
fn edited(
    index: EntityIndex,
    path: Option<&Path>,
    inventory: &mut Inventory,
    settings: &Settings,
    interrupt: &Interrupt,
) -> Result<Option<Option<Edit>>, FatalError> {
    let id = inventory.entities[index].id().to_owned();
    let plugin = inventory.entities[index].plugin;
    let pair = match inventory.plugins[plugin].diff(id.as_bstr(), interrupt, &mut |_, _| {}) {
        Ok(pair) => pair,
        Err(OperationError::Fatal(fatal)) => return Err(fatal),
        Err(OperationError::Failed(_)) => None,
    };
    let view = View { root: &settings.root, resources: &inventory.resources };
    let edit = |pair: FilePair| {
        if !view.difference(&pair).ok()?.is_empty() {
            return Some(Some(Edit::Shown));
        }
        // The mode of a copy without a label is unknown, and only root can give a copy its original owner.
        let is_copy = inventory.resources.is_of_the_run(&pair.from);
        let has_mode = pair.from_label.is_some() || !is_copy;
        let has_owner = !is_copy || rustix::process::geteuid().is_root();
        let is_at_path = path.is_some_and(|path| pair.to == settings.root.join(path));
        Some(Edit::of_permissions(&pair, has_owner).filter(|_| has_mode && is_at_path))
    };
    Ok(pair.and_then(edit))
}

/// Returns the last recorded change of an entity. Warns if the records are not readable.
fn last_change(answer: &Answer, root: &Root, reporter: &mut dyn Reporter) -> Option<EntityRecord> {
    let id = answer.id.clone()?;
    let sought = [Sought::new(Subject { path: id.clone(), given: id })];
    let history = match History::open(root) {
        Ok(history) => history,
        Err(error) => {
            let text = format!("{error}; the last change is unknown");
            reporter.event(Event::Aside(Severity::Warning, &text));
            return None;
        }
    };
    let mut found = runs(&history, &sought).flat_map(|run| records(&run, &sought));
    found.find(|record| record.result == RunResult::Changed)
}

fn show(answer: &Answer, reporter: &mut dyn Reporter) {
    let lines = shown::lines(answer);
    reporter.event(Event::Description(&Description { heading: &shown::heading(answer), lines: &lines }));
    reporter.event(Event::Line(&Line::Why(Box::new(answer.line()))));
}

/// Returns a path as bytes.
fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}
