//! A compact representation of tables, for when there are very many.

use std::borrow::Cow;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A table without spare capacity. A map reserves room for more entries, and there may be very many tables.
pub(crate) struct CompactTable<'s> {
    span: Range<usize>,
    entries: Box<[Entry<'s>]>,
}

impl<'s> CompactTable<'s> {
    pub(crate) fn new(table: Spanned<DeTable<'s>>) -> CompactTable<'s> {
        CompactTable { span: table.span(), entries: table.into_inner().into_iter().collect() }
    }

    pub(crate) fn into_table(self) -> Spanned<DeTable<'s>> {
        Spanned::new(self.span, self.entries.into_iter().collect())
    }
}

/// A key and its value.
type Entry<'s> = (Spanned<Cow<'s, str>>, Spanned<DeValue<'s>>);
