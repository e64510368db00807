//! The data that resource files read.

use super::answer::{Datum, Source};
use crate::report::{Event, Reporter, Severity};
use crate::settings::Settings;
use holo_facts::is_template;
use std::collections::BTreeMap;
use std::fs;

/// Returns the values of data that the templates among some resource files read, in the order of their keys.
pub(super) fn read_by(sources: &[Source], settings: &Settings, reporter: &mut dyn Reporter) -> Vec<Datum> {
    let templates = sources.iter().filter(|source| is_template(&source.path));
    let texts: Vec<String> =
        templates.filter_map(|source| fs::read_to_string(settings.root.as_read(&source.path)).ok()).collect();
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
