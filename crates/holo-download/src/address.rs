//! URLs of downloads.

use std::fmt::{self, Display};
use std::path::PathBuf;
use std::str::FromStr;
use url::Url;

/// The URL of a download. It is shown without user, password and query, which may be secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Address(Url);

/// The reason why a URL, or a redirect, is not usable.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// The URL is empty, or contains invalid characters.
    #[error("is empty, or holds spaces or control characters")]
    Characters,
    /// The URL is a path.
    #[error("is not a URL: it does not begin with http://, https:// or file://")]
    NoScheme,
    /// The URL cannot be parsed.
    #[error("is not a URL: {0}")]
    Malformed(url::ParseError),
    /// The URL is that of a directory.
    #[error("it names no file")]
    NoFileName,
    /// The URL starts with `file:`, but is not a path.
    #[error("it is not a path of a file")]
    NotAFilePath,
    /// The URL has no host, or a path has a host.
    #[error("it has no host, or one too many")]
    Host,
    /// The URL has an unsupported scheme.
    #[error("{0} is neither http nor https nor file")]
    Scheme(String),
    /// The URL has a password, but no user.
    #[error("it has a password without a user")]
    NoUser,
    /// The URL has a user, but no password.
    #[error("it has a user without a password")]
    NoPassword,
    /// The redirect cannot be parsed.
    #[error("a redirect to an invalid URL")]
    RedirectToMalformed,
    /// The redirect leads to an invalid address.
    #[error("a redirect to what cannot be: {0}")]
    RedirectToInvalid(Box<AddressError>),
    /// The redirect leads to a local file.
    #[error("a redirect to a file of this machine")]
    RedirectToFile,
    /// The redirect leads to an unencrypted connection.
    #[error("a redirect from https to http")]
    RedirectToHttp,
}

/// The user and password of a request.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name of the user.
    pub username: String,
    /// The password of the user.
    pub password: String,
}

impl Credentials {
    /// Returns the user and password of a URL.
    pub(crate) fn of(url: &Url) -> Option<Credentials> {
        let decoded = |text: &str| String::from_utf8_lossy(&decode(text)).into_owned();
        let password = decoded(url.password()?);
        Some(Credentials { username: decoded(url.username()), password })
    }

    /// Returns the value of the authorization header.
    pub(crate) fn to_header(&self) -> String {
        let Credentials { username, password } = self;
        format!("Basic {}", data_encoding::BASE64.encode(format!("{username}:{password}").as_bytes()))
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        if text.is_empty() || text.contains(|letter: char| letter.is_control() || letter == ' ') {
            return Err(AddressError::Characters);
        }
        let url = Url::parse(text).map_err(|error| match error {
            url::ParseError::RelativeUrlWithoutBase => AddressError::NoScheme,
            error => AddressError::Malformed(error),
        })?;
        Address::allowed(url).and_then(|address| {
            let path = address.0.path();
            if path.is_empty() || path.ends_with('/') { Err(AddressError::NoFileName) } else { Ok(address) }
        })
    }
}

impl Address {
    fn allowed(url: Url) -> Result<Address, AddressError> {
        match url.scheme() {
            "http" | "https" if url.host_str().is_some_and(|host| !host.is_empty()) => {}
            "file" if url.host_str().is_none_or(|host| host.is_empty() || host == "localhost") => {
                if url.query().is_some() || url.to_file_path().is_err() {
                    return Err(AddressError::NotAFilePath);
                }
            }
            "http" | "https" | "file" => return Err(AddressError::Host),
            other => return Err(AddressError::Scheme(other.to_owned())),
        }
        if url.password().is_some() && url.username().is_empty() {
            return Err(AddressError::NoUser);
        }
        if !url.username().is_empty() && url.password().is_none() {
            return Err(AddressError::NoPassword);
        }
        Ok(Address(url))
    }

    /// Returns the path below the root if this is a local file.
    pub fn file(&self) -> Option<PathBuf> {
        if self.0.scheme() == "file" { self.0.to_file_path().ok() } else { None }
    }

    /// Returns the path, decoded.
    pub fn path(&self) -> String {
        String::from_utf8_lossy(&decode(self.0.path())).into_owned()
    }

    /// Returns the URL of a request, without user, password and fragment.
    pub fn request(&self) -> String {
        self.bare().to_string()
    }

    pub(crate) fn bare(&self) -> Url {
        let mut url = self.0.clone();
        // These only fail for URLs without a host, which have no user.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_fragment(None);
        url
    }

    /// Returns the whole URL, for comparison with that of an earlier download. It must be hashed before it is stored.
    pub fn identity(&self) -> &str {
        self.0.as_str()
    }

    /// Returns the user and password of the URL.
    pub fn credentials(&self) -> Option<Credentials> {
        Credentials::of(&self.0)
    }

    /// Returns the address that a redirect leads to.
    pub fn redirected(&self, location: &str) -> Result<Address, AddressError> {
        let url = self.0.join(location).map_err(|_| AddressError::RedirectToMalformed)?;
        let next = Address::allowed(url).map_err(|error| AddressError::RedirectToInvalid(Box::new(error)))?;
        match (self.0.scheme(), next.0.scheme()) {
            (_, "file") => Err(AddressError::RedirectToFile),
            ("https", "http") => Err(AddressError::RedirectToHttp),
            _ => Ok(next),
        }
    }

    /// Returns true if headers and credentials for this address may also be sent to the other one.
    pub fn is_same_server(&self, other: &Address) -> bool {
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

/// Decodes percent-encoded bytes.
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
        let wrong = "https://fred:secret@example.org:port/x".parse::<Address>().unwrap_err().to_string();
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
