//! Indexes of the lines of a draft by their content. Each is built when it is first needed.

use crate::edits::text::{header, split_key, uncommented};
use holo_plugin::index::define_index;
use std::collections::{BTreeMap, BTreeSet, HashMap};

define_index! {
    /// The index of an item, which does not change when other items are inserted.
    pub(in crate::edits) ItemIndex
}

/// The position of an item among all.
pub(super) type Label = u128;

/// Lines by their labels.
pub(super) type Lines = BTreeMap<Label, ItemIndex>;

/// The visible lines of a draft, by content.
#[derive(Debug, Default)]
pub(super) struct Indexes {
    /// By their text, [uncommented].
    pub(super) texts: Option<BTreeMap<Vec<u8>, Lines>>,
    pub(super) headers: Option<Headers>,
    /// By the key that they set, for each separator.
    pub(super) keys: HashMap<Option<char>, HashMap<Vec<u8>, Lines>>,
}

/// The lines that begin sections.
#[derive(Debug, Default)]
pub(super) struct Headers {
    pub(super) names: BTreeMap<Label, Vec<u8>>,
    pub(super) by_name: HashMap<Vec<u8>, BTreeSet<Label>>,
}

impl Indexes {
    /// Adds a line that became visible.
    pub(super) fn add(&mut self, line: &[u8], label: Label, index: ItemIndex) {
        if let Some(texts) = &mut self.texts {
            texts.entry(uncommented(line).to_vec()).or_default().insert(label, index);
        }
        if let Some((headers, name)) = self.headers.as_mut().zip(header(line)) {
            headers.add(name, label);
        }
        for (separator, keys) in &mut self.keys {
            if let Some((key, _)) = split_key(line, *separator) {
                keys.entry(key.to_vec()).or_default().insert(label, index);
            }
        }
    }

    /// Removes a line that is no longer visible.
    pub(super) fn remove(&mut self, line: &[u8], label: Label) {
        if let Some(texts) = &mut self.texts
            && let Some(lines) = texts.get_mut(uncommented(line))
        {
            lines.remove(&label);
            if lines.is_empty() {
                texts.remove(uncommented(line));
            }
        }
        if let Some((headers, name)) = self.headers.as_mut().zip(header(line)) {
            headers.names.remove(&label);
            headers.by_name.get_mut(name).map(|labels| labels.remove(&label));
        }
        for (separator, keys) in &mut self.keys {
            if let Some(lines) = split_key(line, *separator).and_then(|(key, _)| keys.get_mut(key)) {
                lines.remove(&label);
            }
        }
    }
}

impl Headers {
    pub(super) fn add(&mut self, name: &[u8], label: Label) {
        self.names.insert(label, name.to_vec());
        self.by_name.entry(name.to_vec()).or_default().insert(label);
    }
}
