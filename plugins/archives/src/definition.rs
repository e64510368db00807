//! Definitions: `[[archive]]` tables.

use crate::limits::Limits;
use crate::signature::{Signer, validate_key};
use holo_download::{Address, Checksum};
use holo_plugin::definitions::{Definition, Invalid, values};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// A download, and the directory to which it is extracted.
#[derive(Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Archive {
    /// The absolute path of the download.
    pub(crate) path: String,
    /// The URL to download from: http, https or file.
    pub(crate) url: Option<String>,
    /// Alternative URLs, tried in this order if the URL cannot be used.
    #[serde(default)]
    pub(crate) mirrors: Vec<String>,
    /// The checksum of the download: `sha256:` or `sha512:` and the digits.
    pub(crate) checksum: Option<String>,
    /// The URL of a checksum list that contains the download.
    pub(crate) checksum_url: Option<String>,
    /// The URL of a signature of the checksum list, or of the download if there is no list.
    pub(crate) signature_url: Option<String>,
    /// The minisign public key that must verify the signature.
    pub(crate) minisign_key: Option<String>,
    /// A file with OpenPGP keys, one of which must have made the signature.
    pub(crate) keyring: Option<String>,
    /// Additional headers of the request.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// The user name for the server.
    pub(crate) username: Option<String>,
    /// The password of the user.
    pub(crate) password: Option<String>,
    /// A file with the password in its first line.
    pub(crate) password_file: Option<String>,
    /// A file with PEM certificates that are trusted instead of the system's.
    pub(crate) ca_file: Option<String>,
    /// The absolute path of the directory to which the download is extracted.
    pub(crate) extract_to: Option<String>,
    /// The number of leading directories that are removed from names in the archive.
    #[serde(default)]
    pub(crate) strip_components: u32,
    /// Patterns for the entries that are extracted; by default, all are.
    #[serde(default)]
    pub(crate) include: Vec<String>,
    /// Patterns for entries that are not extracted.
    #[serde(default)]
    pub(crate) exclude: Vec<String>,
    /// Patterns for files that are kept if they existed before, or were changed by a user.
    #[serde(default)]
    pub(crate) keep: Vec<String>,
    /// A path; if it exists, the archive is neither downloaded nor extracted.
    pub(crate) creates: Option<String>,
    /// True if the download is removed after it has been extracted.
    #[serde(default)]
    pub(crate) cleanup: bool,
    /// The owner of the download and the extracted files: a name or a number.
    pub(crate) owner: Option<String>,
    /// The group of the download and the extracted files: a name or a number.
    pub(crate) group: Option<String>,
    /// The mode of the download, such as `0644`.
    pub(crate) mode: Option<String>,
    /// The desired state: `present` or `absent`.
    #[serde(default)]
    pub(crate) ensure: Ensure,
    /// True if a check contacts the server.
    #[serde(default)]
    pub(crate) online: bool,
    /// The maximum number of bytes to download, and to extract, instead of the default limits.
    pub(crate) max_size: Option<u64>,
    /// The maximum number of files and directories to extract.
    pub(crate) max_entries: Option<u64>,
}

/// The desired state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ensure {
    /// The download exists, and is extracted.
    #[default]
    Present,
    /// Neither the download nor its extracted files exist.
    Absent,
}

/// The default mode of a download.
const MODE: u32 = 0o644;

impl Archive {
    pub(crate) fn limits(&self) -> Limits {
        Limits { size: self.max_size, entries: self.max_entries }
    }

    /// Returns the mode of the download, whose syntax was validated.
    pub(crate) fn mode(&self) -> u32 {
        self.mode.as_deref().and_then(|mode| values::mode("mode", mode).ok()).unwrap_or(MODE)
    }

    pub(crate) fn checksum(&self) -> Option<Checksum> {
        self.checksum.as_deref().and_then(|text| text.parse().ok())
    }

    /// Returns the URL of the checksum list.
    pub(crate) fn checksum_list(&self) -> Option<Address> {
        self.checksum_url.as_deref().and_then(|url| url.parse().ok())
    }

    /// Returns the URL of the signature.
    pub(crate) fn signature(&self) -> Option<Address> {
        self.signature_url.as_deref().and_then(|url| url.parse().ok())
    }

    /// Returns the required signer of the download or its checksum list.
    pub(crate) fn signer(&self) -> Option<Signer<'_>> {
        let minisign = self.minisign_key.as_deref().map(Signer::Minisign);
        minisign.or_else(|| self.keyring.as_deref().map(Signer::Keyring))
    }

    /// Returns the URL and the mirrors.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.url.iter().chain(&self.mirrors).filter_map(|url| url.parse().ok()).collect()
    }
}

