//! The definitions of repositories.

use super::address::Address;
use holo_plugin::definitions::{Definition, Invalid};
use serde::Deserialize;

const ARMOR: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";

/// A table `[[repository]]`.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Repository {
    /// The name of the repository, which its files have.
    pub(crate) name: String,
    /// True unless it shall not be there.
    #[serde(default)]
    pub(crate) ensure: Presence,
    /// The addresses that have the same packages, in the order in which they are tried.
    #[serde(default)]
    pub(crate) uris: Vec<String>,
    /// The suites, for apt; one that ends with a slash is the path of a repository without components.
    #[serde(default)]
    pub(crate) suites: Vec<String>,
    /// The components, for apt.
    #[serde(default)]
    pub(crate) components: Vec<String>,
    /// The architectures, for apt; the system's own if nothing is said.
    #[serde(default)]
    pub(crate) architectures: Vec<String>,
    /// The key that the repository is signed by: the path of a file, or the key itself.
    #[serde(default)]
    pub(crate) signed_by: Option<String>,
    /// True if its packages are installed without any signature.
    #[serde(default)]
    pub(crate) trusted: bool,
    /// The priority of its packages, as the package manager counts it.
    #[serde(default)]
    pub(crate) pin: Option<i32>,
}

/// The answer to whether a repository is to be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Presence {
    /// It is.
    #[default]
    Present,
    /// It is not.
    Absent,
}

/// The key that a repository is signed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key<'r> {
    /// A file that has it.
    Path(&'r str),
    /// The key itself.
    Text(&'r str),
}

impl Repository {
    /// Returns true if it shall not be there.
    pub(crate) fn is_gone(&self) -> bool {
        self.ensure == Presence::Absent
    }

    /// Returns the key that it is signed by.
    pub(crate) fn key(&self) -> Option<Key<'_>> {
        let key = self.signed_by.as_deref()?;
        Some(if key.starts_with('/') { Key::Path(key) } else { Key::Text(key.trim()) })
    }

    /// Returns its addresses.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        self.uris.iter().map(|uri| Address::new(uri))
    }

    /// Returns true if somebody may not see one of its addresses.
    pub(crate) fn has_login(&self) -> bool {
        self.addresses().any(|address| address.login.is_some())
    }

    /// Fails if it has a key that is for other package managers.
    ///
    /// # Errors
    /// The first of these keys that it has, and the reason why this manager has no use for it.
    pub(crate) fn refuse(&self, manager: &str, keys: &[(&'static str, &str)]) -> Result<(), Invalid> {
        let has = |key: &str| match key {
            "suites" => !self.suites.is_empty(),
            "components" => !self.components.is_empty(),
            "architectures" => !self.architectures.is_empty(),
            "signed_by" => self.signed_by.is_some(),
            "pin" => self.pin.is_some(),
            _ => false,
        };
        let refused = keys.iter().find(|(key, _)| has(key));
        refused.map_or(Ok(()), |(key, why)| Err(Invalid::new(*key, format!("{manager} {why}"))))
    }
}

impl Definition for Repository {
    const TABLE: &'static str = "repository";

    fn invalid_values(&self) -> Vec<Invalid> {
        let words =
            [("suites", &self.suites), ("components", &self.components), ("architectures", &self.architectures)];
        let words = words.into_iter().flat_map(|(key, words)| words.iter().map(move |word| validate_word(key, word)));
        let uris = self.uris.iter().map(|uri| validate_uri(uri));
        let key = self.signed_by.as_deref().map_or(Ok(()), validate_key);
        Invalid::all([validate_name(&self.name), key].into_iter().chain(words).chain(uris))
    }

    fn validate(&self) -> Result<(), Invalid> {
        if self.ensure == Presence::Present && self.uris.is_empty() {
            return Err(Invalid::new("uris", "is missing"));
        }
        if self.trusted && self.signed_by.is_some() {
            return Err(Invalid::new("trusted", "a repository that is trusted without a signature needs no signed_by"));
        }
        Ok(())
    }
}

/// The name becomes that of files, which apt reads only if it has no other letters.
fn validate_name(name: &str) -> Result<(), Invalid> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    if name.starts_with(|letter: char| letter.is_ascii_alphanumeric()) && name.chars().all(fits) {
        return Ok(());
    }
    let why = "it can only be of letters, digits and ._-, and has to begin with a letter or digit";
    Err(Invalid::new("name", format!("{name:?} is not a name of a repository: {why}")))
}

