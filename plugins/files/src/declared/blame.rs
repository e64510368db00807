//! The origins of the lines of a declared file: its definition or source, or a manual change.

use super::definition::FileDefinition;
use super::entity::DeclaredFile;
use super::wanted::{self, TEMPLATE_SUFFIX};
use bstr::ByteSlice;
use holo_plugin::origins::{TemplateText, Traced};
use holo_plugin::{Host, Origin, Span};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the origins of the lines, if the path is declared as a file and exists.
pub(super) fn blame(entity: &DeclaredFile, host: &Host) -> Option<Vec<Span>> {
    let definition = entity.definition.as_ref().filter(|definition| !definition.sensitive)?;
    let current = fs::read(host.below_root(&entity.path)).ok()?;
    let Some(content) = wanted::content(definition, host).ok()? else {
        // The content is unmanaged.
        return Some(Traced::uniform(current, &Origin::Base).into_spans());
    };
    let traced = match &definition.source {
        Some(source) => from_source(content, &source_path(source, host)?),
        None => from_definition(content, definition, entity.sources.first()?),
    };
    Some(traced.become_text(current, |_, _| Origin::Edited).into_spans())
}

fn source_path(source: &str, host: &Host) -> Option<PathBuf> {
    let below = Path::new(source);
    Some(host.resources().directory_of(below).ok()?.join(below))
}

fn from_source(content: Vec<u8>, path: &Path) -> Traced {
    if !path.as_os_str().as_encoded_bytes().ends_with(TEMPLATE_SUFFIX.as_bytes()) {
        return Traced::resource(content, path);
    }
    let text = fs::read(path).unwrap_or_default();
    TemplateText { path: path.to_owned(), text }.trace(&[], None, content)
}

/// Maps the lines of a content to the table in the definition file: each to its own line, or all to the line of the key.
fn from_definition(content: Vec<u8>, definition: &FileDefinition, file: &Path) -> Traced {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let names_path = |line: &&str| {
        line.split_once('=').is_some_and(|(key, value)| key.trim() == "path" && value.contains(&definition.path))
    };
    let path_at = lines.iter().position(names_path).unwrap_or(0);
    let is_header = |line: &&str| line.starts_with("[[");
    let start = lines.iter().take(path_at).rposition(is_header).unwrap_or(0);
    let end = lines.iter().skip(path_at).position(is_header).map_or(lines.len(), |next| path_at + next);
    let table = lines.get(start..end).unwrap_or_default();
    let key_at =
        table.iter().position(|line| line.trim_start().starts_with("content")).map_or(path_at, |at| start + at);
    let mut at = key_at;
    Traced::new(content, |_, line| {
        let line = line.trim_end_with(|letter| letter == '\n');
        let own = lines.iter().enumerate().take(end).skip(at + 1).find(|(_, text)| text.as_bytes() == line);
        if let Some((found, _)) = own.filter(|_| !line.is_empty()) {
            at = found;
        }
        let number = own.filter(|_| !line.is_empty()).map_or(key_at, |(found, _)| found);
        Origin::Resource { path: file.to_owned(), line: number + 1 }
    })
}
