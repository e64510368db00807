//! Queries for lines of a draft by their content.

use super::draft::{Draft, Spot};
use super::indexes::{Headers, ItemIndex, Label, Lines};
use crate::edits::pattern::Pattern;
use crate::edits::text::{header, split_key, uncommented};
use std::collections::{BTreeMap, HashMap};

impl Draft {
    fn texts(&mut self) -> &BTreeMap<Vec<u8>, Lines> {
        if self.indexes.texts.is_none() {
            let mut texts: BTreeMap<Vec<u8>, Lines> = BTreeMap::new();
            for (label, index) in self.visible() {
                texts.entry(uncommented(self.line(index)).to_vec()).or_default().insert(label, index);
            }
            self.indexes.texts = Some(texts);
        }
        self.indexes.texts.get_or_insert_default()
    }

    fn headers(&mut self) -> &Headers {
        if self.indexes.headers.is_none() {
            let mut headers = Headers::default();
            for (label, index) in self.visible() {
                header(self.line(index)).iter().for_each(|name| headers.add(name, label));
            }
            self.indexes.headers = Some(headers);
        }
        self.indexes.headers.get_or_insert_default()
    }

    fn keys(&mut self, separator: Option<char>) -> &HashMap<Vec<u8>, Lines> {
        if !self.indexes.keys.contains_key(&separator) {
            let mut keys: HashMap<Vec<u8>, Lines> = HashMap::new();
            for (label, index) in self.visible() {
                if let Some((key, _)) = split_key(self.line(index), separator) {
                    keys.entry(key.to_vec()).or_default().insert(label, index);
                }
            }
            self.indexes.keys.insert(separator, keys);
        }
        self.indexes.keys.entry(separator).or_default()
    }

    /// Returns the lines that are equal to a text when both are [uncommented], in their order.
    pub(in crate::edits) fn like(&mut self, text: &[u8]) -> Vec<ItemIndex> {
        self.texts().get(uncommented(text)).into_iter().flat_map(Lines::values).copied().collect()
    }

    /// Returns the first line from `from` on that is equal to a text, apart from surrounding white space.
    pub(in crate::edits) fn first_from(&mut self, from: ItemIndex, text: &[u8]) -> Option<ItemIndex> {
        let from = self.label_of(Spot::Before(from));
        let (_, &found) = self.texts().get(uncommented(text))?.range(from..).next()?;
        (self.line(found).trim_ascii() == text).then_some(found)
    }

    /// Returns the lines that are equal to a text, in their order.
    pub(in crate::edits) fn equal(&mut self, text: &[u8]) -> Vec<ItemIndex> {
        let like = self.like(text);
        like.into_iter().filter(|&index| self.line(index) == text).collect()
    }

    /// Returns true if a line is equal to a text.
    pub(in crate::edits) fn contains(&mut self, text: &[u8]) -> bool {
        !self.equal(text).is_empty()
    }

    /// Returns the lines that match a pattern, in their order.
    pub(in crate::edits) fn matches(&mut self, pattern: &Pattern) -> Vec<ItemIndex> {
        let Some(prefixes) = pattern.prefixes() else {
            let all = self.visible().map(|(_, index)| index);
            return all.filter(|&index| pattern.is_match(self.line(index))).collect();
        };
        let mut candidates = Lines::new();
        for prefix in prefixes {
            let from = self.texts().range(prefix.clone()..);
            candidates.extend(from.take_while(|(text, _)| text.starts_with(prefix)).flat_map(|(_, lines)| lines));
        }
        candidates.into_values().filter(|&index| pattern.is_match(self.line(index))).collect()
    }

    /// Returns the last line that matches a pattern.
    pub(in crate::edits) fn last_match(&mut self, pattern: &Pattern) -> Option<ItemIndex> {
        match pattern.prefixes() {
            Some(_) => self.matches(pattern).pop(),
            None => self.visible().rev().map(|(_, index)| index).find(|&index| pattern.is_match(self.line(index))),
        }
    }

    /// Returns the first line that matches a pattern.
    pub(in crate::edits) fn first_match(&mut self, pattern: &Pattern) -> Option<ItemIndex> {
        match pattern.prefixes() {
            Some(_) => self.matches(pattern).first().copied(),
            None => self.visible().map(|(_, index)| index).find(|&index| pattern.is_match(self.line(index))),
        }
    }

    /// Returns the lines that set a key, in their order: in all sections of this name, or above all sections.
    pub(in crate::edits) fn values_of(
        &mut self,
        section: Option<&str>,
        key: &str,
        separator: Option<char>,
    ) -> Vec<ItemIndex> {
        self.headers();
        self.keys(separator);
        let Some(headers) = &self.indexes.headers else { return Vec::new() };
        let lines = self.indexes.keys.get(&separator).and_then(|keys| keys.get(key.as_bytes()));
        let Some(lines) = lines else { return Vec::new() };
        let Some(section) = section else {
            let end = headers.names.keys().next().copied().unwrap_or(Label::MAX);
            return lines.range(..end).map(|(_, &index)| index).collect();
        };
        let Some(own) = headers.by_name.get(section.as_bytes()) else { return Vec::new() };
        // Start from the rarer of both: the key may occur in many sections, and the section several times.
        if lines.len() <= own.len() {
            let in_own = |label: Label| {
                let header = headers.names.range(..label).next_back();
                header.is_some_and(|(_, name)| name == section.as_bytes())
            };
            return lines.iter().filter(|(label, _)| in_own(**label)).map(|(_, &index)| index).collect();
        }
        let end = |start: Label| headers.names.range(start + 1..).next().map_or(Label::MAX, |(&end, _)| end);
        own.iter().flat_map(|&start| lines.range(start..end(start))).map(|(_, &index)| index).collect()
    }

    /// Returns the last section of a name, or the lines above all sections.
    pub(in crate::edits) fn section(&mut self, name: Option<&str>) -> Option<Section> {
        let headers = self.headers();
        let header = match name {
            None => None,
            Some(name) => Some(*headers.by_name.get(name.as_bytes())?.last()?),
        };
        let next = match header {
            None => headers.names.keys().next(),
            Some(header) => headers.names.range(header + 1..).next().map(|(label, _)| label),
        };
        let next = next.copied().unwrap_or(Label::MAX);
        let (start, end) = (self.visible_at(header.map_or(0, |header| header + 1)), self.visible_at(next));
        let is_inside = |label: Label| header.is_none_or(|header| label > header);
        let lines = self.before(end).take_while(|(label, _)| is_inside(*label));
        let last = lines.map(|(_, index)| index).find(|&index| !self.line(index).trim_ascii().is_empty());
        let end = last.map_or(start, |last| self.behind(last));
        Some(Section { after: header.unwrap_or(0), end })
    }

    fn visible_at(&self, label: Label) -> Spot {
        self.first_visible(label).map_or(Spot::End, Spot::Before)
    }

    /// Returns true if a position is in a section, or at its end.
    pub(in crate::edits) fn is_within(&self, spot: Spot, section: &Section) -> bool {
        let label = self.label_of(spot);
        section.after < label && label <= self.label_of(section.end)
    }

    /// Returns true if there is no line, or the last one is blank.
    pub(in crate::edits) fn ends_blank(&self) -> bool {
        self.visible().next_back().is_none_or(|(_, last)| self.line(last).trim_ascii().is_empty())
    }
}

/// A section of a draft.
pub(in crate::edits) struct Section {
    /// The label of its header.
    after: Label,
    /// The position behind the last of its lines that is not blank.
    pub(in crate::edits) end: Spot,
}
