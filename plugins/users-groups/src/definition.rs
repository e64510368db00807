//! The definition of a user or group, and the stack of all definitions of one account. Each may be skipped by its own condition.

use crate::account::{Account, AccountId};
use crate::document::ParsedDefinition;
use crate::entity::{AccountEntity, History, Shared, groups_of};
use holo_plugin::declared::Declared;
use holo_plugin::definitions::{Common, CommonKeys, Contradiction, Hindrance};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A definition, possibly merged from several ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) account: Account,
    /// Requests a system account. Used only when the account is created.
    pub(crate) system: bool,
    /// True if the account leaves the supplementary groups of its base.
    pub(crate) skip_base_groups: bool,
    /// Requests a home directory. Used only when the account is created.
    pub(crate) create_home: bool,
}

impl Definition {
    pub(crate) fn bare(id: AccountId) -> Definition {
        Definition { account: Account::bare(id), system: false, skip_base_groups: false, create_home: false }
    }

    /// Merges another definition of the same account. Returns a message for each conflict; the first value is kept.
    pub(crate) fn merge(&mut self, later: &Definition) -> Vec<String> {
        let (own, others) = (&mut self.account, &later.account);
        let id = own.id.clone();
        let conflicts = own
            .conflicts(others)
            .into_iter()
            .map(|(what, one, two)| format!("conflicting {what} for {id} ({one} vs. {two})"))
            .collect();
        if others.comment.is_some() {
            own.comment.clone_from(&others.comment);
        }
        own.unite_with(others);
        self.system |= later.system;
        self.skip_base_groups |= later.skip_base_groups;
        self.create_home |= later.create_home;
        conflicts
    }

    /// Returns the attributes in one line, or an empty string if there are none.
    pub(crate) fn in_words(&self) -> String {
        let Account { id, number, comment, home, group, groups, shell } = &self.account;
        let mut words = Vec::new();
        let mut add = |key: &str, value: Option<&str>| words.extend(value.map(|value| format!("{key}: {value}")));
        let groups_key = if self.skip_base_groups { "exact groups" } else { "groups" };
        add("type", self.system.then_some("system"));
        add(id.kind.number_word(), number.map(|number| number.to_string()).as_deref());
        add("home", home.as_deref());
        add("login group", group.as_deref());
        add(groups_key, Some(&*groups.join(",")).filter(|text| !text.is_empty()));
        add("login shell", shell.as_deref());
        add("comment", comment.as_deref());
        words.join(", ")
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(number: u32, comment: &str, groups: &[&str]) -> Definition {
        let mut definition = Definition::bare(AccountId::parse("user:joe").unwrap());
        definition.account.number = Some(number);
        definition.account.comment = Some(comment.to_owned()).filter(|text| !text.is_empty());
        definition.account.groups = groups.iter().map(ToString::to_string).collect();
        definition
    }

    #[test]
    fn merge_combines_definitions() {
        let mut merged = definition(7, "first", &["z", "b"]);
        let later = Definition { system: true, skip_base_groups: true, ..definition(7, "second", &["a", "b"]) };
        assert_eq!(merged.in_words(), "UID: 7, groups: z,b, comment: first");
        assert!(merged.merge(&later).is_empty());
        assert_eq!(merged.in_words(), "type: system, UID: 7, exact groups: a,b,z, comment: second");
        assert!(merged.merge(&definition(7, "", &[])).is_empty());
        assert_eq!(merged.account.comment.as_deref(), Some("second"));
    }

    #[test]
    fn merge_reports_conflicts() {
        let mut merged = definition(7, "", &[]);
        merged.account.home = Some("/a".into());
        let mut later = definition(8, "", &[]);
        later.account.home = Some("/b".into());
        later.account.shell = Some("/bin/sh".into());
        assert_eq!(
            merged.merge(&later),
            ["conflicting UID for user:joe (7 vs. 8)", "conflicting home directory for user:joe (/a vs. /b)"]
        );
        assert_eq!(merged.in_words(), "UID: 7, home: /a, login shell: /bin/sh");
    }
}
