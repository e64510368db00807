//! Merges one definition from several files: complementary values are merged, contradictions are errors.

use crate::common;
use crate::source::{CompactTable, Sources};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// The tables of one entity in several files.
#[derive(Default)]
pub(crate) struct Stack<'s> {
    /// The merged table so far, with its position in the first file.
    table: Option<CompactTable<'s>>,
    /// The indexes of the files in reading order.
    pub(crate) files: Vec<usize>,
    /// The span of the table in the last file.
    pub(crate) last: Range<usize>,
    /// Contradictions: their spans and messages.
    pub(crate) problems: Vec<(Range<usize>, String)>,
}

impl<'s> Stack<'s> {
    /// Merges another table into this one.
    pub(crate) fn lay(&mut self, table: Spanned<DeTable<'s>>, file: usize, united: &[&str], sources: &Sources) {
        if !self.files.contains(&file) {
            self.files.reserve_exact(1);
            self.files.push(file);
        }
        self.last = table.span();
        let Some(below) = self.table.take() else {
            self.table = Some(CompactTable::new(table));
            return;
        };
        let is_united = |key: &str| united.contains(&key) || common::is_list(key);
        let mut below = below.into_table();
        merge(below.get_mut(), table.into_inner(), "", &is_united, sources, &mut self.problems);
        self.table = Some(CompactTable::new(below));
    }

    /// Takes the merged table.
    pub(crate) fn take_table(&mut self) -> Option<Spanned<DeTable<'s>>> {
        self.table.take().map(CompactTable::into_table)
    }
}

fn merge<'s>(
    below: &mut DeTable<'s>,
    above: DeTable<'s>,
    within: &str,
    is_united: &dyn Fn(&str) -> bool,
    sources: &Sources,
    problems: &mut Vec<(Range<usize>, String)>,
) {
    for (key, value) in above {
        let Some(known) = below.get_mut(&**key.get_ref()) else {
            below.insert(key, value);
            continue;
        };
        let name = format!("{within}{}", key.get_ref());
        let (known_span, span) = (known.span(), value.span());
        match (known.get_mut(), value.into_inner()) {
            (DeValue::Table(known), DeValue::Table(value)) => {
                merge(known, value, &format!("{name}."), &|_| false, sources, problems);
            }
            (DeValue::Array(known), DeValue::Array(values)) if is_united(&name) => {
                for value in values {
                    if !known.iter().any(|other| plain(other) == plain(&value)) {
                        known.push(value);
                    }
                }
            }
            (known, value) => {
                let (known, value) =
                    (Spanned::new(known_span.clone(), known.clone()), Spanned::new(span.clone(), value));
                if plain(&known) != plain(&value) {
                    let contradiction = format!("{name}: contradicts {}", sources.location(&known_span));
                    problems.push((span, contradiction));
                }
            }
        }
    }
}

/// Returns the value without spans.
pub(crate) fn plain(value: &Spanned<DeValue<'_>>) -> Option<toml::Value> {
    serde::Deserialize::deserialize(ValueDeserializer::from(value.clone())).ok()
}
