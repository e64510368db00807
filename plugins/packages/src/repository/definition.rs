//! The definitions of repositories.

use super::address::Address;
use holo_plugin::definitions::{Definition, Invalid};
use serde::Deserialize;

const ARMOR: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";

/// A `[[repository]]` table.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Repository {
    /// The name of the repository, which is part of its file names.
    pub(crate) name: String,
    /// Whether the repository is configured.
    #[serde(default)]
    pub(crate) ensure: Presence,
    /// The URLs of the repository and its mirrors, in the order in which they are tried.
    #[serde(default)]
    pub(crate) uris: Vec<String>,
    /// The suites (apt only). A suite that ends with a slash is the path of a repository without components.
    #[serde(default)]
    pub(crate) suites: Vec<String>,
    /// The components (apt only).
    #[serde(default)]
    pub(crate) components: Vec<String>,
    /// The architectures (apt only). The default is those of the system.
    #[serde(default)]
    pub(crate) architectures: Vec<String>,
    /// The key that signs the repository: the path of a file, or the armored key itself.
    #[serde(default)]
    pub(crate) signed_by: Option<String>,
    /// Whether to install its packages without checking signatures.
    #[serde(default)]
    pub(crate) trusted: bool,
    /// The priority of its packages, on the scale of the package manager.
    #[serde(default)]
    pub(crate) pin: Option<i32>,
}

/// Whether a repository is configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Presence {
    /// The repository is configured.
    #[default]
    Present,
    /// The repository is removed.
    Absent,
}

/// The key that signs a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key<'r> {
    /// The path of a key file.
    Path(&'r str),
    /// The armored key.
    Text(&'r str),
}

impl Repository {
    /// Returns true if the repository must not exist.
    pub(crate) fn is_gone(&self) -> bool {
        self.ensure == Presence::Absent
    }

    /// Returns the key that signs the repository.
    pub(crate) fn key(&self) -> Option<Key<'_>> {
        let key = self.signed_by.as_deref()?;
        Some(if key.starts_with('/') { Key::Path(key) } else { Key::Text(key.trim()) })
    }

    /// Returns the parsed URLs.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        self.uris.iter().map(|uri| Address::new(uri))
    }

    /// Returns true if a URL contains a login.
    pub(crate) fn has_login(&self) -> bool {
        self.addresses().any(|address| address.login.is_some())
    }

    /// Checks that no key is set that this package manager does not support.
    ///
    /// # Errors The first such key, with the reason.
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

/// Validates the name, which becomes part of file names. apt ignores files with other characters in their names.
fn validate_name(name: &str) -> Result<(), Invalid> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    if name.starts_with(|letter: char| letter.is_ascii_alphanumeric()) && name.chars().all(fits) {
        return Ok(());
    }
    let why = "it must consist of letters, digits and ._- and begin with a letter or digit";
    Err(Invalid::new("name", format!("{name:?} is not a valid repository name: {why}")))
}

fn validate_word(key: &'static str, word: &str) -> Result<(), Invalid> {
    let is_word = |letter: char| letter.is_ascii_graphic() && !"#[]".contains(letter);
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(is_word) {
        return Ok(());
    }
    Err(Invalid::new(key, format!("{word:?} is not one word")))
}

/// Validates a URL. It is not shown in errors because it may contain a password.
fn validate_uri(uri: &str) -> Result<(), Invalid> {
    let wrong = |why: &str| Err(Invalid::new("uris", why));
    let Some((scheme, rest)) = uri.split_once(':') else {
        return wrong("an address must begin with a scheme such as https:");
    };
    let is_scheme = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    if !scheme.starts_with(|letter: char| letter.is_ascii_alphabetic()) || !scheme.chars().all(is_scheme) {
        return wrong("an address must begin with a scheme such as https:");
    }
    if rest.is_empty() || !uri.chars().all(|letter| letter.is_ascii_graphic()) {
        return wrong(
            "an address must consist of printable ASCII characters without blanks; encode others, such as %20",
        );
    }
    let is_bad =
        |text: &str| text.is_empty() || text.contains(|letter: char| letter.is_whitespace() || letter.is_control());
    match Address::new(uri).login {
        Some((user, password)) if is_bad(&user) || !password.is_empty() && is_bad(&password) => {
            wrong("the user and the password in an address must not contain blanks")
        }
        _ => Ok(()),
    }
}

fn validate_key(key: &str) -> Result<(), Invalid> {
    let is_path = key.starts_with('/') && !key.chars().any(|letter| letter.is_whitespace() || letter.is_control());
    if is_path || key.trim_start().starts_with(ARMOR) {
        return Ok(());
    }
    Err(Invalid::new("signed_by", format!("is neither an absolute path nor an armored key, which begins with {ARMOR}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(definition: &str) -> Option<String> {
        let repository: Repository = toml::from_str(definition).unwrap();
        repository.invalid().first().map(ToString::to_string)
    }

    #[test]
    fn values_that_break_the_file_format_are_refused() {
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
