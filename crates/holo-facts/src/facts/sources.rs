//! Custom facts: files and programs in `etc/holo/facts.d`.

use crate::document;
use crate::facts::Warning;
use holo_definitions::LocatedError;
use holo_process::Program;
use holo_process::words::reason;
use holo_system::Root;
use rustix::fs::{FileType, Mode};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The directory of the sources.
const FOLDER: &str = "etc/holo/facts.d";
/// The timeout for a program, so that all of them together take less than two seconds.
const TIME_LIMIT: Duration = Duration::from_millis(1500);
const GRACE: Duration = Duration::from_millis(200);
const LINGER: Duration = Duration::from_millis(200);
/// The maximum output of a program in bytes.
const MAX_OUTPUT: u64 = 4 << 20;

/// A fact source.
enum Source {
    Document(PathBuf),
    Program(PathBuf),
}

type Found = Result<Map<String, Value>, LocatedError>;

/// Returns the facts of all sources in the order of their names. Programs run concurrently, each with the same timeout.
pub(super) fn gather(root: &Root, warnings: &mut Vec<Warning>) -> Vec<Map<String, Value>> {
    let sources = match find(root) {
        Ok(sources) => sources,
        Err(fault) => {
            warnings.push(Warning(fault));
            return Vec::new();
        }
    };
    let ask = |source: &Result<Source, LocatedError>| match source {
        Ok(Source::Document(path)) => document(root, path),
        Ok(Source::Program(path)) => program(root, path),
        Err(fault) => Err(fault.clone()),
    };
    let found: Vec<Found> = thread::scope(|scope| {
        let asked: Vec<_> = sources
            .iter()
            .map(|source| {
                let is_program = matches!(source, Ok(Source::Program(_)));
                (source, is_program.then(|| thread::Builder::new().spawn_scoped(scope, move || ask(source))))
            })
            .collect();
        let answer = |(source, thread): (_, Option<std::io::Result<thread::ScopedJoinHandle<'_, Found>>>)| {
            // If no thread can be started, run it in this one.
            thread.and_then(|thread| thread.ok()?.join().ok()).unwrap_or_else(|| ask(source))
        };
        asked.into_iter().map(answer).collect()
    });
    let mut tables = Vec::new();
    for found in found {
        match found {
            Ok(table) => tables.push(table),
            Err(fault) => warnings.push(Warning(fault)),
        }
    }
    tables
}

/// Returns the sources in the order of their names, with errors for invalid ones. Hidden files, and files that are
/// neither documents nor programs, are skipped.
fn find(root: &Root) -> Result<Vec<Result<Source, LocatedError>>, LocatedError> {
    let folder = Path::new(FOLDER);
    let shown = |path: &Path| root.shown(path).display().to_string();
    let names = root.names(folder).map_err(|error| LocatedError::new(shown(folder), reason(&error)))?;
    let mut sources = Vec::new();
    for name in names.iter().filter(|name| !name.as_encoded_bytes().starts_with(b".")) {
        let path = folder.join(name);
        let is_document = document::is_document(&path);
        match root.stat(&path) {
            Ok((FileType::RegularFile, mode)) => {
                let is_program = mode.intersects(Mode::XUSR | Mode::XGRP | Mode::XOTH);
                if !is_document && !is_program {
                    continue;
                }
                sources.push(Ok(if is_document { Source::Document(path) } else { Source::Program(path) }));
            }
            Ok(_) if is_document => sources.push(Err(LocatedError::new(shown(&path), "this is not a regular file"))),
            Ok(_) => {}
            Err(error) => sources.push(Err(LocatedError::new(shown(&path), reason(&error)))),
        }
    }
    Ok(sources)
}

fn document(root: &Root, path: &Path) -> Found {
    let shown = root.shown(path);
    let content =
        document::content(root, path)?.ok_or_else(|| LocatedError::new(shown.display(), "it has vanished"))?;
    document::read(shown.display(), path, &content)
}

fn program(root: &Root, path: &Path) -> Found {
    let shown = root.shown(path);
    // A name without a slash would be looked up in PATH.
    let program = std::path::absolute(&shown).unwrap_or_else(|_| shown.clone());
    let output = Program::new(program)
        .timeout(TIME_LIMIT)
        .grace(GRACE)
        .linger(LINGER)
        .output_limit(MAX_OUTPUT)
        .output()
        .map_err(|error| LocatedError::new(shown.display(), error))?;
    if let Some(failure) = output.ended.failure() {
        let told = String::from_utf8_lossy(&output.stderr);
        let last = told.lines().rev().map(str::trim).find(|line| !line.is_empty());
        let text = last.map_or_else(|| failure.clone(), |last| format!("{failure}: {last}"));
        return Err(LocatedError::new(shown.display(), text));
    }
    document::json(shown.display(), &output.stdout).map_err(|fault| {
        // The line number refers to the output, not to the program.
        let line = fault.line.map_or_else(String::new, |line| format!(" in line {line}"));
        LocatedError::new(fault.place, format!("its output is not a table of JSON: {}{line}", fault.text))
    })
}
