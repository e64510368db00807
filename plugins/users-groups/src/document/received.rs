//! Attributes of accounts that are received from other entities.

use super::{Draft, Reader, key_of, keys};
use crate::account::{AccountId, Kind};
use holo_plugin::definitions::{Candidate, Filled, Keys, ReceiveError, did_you_mean, fill_with};
use std::ops::Range;
use toml::Spanned;
use toml::de::DeTable;

/// The attributes of accounts of this kind.
struct Attributes(Kind);

impl Reader<'_> {
    /// Adds received values to the table of a definition. Conflicts with the definition are added to the problems of the draft.
    pub(super) fn fill<'c>(
        &self,
        of: Kind,
        table: Spanned<DeTable<'c>>,
        candidates: &'c [Candidate<'_>],
        draft: &mut Draft<'_>,
    ) -> Filled<'c> {
        let mut wrong = Vec::new();
        let describe =
            |span: &Range<usize>, problem: &str| format!("line {}: {}: {problem}", self.line(span), draft.place);
        let filled = fill_with(table, candidates, &Attributes(of), &mut wrong, &describe);
        let wrong: Vec<String> = wrong.iter().map(|(span, problem)| describe(span, problem)).collect();
        draft.problems.extend(wrong);
        filled
    }
}

impl Keys for Attributes {
    fn check(&self, table: &Spanned<DeTable<'_>>, key: &str, _: &Range<usize>) -> Result<(), ReceiveError> {
        let Some(known) = key_of(self.0, key) else { return self.find(key) };
        let mut same = table.get_ref().iter().filter(|(other, _)| other.get_ref().eq_ignore_ascii_case(key));
        let (Some((_, value)), None) = (same.next(), same.next()) else {
            return Err(ReceiveError::new(format!("receive: {key} is also set in the definition")));
        };
        let id = AccountId { kind: self.0, name: String::new() };
        Draft::new(id, "", false).set(known, value).map_err(|error| ReceiveError::new(format!("{key}: {error}")))
    }

    fn find(&self, key: &str) -> Result<(), ReceiveError> {
        if key_of(self.0, key).is_some() {
            return Ok(());
        }
        let hint = did_you_mean(key, keys(self.0).iter().copied()).map(|hint| format!("; {hint}"));
        Err(ReceiveError::new(format!("receive: {key}: unknown key{}", hint.unwrap_or_default())))
    }
}
