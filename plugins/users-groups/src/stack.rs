//! Several definitions of one account, each of which its own condition can leave out.

use crate::account::AccountId;
use crate::definition::Definition;
use crate::document::Stated;
use crate::entity::{AccountEntity, History, Shared, groups_of};
use holo_plugin::declared::Declared;
use holo_plugin::definitions::{Common, CommonKeys, Contradiction, Hindrance};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// All that is said of one account.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    /// The merged definition; none if all definitions are left out.
    definition: Option<Definition>,
    keys: CommonKeys,
    /// The files in which it stands.
    files: Vec<PathBuf>,
    /// Files of definitions that do not count, and why.
    left_out: Vec<(PathBuf, String)>,
    /// The keys that have no value.
    hindrances: Vec<Hindrance>,
}

impl Stack {
    /// Adds a definition. What it contradicts is returned in words, and stays as it was.
    pub(crate) fn lay(&mut self, stated: Stated, file: &Path) -> Vec<String> {
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

    /// Notes a definition that does not count, as if it were not there.
    pub(crate) fn leave_out(&mut self, file: &Path, reason: String) {
        let left_out = (file.to_owned(), reason);
        if !self.left_out.contains(&left_out) {
            self.left_out.push(left_out);
        }
    }

    /// The UID or GID that is defined.
    pub(crate) fn number(&self) -> Option<u32> {
        self.definition.as_ref()?.account.number
    }

    /// Returns whether a definition counts.
    pub(crate) fn is_defined(&self) -> bool {
        self.definition.is_some()
    }

    pub(crate) fn into_entity(self, id: AccountId, history: History, shared: &Arc<Shared>) -> Declared<AccountEntity> {
        let Stack { definition, keys, mut files, mut left_out, hindrances } = self;
        let mut skipped = None;
        let definition = definition.unwrap_or_else(|| {
            // Nothing of it counts: the account is left as it is.
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
