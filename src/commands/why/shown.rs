//! Formats the answer for people.

use super::answer::{Answer, Datum, Edit, Neighbour, Packaged, Permissions, Source};
use crate::report::table::Cell;
use bstr::ByteSlice;
use holo_facts::key;

/// The number of neighbours in each direction, and of values of data, that are shown.
const SHOWN: usize = 20;

pub(super) fn heading(answer: &Answer) -> String {
    let path = || answer.path.as_ref().map(|path| path.display().to_string());
    answer.id.as_ref().map(ToString::to_string).or_else(path).unwrap_or_default()
}

/// Returns keys and values.
pub(super) fn lines(answer: &Answer) -> Vec<(&str, Cell)> {
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