fn validate_word(key: &'static str, word: &str) -> Result<(), Invalid> {
    let is_word = |letter: char| letter.is_ascii_graphic() && !"#[]".contains(letter);
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(is_word) {
        return Ok(());
    }
    Err(Invalid::new(key, format!("{word:?} is not one word")))
}

/// The address itself is not shown: it may have a password in it.
fn validate_uri(uri: &str) -> Result<(), Invalid> {
    let wrong = |why: &str| Err(Invalid::new("uris", why));
    let Some((scheme, rest)) = uri.split_once(':') else {
        return wrong("an address has to begin with https: or the like");
    };
    let is_scheme = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    if !scheme.starts_with(|letter: char| letter.is_ascii_alphabetic()) || !scheme.chars().all(is_scheme) {
        return wrong("an address has to begin with https: or the like");
    }
    if rest.is_empty() || !uri.chars().all(|letter| letter.is_ascii_graphic()) {
        return wrong("an address has to be one word of ASCII letters, with others as %20 and the like");
    }
    let is_bad =
        |text: &str| text.is_empty() || text.contains(|letter: char| letter.is_whitespace() || letter.is_control());
    match Address::new(uri).login {
        Some((user, password)) if is_bad(&user) || !password.is_empty() && is_bad(&password) => {
            wrong("the user and the password in an address cannot have blanks in them")
        }
        _ => Ok(()),
    }
}

fn validate_key(key: &str) -> Result<(), Invalid> {
    let is_path = key.starts_with('/') && !key.chars().any(|letter| letter.is_whitespace() || letter.is_control());
    if is_path || key.trim_start().starts_with(ARMOR) {
        return Ok(());
    }
    Err(Invalid::new("signed_by", format!("is neither an absolute path nor a key, which begins with {ARMOR}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(definition: &str) -> Option<String> {
        let repository: Repository = toml::from_str(definition).unwrap();
        repository.invalid().first().map(ToString::to_string)
    }

    #[test]
    fn no_value_can_become_another_line_or_option() {
        let with = |more: &str| problem(&format!("name = 'x'\nuris = ['https://h/']\n{more}"));
        assert_eq!(with(""), None);
        assert_eq!(with("suites = ['./', 'stable', 'bookworm-backports']\ncomponents = ['main']"), None);
        assert_eq!(with("signed_by = '/usr/share/keyrings/x.gpg'"), None);
        assert_eq!(with(&format!("signed_by = '''\n{ARMOR}\n\nx\n'''")), None);
        for wrong in [
            "suites = ['a b']",
            "suites = [\"a\\nTrusted: yes\"]",
            "components = ['']",
            "architectures = ['-x']",
            "components = ['[trusted=yes]']",
            "signed_by = 'x.gpg'",
            "signed_by = \"/x\\nTrusted: yes\"",
            "trusted = true\nsigned_by = '/x'",
        ] {
            assert!(with(wrong).is_some(), "{wrong}");
        }
        for wrong in ["../x", "a b", "", ".x", "a/b", "ä"] {
            assert!(problem(&format!("name = '{wrong}'\nuris = ['https://h/']")).is_some(), "{wrong}");
        }
        for wrong in ["/srv", "h/x", "https://h/\\nx", "https://a%0a:b@h/", "https://a:b%20c@h/", "https:", "1:x"] {
            let problem = problem(&format!("name = 'x'\nuris = [\"{wrong}\"]"));
            assert!(problem.is_some_and(|problem| !problem.contains("b%20c")), "{wrong}");
        }
        assert_eq!(problem("name = 'x'"), Some("uris: is missing".to_owned()));
        assert_eq!(problem("name = 'x'\nensure = 'absent'"), None);
    }
}
