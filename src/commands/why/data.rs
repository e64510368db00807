//! The data that resource files use.

use super::answer::{Answer, Datum};
use crate::report::{Event, Reporter, Severity};
use crate::root::Root;
use crate::settings::Settings;
use bstr::ByteSlice;
use holo_facts::is_template;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use walkdir::WalkDir;

/// The key of scan report lines that name a template, or a directory of templates.
const RENDER: &str = "render";

/// Returns the values of data that an entity's templates use, sorted by key.
pub(super) fn read_by(answer: &Answer, settings: &Settings, reporter: &mut dyn Reporter) -> Vec<Datum> {
    let files = templates(answer, &settings.root);
    let texts: Vec<String> = files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
    if texts.is_empty() {
        return Vec::new();
    }
    let knowledge = settings.knowledge();
    let mut data = BTreeMap::new();
    for text in texts {
        match knowledge.read_by(&text) {
            Ok(read) => data.extend(read),
            Err(error) => {
                reporter.event(Event::Aside(Severity::Warning, &error.to_string()));
                return Vec::new();
            }
        }
    }
    let values = data.into_iter().flat_map(|(key, origin)| {
        origin.from.into_iter().map(move |place| (key.clone(), place.file.to_owned(), place.line))
    });
    values.map(|(key, file, line)| Datum { key, file, line }).collect()
}

/// Returns the templates of an entity: those among its resource files, and those that its plugin reports.
fn templates(answer: &Answer, root: &Root) -> Vec<PathBuf> {
    let sources = answer.sources.iter().map(|source| root.as_read(&source.path)).filter(|path| is_template(path));
    let rendered = answer.information.iter().filter(|line| line.key == RENDER);
    let rendered = rendered.map(|line| root.as_read(&line.value.to_path_lossy()));
    // In a directory of templates, every file counts, whatever its name.
    let files = rendered.flat_map(|path| WalkDir::new(path).sort_by_file_name()).filter_map(Result::ok);
    sources.chain(files.filter(|entry| entry.file_type().is_file()).map(walkdir::DirEntry::into_path)).collect()
}
