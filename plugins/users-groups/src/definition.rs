//! The definition of a user or group, and the merging of several of them.

use crate::account::{Account, AccountId};

/// A definition, or several that have been merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) account: Account,
    /// True if it is one of the system's own; counts only when it is made.
    pub(crate) system: bool,
    /// True if auxiliary groups that it had before are taken away.
    pub(crate) skip_base_groups: bool,
    /// True if the home directory is made with it; counts only when it is made.
    pub(crate) create_home: bool,
}

impl Definition {
    pub(crate) fn bare(id: AccountId) -> Definition {
        Definition { account: Account::bare(id), system: false, skip_base_groups: false, create_home: false }
    }

    /// Adds another definition of the same account. What they contradict each other in is returned in words, and stays as it was.
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

    /// The attributes in one line, for people; empty if there are none.
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
    fn definitions_add_up() {
        let mut merged = definition(7, "first", &["z", "b"]);
        let later = Definition { system: true, skip_base_groups: true, ..definition(7, "second", &["a", "b"]) };
        assert_eq!(merged.in_words(), "UID: 7, groups: z,b, comment: first");
        assert!(merged.merge(&later).is_empty());
        assert_eq!(merged.in_words(), "type: system, UID: 7, exact groups: a,b,z, comment: second");
        assert!(merged.merge(&definition(7, "", &[])).is_empty());
        assert_eq!(merged.account.comment.as_deref(), Some("second"));
    }

    #[test]
    fn contradictions_are_named() {
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
