//! `holo generations`, and `holo generations diff`

use super::Context;
use crate::cli::{Generations, GenerationsDiff, GenerationsVerb};
use crate::diff::{self, Content, Modes, preview};
use crate::error::{FatalError, exit};
use crate::generations::{Access, Counts, Difference, Generation, How, Node, Pin, Store, Version, differences};
use crate::report::table::{Cell, Table};
use crate::report::{Event, Remarks};
use bstr::{BStr, BString, ByteSlice};
use holo_change::tracked::Digest;
use holo_events::{GenerationLine, InputChange, InputDiffLine, InputDifference, Line};
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The number of differences that are named in a summary.
const NAMED: usize = 3;

pub(super) fn run(arguments: &Generations, context: &mut Context<'_>) -> Result<u8, FatalError> {
    match &arguments.verb {
        Some(GenerationsVerb::Diff(arguments)) => diff(arguments, context),
        None => list(context),
    }
}

/// Lists all generations.
fn list(context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, reporter, .. } = context;
    let used = Pin::read(&settings.root).map_err(FatalError::could_not_run)?.map(|pin| pin.generation);
    let listed = Store::new(&settings.root).list().map_err(FatalError::could_not_run)?;
    let (mut generations, mut has_failed) = (Vec::new(), false);
    for (_, listed) in listed {
        match listed {
            Ok(generation) => generations.push(generation),
            Err(error) => {
                reporter.error(error.to_string());
                has_failed = true;
            }
        }
    }
    let row = |generation: &Generation| {
        let state = if used == Some(generation.number) { "used" } else { "" };
        let (number, time) = (Cell::from(&generation.number), Cell::Time(generation.time));
        vec![number, time, Cell::from(&generation.run), Cell::from(state), Cell::from(&summary(generation))]
    };
    let rows: Vec<Vec<Cell>> = generations.iter().map(row).collect();
    reporter
        .event(Event::Table(&Table { columns: &["GENERATION", "TIME", "RUN", "STATE", "DIFFERENCES"], rows: &rows }));
    for generation in &generations {
        reporter.event(Event::Line(&Line::Generation(Box::new(line(generation, used == Some(generation.number))))));
    }
    Ok(if has_failed { exit::FAILED } else { exit::DONE })
}

fn line(generation: &Generation, used: bool) -> GenerationLine<'_> {
    let Generation { number, time, run, files, counts, differences, not_kept, .. } = generation;
    let Counts { added, changed, removed } = counts.unwrap_or_default();
    GenerationLine {
        generation: *number,
        time: time.to_string(),
        run: run.into(),
        used,
        files: *files,
        added,
        changed,
        removed,
        differences: differences.iter().map(difference).collect(),
        not_kept: not_kept.iter().map(|path| (&**path.as_bstr()).into()).collect(),
    }
}

fn difference(Difference { path, how }: &Difference) -> InputDifference<'_> {
    InputDifference { path: (&**path.as_bstr()).into(), how: change(*how) }
}

fn change(how: How) -> InputChange {
    match how {
        How::Added => InputChange::Added,
        How::Changed => InputChange::Changed,
        How::Removed => InputChange::Removed,
    }
}

/// Summarises the differences from the previous generation.
fn summary(Generation { files, counts, differences, .. }: &Generation) -> String {
    let Some(Counts { added, changed, removed }) = counts else { return format!("{files} files") };
    let counted = [(changed, "changed"), (added, "added"), (removed, "removed")];
    let counted = counted.into_iter().filter(|(number, _)| **number > 0);
    let counted: Vec<String> = counted.map(|(number, word)| format!("{number} {word}")).collect();
    let names = differences.iter().take(NAMED).map(|difference| difference.path.as_bstr().to_str_lossy());
    let names: Vec<_> = names.collect();
    let more = if added + changed + removed > names.len() { ", …" } else { "" };
    format!("{}: {}{more}", counted.join(", "), names.join(", "))
}

/// The mode bit that allows everyone to read a file.
const READABLE: u32 = 0o004;

