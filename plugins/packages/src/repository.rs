//! The definition of a repository, its address, which may contain a user and a password, and its files.

use holo_plugin::definitions::{Definition, Invalid};
use serde::Deserialize;

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepositoryFile {
    /// The absolute path below the root.
    pub(crate) path: String,
    /// The content, or `None` if the file must not exist.
    pub(crate) content: Option<String>,
    /// True if only root may read the file.
    pub(crate) sensitive: bool,
}

impl RepositoryFile {
    /// Creates a file that is world-readable.
    pub(crate) fn new(path: String, content: String) -> RepositoryFile {
        RepositoryFile { path, content: Some(content), sensitive: false }
    }

    /// Creates a file that must not exist.
    pub(crate) fn absent(path: String) -> RepositoryFile {
        RepositoryFile { path, content: None, sensitive: false }
    }
}

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

/// The replacement for secrets.
const HIDDEN: &str = "***";

/// A URL, split into its public and secret parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The URL without user and password.
    pub(crate) plain: String,
    /// The host name, or an empty string for a local directory.
    pub(crate) host: String,
    /// The user and the password, percent-decoded.
    pub(crate) login: Option<(String, String)>,
}

impl Address {
    pub(crate) fn new(uri: &str) -> Address {
        let Some((scheme, rest)) = uri.split_once("://") else {
            return Address { plain: uri.to_owned(), host: String::new(), login: None };
        };
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let (login, place) = match authority.rsplit_once('@') {
            Some((login, place)) => (Some(login.split_once(':').unwrap_or((login, ""))), place),
            None => (None, authority),
        };
        let host = if place.starts_with('[') {
            place.split_inclusive(']').next().unwrap_or(place)
        } else {
            place.split(':').next().unwrap_or(place)
        };
        Address {
            plain: format!("{scheme}://{place}{path}"),
            host: host.to_owned(),
            login: login.map(|(user, password)| (decoded(user), decoded(password))),
        }
    }
}

/// Replaces logins in the URLs of a text.
pub(crate) fn masked(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        shown.push_str(before);
        shown.push_str("://");
        let end = after.find(|letter: char| letter == '/' || letter.is_whitespace() || "'\"".contains(letter));
        let (authority, following) = after.split_at(end.unwrap_or(after.len()));
        match authority.rsplit_once('@') {
            Some((login, host)) => {
                let user = login.split_once(':').map(|(user, _)| format!("{user}:")).unwrap_or_default();
                shown.push_str(&format!("{user}{HIDDEN}@{host}"));
            }
            None => shown.push_str(authority),
        }
        rest = following;
    }
    shown + rest
}

/// Decodes percent-encoded characters.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let number = after.get(..2).filter(|_| first == b'%').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
        });
        bytes.push(number.unwrap_or(first));
        rest = if number.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
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

    #[test]
    fn login_is_separated_from_the_address() {
        let address = Address::new("https://me:p%40ss:w@example.org:8443/debian/");
        assert_eq!(address.plain, "https://example.org:8443/debian/");
        assert_eq!(address.host, "example.org");
        assert_eq!(address.login, Some(("me".to_owned(), "p@ss:w".to_owned())));
        assert_eq!(Address::new("http://[::1]:80/x").host, "[::1]");
        assert_eq!(Address::new("http://token@h/x").login, Some(("token".to_owned(), String::new())));
        for local in ["file:///srv/repo", "copy:/srv/repo", "cdrom:x"] {
            let address = Address::new(local);
            assert_eq!((&*address.plain, &*address.host, address.login), (local, "", None));
        }
        assert_eq!(decoded("100%"), "100%");
        assert_eq!(decoded("%+1%zz"), "%+1%zz");
    }

    #[test]
    fn passwords_are_masked_in_texts() {
        for (said, shown) in [
            ("https://me:secret@h/x", "https://me:***@h/x"),
            ("https://secret@h/x", "https://***@h/x"),
            ("E: https://me:se@cret@h is bad, http://h/a@b is not", "E: https://me:***@h is bad, http://h/a@b is not"),
            ("'https://me:secret@h' \"ftp://a:b@c\"", "'https://me:***@h' \"ftp://a:***@c\""),
            ("nothing", "nothing"),
            ("a://", "a://"),
        ] {
            assert_eq!(masked(said), shown);
        }
    }
}
