//! `holo blame`

use super::Context;
use crate::cli::Blame;
use crate::discovery::discover_what_answers;
use crate::discovery::inventory::{Inventory, Purpose};
use crate::discovery::limited::Interest;
use crate::entities::{Entity, Subject};
use crate::error::{FatalError, exit};
use crate::plugin::OperationError;
use crate::report::{BlamedLine, Event, Remarks, Reporter};
use bstr::{BStr, BString, ByteSlice};
use holo_events::Line;
use holo_protocol::{Asset, Origin, Span};
use holo_system::System;
use std::fs;
use std::path::{Path, PathBuf};

pub(super) fn run(arguments: &Blame, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let subject = Subject::new(&arguments.subject, &settings.root);
    let mut inventory =
        discover_what_answers(settings, Purpose::Inspect, Interest::Subject(&subject), interrupt, *reporter)?;
    let meant = inventory.entities.iter().find(|entity| subject.is_of(entity.id(), &entity.edges()));
    // Files in a tree are not entities themselves.
    let meant = meant.or_else(|| inventory.entities.iter().find(|entity| is_above(entity, &subject.path())));
    let meant = meant.map(|entity| (entity.id().to_owned(), entity.plugin, path_of(entity, &subject)));
    let path = meant.as_ref().map_or_else(|| subject.path(), |(_, _, path)| path.clone());
    let shown = settings.root.join(&path);
    let text = match fs::read(&shown) {
        Ok(text) => text,
        Err(error) => {
            let reason = holo_protocol::words::reason(&error);
            reporter.error(format!("cannot read {}: {reason}", shown.display()));
            return Ok(exit::FAILED);
        }
    };
    let packaged = System::new(&settings.root.join("")).packaged_files(std::slice::from_ref(&path)).remove(&path);
    let lines = text.lines().count();
    let spans = match &meant {
        Some((id, plugin, _)) => {
            let plugin = &mut inventory.plugins[*plugin];
            match plugin.blame(id.as_bstr(), &path, interrupt, &mut |stream, bytes| reporter.output(stream, bytes)) {
                Ok(spans) => spans,
                Err(OperationError::Fatal(fatal)) => return Err(fatal),
                Err(OperationError::Failed(error)) => {
                    reporter.error(format!("cannot tell where the lines of {} come from: {error}", shown.display()));
                    return Ok(exit::FAILED);
                }
            }
        }
        None => {
            let is_as_brought = packaged.as_ref().and_then(|file| file.digest.as_ref()?.is_of(&text)) == Some(true);
            if !is_as_brought {
                reporter.error(format!("no entity manages {}", shown.display()));
                return Ok(exit::FAILED);
            }
            vec![Span { origin: Origin::Base, count: lines }]
        }
    };
    if spans.iter().map(|span| span.count).sum::<usize>() != lines {
        let id = meant.as_ref().map(|(id, ..)| id.clone()).unwrap_or_default();
        reporter.error(format!("the plugin of {id} cannot tell where the lines of {} come from", shown.display()));
        return Ok(exit::FAILED);
    }
    let id = meant.as_ref().map(|(id, ..)| id);
    let package = packaged.as_ref().map(|file| file.package.as_str());
    show(&File { id, path: &path, text: &text, package }, &spans, &inventory, *reporter);
    Ok(exit::DONE)
}

/// A file whose lines are shown.
struct File<'a> {
    id: Option<&'a BString>,
    path: &'a Path,
    text: &'a [u8],
    package: Option<&'a str>,
}

/// Returns true if a path is in a tree that the entity owns.
fn is_above(entity: &Entity, path: &Path) -> bool {
    let is_around = |asset: &Asset<&BStr>| {
        let kind_fits = asset.kind == "path-tree" || asset.kind == "path";
        kind_fits && path.starts_with(asset.value.to_path_lossy())
    };
    entity.has_edges() && entity.edges().owns.iter().any(is_around)
}

/// Returns the path of an entity's file.
fn path_of(entity: &Entity, subject: &Subject) -> PathBuf {
    if entity.id() != subject.given {
        return subject.path();
    }
    let edges = entity.edges();
    let path = edges.provides.iter().chain(&edges.owns).find(|asset| asset.kind == "path");
    path.map_or_else(|| subject.path(), |asset| asset.value.to_path_lossy().into_owned())
}

fn show(file: &File<'_>, spans: &[Span], inventory: &Inventory, reporter: &mut dyn Reporter) {
    let mut lines = file.text.lines_with_terminator();
    let mut blamed = Vec::new();
    let mut first = 1;
    for span in spans {
        let of_span: Vec<&[u8]> = lines.by_ref().take(span.count).collect();
        for (index, line) in of_span.iter().enumerate() {
            let origin = shown(&span.origin.further(index), file.package, inventory);
            blamed.push(BlamedLine { origin, text: line.trim_end_with(|letter| letter == '\n').into() });
        }
        let (origin, source, source_line): (BString, Option<BString>, Option<usize>) = match &span.origin {
            Origin::Resource { path, line } => ("resource".into(), Some(visible(path, inventory)), Some(*line)),
            Origin::Holoscript(path) => ("holoscript".into(), Some(visible(path, inventory)), None),
            other => (inventory.resources.show(other.to_text().as_bstr()).into_owned(), None, None),
        };
        reporter.event(Event::Line(&Line::Blame {
            id: file.id.map(Into::into),
            path: file.path.as_os_str().as_encoded_bytes().into(),
            origin: (&origin).into(),
            source: source.as_ref().map(Into::into),
            source_line,
            package: file.package.filter(|_| span.origin == Origin::Base).map(Into::into),
            line: first,
            count: span.count,
            text: (&of_span.concat()).into(),
        }));
        first += span.count;
    }
    reporter.event(Event::Blamed(&blamed));
}

/// Formats an origin for people.
fn shown(origin: &Origin, package: Option<&str>, inventory: &Inventory) -> BString {
    match origin {
        Origin::Base => package.map_or_else(|| "base".into(), |package| format!("base ({package})").into()),
        Origin::Resource { path, line } => format!("{}:{line}", visible(path, inventory)).into(),
        other => inventory.resources.show(other.to_text().as_bstr()).into_owned(),
    }
}

/// Returns a path as the user knows it.
fn visible(path: &Path, inventory: &Inventory) -> BString {
    inventory.resources.show(path.as_os_str().as_encoded_bytes().as_bstr()).into_owned()
}
