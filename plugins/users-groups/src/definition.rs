//! The definition of a user or group, and the merging of several definitions.

use crate::account::{Account, AccountId};

/// What happens to the supplementary groups of a user that no definition asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Membership {
    /// The rule of version 3: they stay if the definition has no groups, and otherwise need force.
    #[default]
    Version3,
    /// Those that an apply has added are left; others stay.
    Ours,
    /// All are left.
    Exact,
}

/// A definition, possibly merged from several ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Definition {
    pub(crate) account: Account,
    /// Requests a system account. Used only when the account is created.
    pub(crate) system: bool,
    /// True if the account leaves the supplementary groups of its base.
    pub(crate) skip_base_groups: bool,
    /// What happens to groups that are not defined.
    pub(crate) membership: Membership,
    /// Requests a home directory. Used only when the account is created.
    pub(crate) create_home: bool,
}

impl Definition {
    pub(crate) fn bare(id: AccountId) -> Definition {
        let (account, membership) = (Account::bare(id), Membership::default());
        Definition { account, system: false, skip_base_groups: false, membership, create_home: false }
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
        self.membership = self.membership.max(later.membership);
        self.create_home |= later.create_home;
        conflicts
    }

    /// Returns the attributes in one line, or an empty string if there are none.
    pub(crate) fn in_words(&self) -> String {
        let Account { id, number, comment, home, group, groups, shell } = &self.account;
        let mut words = Vec::new();
        let mut add = |key: &str, value: Option<&str>| words.extend(value.map(|value| format!("{key}: {value}")));
        let is_exact = self.membership == Membership::Exact;
        let groups_key = if self.skip_base_groups || is_exact { "exact groups" } else { "groups" };
        let groups = if groups.is_empty() && is_exact { "none".to_owned() } else { groups.join(",") };
        add("type", self.system.then_some("system"));
        add(id.kind.number_word(), number.map(|number| number.to_string()).as_deref());
        add("home", home.as_deref());
        add("login group", group.as_deref());
        add(groups_key, Some(&*groups).filter(|text| !text.is_empty()));
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
    fn merge_combines_definitions() {
        let mut merged = definition(7, "first", &["z", "b"]);
        let later = Definition { system: true, skip_base_groups: true, ..definition(7, "second", &["a", "b"]) };
        assert_eq!(merged.in_words(), "UID: 7, groups: z,b, comment: first");
        assert!(merged.merge(&later).is_empty());
        assert_eq!(merged.in_words(), "type: system, UID: 7, exact groups: a,b,z, comment: second");
        assert!(merged.merge(&definition(7, "", &[])).is_empty());
        assert_eq!(merged.account.comment.as_deref(), Some("second"));
        let mut bare = Definition::bare(AccountId::parse("user:joe").unwrap());
        bare.merge(&Definition { membership: Membership::Exact, ..bare.clone() });
        assert_eq!(bare.in_words(), "exact groups: none");
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