// Passwords are omitted.
impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Definition for Archive {
    const TABLE: &'static str = "archive";
    const KEY: &'static str = "path";
    const SECRETS: &'static [&'static str] = &["headers", "password"];

    fn invalid_values(&self) -> Vec<Invalid> {
        let path = |key, path: &Option<String>| path.iter().try_for_each(|path| values::plain(key, path).map(drop));
        let account = |key, name: &Option<String>| name.iter().try_for_each(|name| values::account(key, name));
        let checksum = |text: &String| text.parse::<Checksum>().map(drop);
        let address = |key, url: &String| {
            url.parse::<Address>().map(drop).map_err(|problem| Invalid::new(key, problem.to_string()))
        };
        Invalid::all([
            values::target("path", &self.path).map(drop),
            path("extract_to", &self.extract_to),
            path("creates", &self.creates),
            path("password_file", &self.password_file),
            path("ca_file", &self.ca_file),
            path("keyring", &self.keyring),
            self.checksum_url.iter().try_for_each(|url| address("checksum_url", url)),
            self.signature_url.iter().try_for_each(|url| address("signature_url", url)),
            self.minisign_key.iter().try_for_each(|key| {
                validate_key(key).map_err(|problem| Invalid::new("minisign_key", problem.to_string()))
            }),
            account("owner", &self.owner),
            account("group", &self.group),
            self.mode.iter().try_for_each(|mode| values::mode("mode", mode).map(drop)),
            self.checksum
                .iter()
                .try_for_each(checksum)
                .map_err(|problem| Invalid::new("checksum", problem.to_string())),
            self.url.iter().try_for_each(|url| address("url", url)),
            self.mirrors.iter().try_for_each(|url| address("mirrors", url)),
            validate_globs("include", &self.include),
            validate_globs("exclude", &self.exclude),
            validate_globs("keep", &self.keep),
            self.validate_headers(),
        ])
    }

    fn validate(&self) -> Result<(), Invalid> {
        self.validate_login()?;
        self.validate_authenticity()?;
        if self.ensure == Ensure::Present && self.url.is_none() {
            return Err(Invalid::new("url", "is missing"));
        }
        if self.extract_to.is_none() {
            if self.cleanup {
                return Err(Invalid::new("cleanup", "needs extract_to: nothing would be left without it"));
            }
            if self.strip_components > 0 {
                return Err(Invalid::new("strip_components", "needs extract_to"));
            }
            for (key, globs) in [("include", &self.include), ("exclude", &self.exclude), ("keep", &self.keep)] {
                if !globs.is_empty() {
                    return Err(Invalid::new(key, "needs extract_to"));
                }
            }
        }
        Ok(())
    }
}

/// Fails for an invalid pattern, and for one that cannot match any path.
fn validate_globs(key: &'static str, globs: &[String]) -> Result<(), Invalid> {
    values::globs(key, globs)?;
    match globs.iter().find(|glob| glob.starts_with('/') || glob.starts_with("./")) {
        Some(glob) => {
            Err(Invalid::new(key, format!("{glob:?} is for no path: they begin below extract_to, without ./")))
        }
        None => Ok(()),
    }
}

impl Archive {
    fn validate_login(&self) -> Result<(), Invalid> {
        let addresses = self.url.iter().chain(&self.mirrors).filter_map(|url| url.parse::<Address>().ok());
        let in_url = addresses.into_iter().any(|address| address.credentials().is_some());
        match (&self.username, &self.password, &self.password_file) {
            (None, None, None) | (Some(_), Some(_), None) | (Some(_), None, Some(_)) => {}
            (Some(_), None, None) => return Err(Invalid::new("username", "needs a password or password_file")),
            (_, Some(_), Some(_)) => {
                return Err(Invalid::new("password", "cannot be given together with password_file"));
            }
            (None, Some(_), None) => return Err(Invalid::new("password", "needs a username")),
            (None, None, Some(_)) => return Err(Invalid::new("password_file", "needs a username")),
        }
        if let Some(name) = &self.username {
            if name.is_empty() || name.contains(':') || name.contains(char::is_control) {
                return Err(Invalid::new("username", "is empty, or holds a colon or control characters"));
            }
            if in_url {
                return Err(Invalid::new("username", "cannot be given together with one in the URL"));
            }
        }
        Ok(())
    }

    fn validate_authenticity(&self) -> Result<(), Invalid> {
        if self.checksum.is_some() && self.checksum_url.is_some() {
            return Err(Invalid::new("checksum_url", "cannot be given together with checksum"));
        }
        match (&self.signature_url, &self.minisign_key, &self.keyring) {
            (None, None, None) | (Some(_), Some(_), None) | (Some(_), None, Some(_)) => Ok(()),
            (Some(_), None, None) => Err(Invalid::new("signature_url", "needs minisign_key or keyring")),
            (_, Some(_), Some(_)) => Err(Invalid::new("keyring", "cannot be given together with minisign_key")),
            (None, Some(_), None) => Err(Invalid::new("minisign_key", "needs signature_url")),
            (None, None, Some(_)) => Err(Invalid::new("keyring", "needs signature_url")),
        }
    }

    fn validate_headers(&self) -> Result<(), Invalid> {
        for (name, value) in &self.headers {
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(Invalid::new("headers", format!("{name:?} is not a valid header name")));
            }
            if OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
                return Err(Invalid::new("headers", format!("{name} is set by the download itself")));
            }
            // The value is not displayed, because it may be secret.
            if value.bytes().any(|byte| byte != b'\t' && (byte < b' ' || byte == 0x7f)) {
                return Err(Invalid::new("headers", format!("the value of {name} contains control characters")));
            }
        }
        Ok(())
    }
}

/// Headers that the download sets itself.
const OURS: [&str; 9] = [
    "accept-encoding",
    "connection",
    "content-length",
    "host",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "range",
    "transfer-encoding",
];

/// Returns the parent of a path, unless it is the root.
pub(crate) fn parent(path: &str) -> Option<&str> {
    Path::new(path).parent()?.to_str().filter(|parent| *parent != "/")
}

#[cfg(test)]
mod tests;