pub(in crate::commands) fn diff(arguments: &GenerationsDiff, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, reporter, .. } = context;
    let store = Store::new(&settings.root);
    let mut from = Version::kept(&store, arguments.from).map_err(FatalError::could_not_run)?;
    let to = match arguments.to {
        Some(number) => Version::kept(&store, number),
        None => Version::today(&settings.root),
    };
    let to = to.map_err(FatalError::could_not_run)?;
    if arguments.to.is_none() {
        // Generators are not run for this comparison.
        from.leave_out_generated();
    }
    let paths: Vec<PathBuf> = differences(from.inputs(), to.inputs()).into_keys().map(Path::to_owned).collect();
    let [old, new] = [(&from, &paths), (&to, &paths)].map(|(version, paths)| {
        let is_shown =
            |path: &&PathBuf| !is_sensitive(from.inputs().get(*path)) && !is_sensitive(to.inputs().get(*path));
        version.contents(paths.iter().filter(is_shown))
    });
    let (old, new) = (old.map_err(FatalError::could_not_run)?, new.map_err(FatalError::could_not_run)?);
    for path in &paths {
        if !reporter.is_read() {
            break;
        }
        let sides = [Side::new(&from, path, &old), Side::new(&to, path, &new)];
        let text = render(path, &sides);
        if !text.is_empty() {
            let is_sensitive = sides.iter().any(|side| is_sensitive(side.node));
            let line = InputDiffLine { path: bytes(path).into(), text: (&*text).into(), sensitive: is_sensitive };
            reporter.event(Event::Difference(&text));
            reporter.event(Event::Line(&Line::InputDiff(line)));
        }
    }
    Ok(exit::DONE)
}

/// An input in one of the two generations.
struct Side<'a> {
    node: Option<&'a Node>,
    content: Content,
}

impl<'a> Side<'a> {
    fn new(version: &'a Version, path: &Path, contents: &HashMap<PathBuf, Vec<u8>>) -> Side<'a> {
        let node = version.inputs().get(path);
        let content = match node {
            Some(Node::File { access, .. }) => {
                let content = contents.get(path).cloned().unwrap_or_default();
                Content::File { content, mode: Modes::Git.shown(access.mode) }
            }
            Some(Node::Symlink(target)) => Content::Symlink { target: bytes(target).into() },
            Some(Node::Directory(_)) | None => Content::Missing,
        };
        Side { node, content }
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Returns true if not everyone may read a file, so that its content is not shown.
fn is_sensitive(node: Option<&Node>) -> bool {
    matches!(node, Some(Node::File { access, .. }) if access.mode & READABLE == 0)
}

fn render(path: &Path, [old, new]: &[Side<'_>; 2]) -> Vec<u8> {
    let name = |prefix: &[u8]| BString::from([prefix, bytes(path)].concat());
    let (from, to) = (name(b"a/"), name(b"b/"));
    let mut text = if is_sensitive(old.node) || is_sensitive(new.node) {
        let has_changed = content(old.node) != content(new.node);
        if has_changed { preview::sensitive(from.as_bstr(), to.as_bstr(), b"") } else { Vec::new() }
    } else {
        let side = |name: &BString, side: &Side<'_>| diff::Side { name: name.clone(), content: side.content.clone() };
        diff::render_prefixed(&side(&from, old), &side(&to, new))
    };
    if let (Some(old), Some(new)) = (access(old.node), access(new.node))
        && text.is_empty()
    {
        text = access_change(from.as_bstr(), to.as_bstr(), old, new);
    }
    text
}

fn content(node: Option<&Node>) -> Option<&Digest> {
    if let Some(Node::File { content, .. }) = node { Some(content) } else { None }
}

fn access(node: Option<&Node>) -> Option<Access> {
    match node {
        Some(Node::File { access, .. } | Node::Directory(access)) => Some(*access),
        Some(Node::Symlink(_)) | None => None,
    }
}

/// Returns the difference of an input whose mode or owner has changed, but not its content.
fn access_change(from: &BStr, to: &BStr, old: Access, new: Access) -> Vec<u8> {
    let mut text = format!("diff --holo {from} {to}\n");
    if old.mode != new.mode {
        text += &format!("old mode {:04o}\nnew mode {:04o}\n", old.mode, new.mode);
    }
    if (old.uid, old.gid) != (new.uid, new.gid) {
        text += &format!("old owner {}:{}\nnew owner {}:{}\n", old.uid, old.gid, new.uid, new.gid);
    }
    text.into_bytes()
}
