//! `holo why`

mod answer;

use super::Context;
use super::history::{Sought, records, runs};
use crate::cli::Why;
use crate::diff::View;
use crate::discovery::discover_what_answers;
use crate::discovery::inventory::{Inventory, Purpose};
use crate::discovery::limited::Interest;
use crate::entities::node::EntityIndex;
use crate::entities::{Entity, Subject};
use crate::error::{FatalError, exit};
use crate::history::{EntityRecord, History, RunResult};
use crate::host::interrupt::Interrupt;
use crate::host::root::Root;
use crate::host::settings::Settings;
use crate::plugin::OperationError;
use crate::report::table::{Cell, Description};
use crate::report::{Event, Reporter, Severity};
use answer::{Answer, Datum, Edit, Neighbour, Neighbours, Packaged, Permissions, Source};
use bstr::{BString, ByteSlice};
use holo_events::Line;
use holo_facts::key;
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
        // Modes are compared below, with owner and group.
        if !view.difference(&FilePair { has_modes: false, ..pair.clone() }).ok()?.is_empty() {
            return Some(Some(Edit::Shown));
        }
        // Only root can give a copy its original owner.
        let is_copy = inventory.resources.is_of_the_run(&pair.from);
        let has_mode = pair.has_modes || !is_copy;
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
        // The discovery has reported it.
        Err(error) if error.is_denied() => return None,
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
    let lines = lines(answer);
    reporter.event(Event::Description(&Description { heading: &heading(answer), lines: &lines }));
    reporter.event(Event::Line(&Line::Why(Box::new(answer.line()))));
}

/// Returns a path as bytes.
fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// The number of neighbours in each direction, and of values of data, that are shown.
const SHOWN: usize = 20;

fn heading(answer: &Answer) -> String {
    let path = || answer.path.as_ref().map(|path| path.display().to_string());
    answer.id.as_ref().map(ToString::to_string).or_else(path).unwrap_or_default()
}

/// Returns keys and values.
fn lines(answer: &Answer) -> Vec<(&str, Cell)> {
    let mut shown: Vec<(&str, Cell)> = Vec::new();
    if answer.id.is_none() {
        shown.push(("managed by", "no entity".into()));
        shown.extend(answer.exists.filter(|exists| !exists).map(|_| ("state", "it does not exist".into())));
        shown.extend(answer.within.as_ref().map(|id| ("within", id.into())));
    } else {
        shown.push(("plugin", (&answer.plugin).into()));
        shown.extend(answer.action.as_ref().map(|action| ("state", action.into())));
        shown.extend(answer.sources.iter().map(|source| ("defined by", (&source_line(source)).into())));
        if answer.sources.is_empty() {
            shown.push(("defined by", "nothing any more".into()));
        }
        shown.extend(answer.path.as_ref().map(|path| ("path", (&path.display()).into())));
    }
    if answer.path.is_some() {
        let package = answer.package.as_ref().map_or_else(|| "none".to_owned(), packaged);
        shown.push(("package", (&package).into()));
    }
    add_data(&mut shown, &answer.data);
    for line in &answer.information {
        // Keys of plugins may be long, so they are shown as part of the value.
        shown.push(("note", (&format!("{}: {}", line.key.as_bstr(), line.value.as_bstr())).into()));
    }
    shown.extend(answer.before_us.as_ref().map(|text| ("before us", text.into())));
    add_neighbours(&mut shown, "after", &answer.around.after);
    add_neighbours(&mut shown, "before", &answer.around.before);
    if let Some(change) = &answer.last_change {
        shown.push(("changed", Cell::Time(change.time)));
        shown.push(("by run", (&change.run).into()));
        shown.push(("change", (&change.what()).into()));
    }
    if let (Some(id), Some(edited)) = (&answer.id, answer.edited) {
        let text = match edited {
            Some(Edit::Shown) => format!("yes; see holo diff {id}"),
            Some(Edit::Permissions { made, found }) => format!("yes: {}", permissions(made, found)),
            None => "no".to_owned(),
        };
        shown.push(("edited", (&text).into()));
    }
    shown
}

/// Describes how the owner, group and mode of a file have changed.
fn permissions(made: Permissions, found: Permissions) -> String {
    let number =
        |name: &str, made: u32, found: u32| (made != found).then(|| format!("the {name} is {found}, and was {made}"));
    let mode = || format!("the mode is {:04o}, and was {:04o}", found.mode, made.mode);
    let changes = [
        number("owner", made.owner, found.owner),
        number("group", made.group, found.group),
        (made.mode != found.mode).then(mode),
    ];
    changes.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn source_line(source: &Source) -> String {
    let line = source.line.map_or_else(String::new, |line| format!(":{line}"));
    let package =
        source.package.as_ref().map_or_else(String::new, |package| format!(", package {}", packaged(package)));
    format!("{}{line}{package}", source.path.display())
}

fn packaged(package: &Packaged) -> String {
    match package.is_modified {
        Some(true) => format!("{} (modified since)", package.name),
        Some(false) => format!("{} (unmodified)", package.name),
        None => package.name.clone(),
    }
}

fn add_data(shown: &mut Vec<(&str, Cell)>, data: &[Datum]) {
    for Datum { key, file, line } in data.iter().take(SHOWN) {
        let line = line.map_or_else(String::new, |line| format!(":{line}"));
        shown.push(("data", (&format!("{} in {}{line}", key::shown(key), file.display())).into()));
    }
    if data.len() > SHOWN {
        shown.push(("data", (&format!("{} more", data.len() - SHOWN)).into()));
    }
}

fn add_neighbours<'a>(shown: &mut Vec<(&'a str, Cell)>, key: &'a str, neighbours: &[Neighbour]) {
    for neighbour in neighbours.iter().take(SHOWN) {
        let asset = neighbour.asset.as_ref().map_or_else(String::new, |asset| format!(" {asset}"));
        let location = neighbour.location.as_ref().map_or_else(String::new, |location| format!(" in {location}"));
        shown.push((key, (&format!("{} ({}{asset}{location})", neighbour.id, neighbour.key)).into()));
    }
    if neighbours.len() > SHOWN {
        shown.push((key, (&format!("{} more", neighbours.len() - SHOWN)).into()));
    }
}
