//! All definitions of one account. Each may be skipped by its own condition.

use crate::account::AccountId;
use crate::definition::Definition;
use crate::document::ParsedDefinition;
use crate::entity::{AccountEntity, History, Shared, groups_of};
use holo_plugin::declared::Declared;
use holo_plugin::definitions::{Common, CommonKeys, Contradiction, Hindrance};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All definitions of one account.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    /// The merged definition, or `None` if all definitions are skipped.
    definition: Option<Definition>,
    keys: CommonKeys,
    /// The files that contain a definition.
    files: Vec<PathBuf>,
    /// The files of skipped definitions, and the reasons.
    left_out: Vec<(PathBuf, String)>,
    /// The keys that have no value.
    hindrances: Vec<Hindrance>,
}

impl Stack {
    /// Adds a definition. Returns a message for each conflict; the first value is kept.
    pub(crate) fn lay(&mut self, stated: ParsedDefinition, file: &Path) -> Vec<String> {
        if self.files.last().is_none_or(|last| last != file) {
            self.files.push(file.to_owned());
        }
        let id = stated.definition.account.id.clone();
        let mut conflicts = match &mut self.definition {
            Some(definition) => definition.merge(&stated.definition),
            None => {
                self.definition = Some(stated.definition);
                Vec::new()
            }
        };
        self.hindrances.extend(stated.hindrances);
        let others = self.keys.unite(&stated.common);
        conflicts.extend(
            others
                .iter()
                .map(|Contradiction { key, own, other }| format!("conflicting {key} for {id} ({own} vs. {other})")),
        );
        conflicts
    }

    /// Records a definition that is skipped.
    pub(crate) fn leave_out(&mut self, file: &Path, reason: String) {
        let left_out = (file.to_owned(), reason);
        if !self.left_out.contains(&left_out) {
            self.left_out.push(left_out);
        }
    }

    /// Returns the defined UID or GID.
    pub(crate) fn number(&self) -> Option<u32> {
        self.definition.as_ref()?.account.number
    }

    /// Returns true if a definition is in effect.
    pub(crate) fn is_defined(&self) -> bool {
        self.definition.is_some()
    }

    pub(crate) fn into_entity(self, id: AccountId, history: History, shared: &Arc<Shared>) -> Declared<AccountEntity> {
        let Stack { definition, keys, mut files, mut left_out, hindrances } = self;
        let mut skipped = None;
        let definition = definition.unwrap_or_else(|| {
            // All definitions are skipped, and so the account is left alone.
            let mut reasons: Vec<String> = Vec::new();
            for (file, reason) in left_out.drain(..) {
                if !files.contains(&file) {
                    files.push(file);
                }
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
            skipped = Some(reasons.join(", "));
            Definition::bare(id.clone())
        });
        let groups = groups_of(&definition.account);
        let after = [&keys.after, &keys.requires, &keys.subscribes].into_iter().flatten();
        let after = after.chain(keys.receive.iter().map(|receipt| &receipt.sender));
        let after = after.map(|id| id.as_str().into()).collect();
        let (timeout, shared) = (keys.timeout, Arc::clone(shared));
        let entity =
            AccountEntity { id, definition: Some(definition), left_out, groups, after, timeout, history, shared };
        Declared::new(entity, Common { sources: files, keys: keys.into(), skipped, hindrances, ..Common::default() })
    }
}
