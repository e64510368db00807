//! Users and groups, and their attributes.

use std::fmt;

/// The kinds of accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Group,
    User,
}

impl Kind {
    /// All kinds, in the order in which definitions are read.
    pub(crate) const ALL: [Kind; 2] = [Kind::Group, Kind::User];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Group => "group",
            Kind::User => "user",
        }
    }

    pub(crate) fn number_word(self) -> &'static str {
        match self {
            Kind::Group => "GID",
            Kind::User => "UID",
        }
    }

    /// Returns the key of the number in definitions and images.
    pub(crate) fn number_key(self) -> &'static str {
        match self {
            Kind::Group => "gid",
            Kind::User => "uid",
        }
    }
}

/// The ID of a user or group, such as `user:NAME`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AccountId {
    pub(crate) kind: Kind,
    pub(crate) name: String,
}

impl AccountId {
    /// Parses the output of [`fmt::Display`]. Returns `None` for other text and for names that cannot be managed.
    pub(crate) fn parse(text: &str) -> Option<AccountId> {
        let (word, name) = text.split_once(':')?;
        let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word)?;
        check_name(name).ok().map(|()| AccountId { kind, name: name.to_owned() })
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.word(), self.name)
    }
}

/// Checks a name for characters that have a meaning in files and commands. The system's tools have further rules.
///
/// # Errors If the name has a leading sign or contains a separator.
pub(crate) fn check_name(name: &str) -> Result<(), NameError> {
    let is_separator = |letter: char| letter.is_whitespace() || letter.is_control() || ":,/\\'\"".contains(letter);
    if name.starts_with(['-', '+']) {
        Err(NameError::Sign)
    } else if name == "." || name == ".." || name.contains(is_separator) {
        Err(NameError::Separator)
    } else {
        Ok(())
    }
}

/// Why a name cannot be that of a user or group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NameError {
    #[error("a name must not begin with a sign")]
    Sign,
    #[error("a name must not contain blanks, colons, commas, slashes or quotes")]
    Separator,
}

/// The actual or desired attributes of a user or group. An attribute that is not set is unknown, or left to the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) id: AccountId,
    /// The UID or GID.
    pub(crate) number: Option<u32>,
    pub(crate) comment: Option<String>,
    pub(crate) home: Option<String>,
    /// The login group.
    pub(crate) group: Option<String>,
    /// The supplementary groups.
    pub(crate) groups: Vec<String>,
    pub(crate) shell: Option<String>,
}

impl Account {
    /// Returns an account without any attributes.
    pub(crate) fn bare(id: AccountId) -> Account {
        Account { id, number: None, comment: None, home: None, group: None, groups: Vec::new(), shell: None }
    }

    /// Returns true if only the name is known. This is the base of an account that did not exist.
    pub(crate) fn is_bare(&self) -> bool {
        *self == Account::bare(self.id.clone())
    }

    /// Returns the attributes that can conflict, with their names. Comments and supplementary groups cannot.
    pub(crate) fn essentials(&self) -> [(&'static str, Option<String>); 4] {
        [
            (self.id.kind.number_word(), self.number.map(|number| number.to_string())),
            ("home directory", self.home.clone()),
            ("login group", self.group.clone()),
            ("login shell", self.shell.clone()),
        ]
    }

    /// Returns the name and both values of each attribute that is set to different values on both sides, except for comments and
    /// supplementary groups.
    pub(crate) fn conflicts(&self, other: &Account) -> Vec<(&'static str, String, String)> {
        let pairs = self.essentials().into_iter().zip(other.essentials());
        pairs
            .filter_map(|((what, own), (_, others))| Some((what, own?, others?)))
            .filter(|(_, own, others)| own != others)
            .collect()
    }

    /// Fills unset attributes from another account, except for supplementary groups.
    pub(crate) fn fill_single_from(&mut self, other: &Account) {
        self.number = self.number.or(other.number);
        for (own, others) in [
            (&mut self.comment, &other.comment),
            (&mut self.home, &other.home),
            (&mut self.group, &other.group),
            (&mut self.shell, &other.shell),
        ] {
            if own.is_none() {
                own.clone_from(others);
            }
        }
    }

    /// Fills unset attributes from another account.
    pub(crate) fn fill_from(&mut self, other: &Account) {
        self.fill_single_from(other);
        if self.groups.is_empty() {
            self.groups.clone_from(&other.groups);
        }
    }

    /// Fills unset attributes from another account, and adds its supplementary groups.
    pub(crate) fn unite_with(&mut self, other: &Account) {
        self.fill_single_from(other);
        self.groups.extend_from_slice(&other.groups);
        self.sort_groups();
    }

    pub(crate) fn sort_groups(&mut self) {
        self.groups.sort();
        self.groups.dedup();
    }

    /// Returns a message for each attribute of `actual` that differs from this account. Attributes that are not set here are ignored.
    pub(crate) fn differences(&self, actual: &Account) -> Vec<String> {
        let words = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
        let comments = [("comment", self.comment.clone(), actual.comment.clone())];
        let essentials = self.essentials().into_iter().zip(actual.essentials());
        let mut differences: Vec<String> = essentials
            .map(|((what, wanted), (_, actual))| (what, wanted, actual))
            .chain(comments)
            .filter(|(_, wanted, actual)| wanted.is_some() && wanted != actual)
            .map(|(what, wanted, actual)| format!("{what} is {} instead of {}", words(&actual), words(&wanted)))
            .collect();
        if !self.groups.is_empty() && self.groups != actual.groups {
            let listed = |groups: &[String]| if groups.is_empty() { "none".to_owned() } else { groups.join(",") };
            differences.push(format!("groups are {} instead of {}", listed(&actual.groups), listed(&self.groups)));
        }
        differences
    }
}

/// The error message for an account.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct AccountError(pub(crate) String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_round_trips() {
        for text in ["user:joe", "group:wheel", "user:host$", "user:j.doe_2-x"] {
            assert_eq!(AccountId::parse(text).unwrap().to_string(), text);
        }
        for text in
            ["user", "file:/x", "user:a b", "user:-x", "user:..", "user:a/b", "user:a:b", "group:a,b", "user:a\nb"]
        {
            assert_eq!(AccountId::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn differences_name_both_values() {
        let wanted = Account {
            number: Some(7),
            shell: Some("/bin/sh".into()),
            groups: vec!["a".into()],
            ..Account::bare(AccountId::parse("user:x").unwrap())
        };
        let actual = Account { number: Some(8), home: Some("/".into()), ..Account::bare(wanted.id.clone()) };
        assert_eq!(
            wanted.differences(&actual),
            ["UID is 8 instead of 7", "login shell is not set instead of /bin/sh", "groups are none instead of a"]
        );
        assert!(wanted.differences(&wanted).is_empty());
    }
}
