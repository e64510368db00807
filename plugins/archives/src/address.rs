//! URLs: what is allowed, and what of them may be shown.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use url::Url;

/// Where a download comes from. What is shown of it has neither user nor password nor query, as those may be secrets.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address(Url);

/// Who asks.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) username: String,
    pub(crate) password: String,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let hidden = "is no URL";
        if text.is_empty() || text.contains(|letter: char| letter.is_control() || letter == ' ') {
            return Err("is empty, or holds spaces or control characters".to_owned());
        }
        let url = Url::parse(text).map_err(|error| match error {
            url::ParseError::RelativeUrlWithoutBase => {
                "is no URL: it does not begin with http://, https:// or file://".to_owned()
            }
            error => format!("{hidden}: {error}"),
        })?;
        Address::allowed(url).and_then(|address| {
            let path = address.0.path();
            if path.is_empty() || path.ends_with('/') { Err("it names no file".to_owned()) } else { Ok(address) }
        })
    }
}

impl Address {
    fn allowed(url: Url) -> Result<Address, String> {
        match url.scheme() {
            "http" | "https" if url.host_str().is_some_and(|host| !host.is_empty()) => {}
            "file" if url.host_str().is_none_or(|host| host.is_empty() || host == "localhost") => {
                if url.query().is_some() || url.to_file_path().is_err() {
                    return Err("it is no path of a file".to_owned());
                }
            }
            "http" | "https" | "file" => return Err("it has no host, or one too many".to_owned()),
            other => return Err(format!("{other} is neither http nor https nor file")),
        }
        if url.password().is_some() && url.username().is_empty() {
            return Err("it has a password without a user".to_owned());
        }
        if !url.username().is_empty() && url.password().is_none() {
            return Err("it has a user without a password".to_owned());
        }
        Ok(Address(url))
    }

    /// The path below the root, if it is a file of this machine.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        if self.0.scheme() == "file" { self.0.to_file_path().ok() } else { None }
    }

    /// What a request asks for: the URL without user, password and fragment.
    pub(crate) fn request(&self) -> String {
        self.bare().to_string()
    }

    fn bare(&self) -> Url {
        let mut url = self.0.clone();
        // These fail for URLs without a host only, which have no user.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        url
    }

    /// Everything, for comparing it with what was asked for earlier. To be hashed before it is kept.
    pub(crate) fn identity(&self) -> &str {
        self.0.as_str()
    }

    /// User and password in the URL.
    pub(crate) fn credentials(&self) -> Option<Credentials> {
        let decoded = |text: &str| String::from_utf8_lossy(&decode(text)).into_owned();
        let password = decoded(self.0.password()?);
        Some(Credentials { username: decoded(self.0.username()), password })
    }

    /// Where a redirect leads.
    pub(crate) fn redirected(&self, location: &str) -> Result<Address, String> {
        let url = self.0.join(location).map_err(|_| "a redirect to what is no URL".to_owned())?;
        let next = Address::allowed(url).map_err(|problem| format!("a redirect to what cannot be: {problem}"))?;
        match (self.0.scheme(), next.0.scheme()) {
            (_, "file") => Err("a redirect to a file of this machine".to_owned()),
            ("https", "http") => Err("a redirect from https to http".to_owned()),
            _ => Ok(next),
        }
    }

    /// Whether what was meant for this server may be sent to that one too.
    pub(crate) fn is_same_server(&self, other: &Address) -> bool {
        self.0.origin() == other.0.origin()
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut url = self.bare();
        let query = if url.query().is_some() { "?…" } else { "" };
        url.set_query(None);
        write!(f, "{url}{query}")
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Undoes the encoding of user and password.
fn decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::new();
    let mut index = 0;
    while let Some(&byte) = bytes.get(index) {
        let encoded = text.get(index + 1..index + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match encoded.filter(|_| byte == b'%') {
            Some(value) => {
                decoded.push(value);
                index += 3;
            }
            None => {
                decoded.push(byte);
                index += 1;
            }
        }
    }
    decoded
}

/// Whether a path is another one, or below it.
pub(crate) fn is_below(path: &str, folder: &str) -> bool {
    Path::new(path).starts_with(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn secrets_are_not_shown() {
        let secret = address("https://fred:s%3acret@example.org:8443/a/b.tgz?token=abc#part");
        assert_eq!(secret.to_string(), "https://example.org:8443/a/b.tgz?…");
        assert_eq!(format!("{secret:?}"), secret.to_string());
        assert_eq!(secret.request(), "https://example.org:8443/a/b.tgz?token=abc");
        let credentials = secret.credentials().unwrap();
        assert_eq!((&*credentials.username, &*credentials.password), ("fred", "s:cret"));
        let wrong = "https://fred:secret@example.org:port/x".parse::<Address>().unwrap_err();
        assert!(!wrong.contains("secret"), "{wrong}");
    }

    #[test]
    fn redirects_lead_no_lower() {
        let from = address("https://example.org/a/b");
        assert_eq!(from.redirected("../c").unwrap().to_string(), "https://example.org/c");
        assert!(from.is_same_server(&from.redirected("/x").unwrap()));
        assert!(!from.is_same_server(&from.redirected("https://example.org:444/x").unwrap()));
        assert!(!from.is_same_server(&from.redirected("//other.example/x").unwrap()));
        for wrong in ["http://example.org/c", "file:///etc/passwd", "ftp://example.org/c", "http://"] {
            assert!(from.redirected(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn files_are_paths() {
        assert_eq!(address("file:///srv/a%20b.tar").file(), Some(PathBuf::from("/srv/a b.tar")));
        assert_eq!(address("http://localhost/x").file(), None);
        for wrong in ["file://host/x", "file:x/../", "file:///x?y", "file:///"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }
}
