//! What a definition says: `[[archive]]` tables.

use crate::address::Address;
use crate::checksum::Checksum;
use crate::limits::Limits;
use holo_plugin::definitions::{Definition, Invalid, values};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// A download, and where it is extracted to.
#[derive(Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Archive {
    /// Where the download is kept; an absolute path.
    pub(crate) path: String,
    /// Where it comes from: http, https or file.
    pub(crate) url: Option<String>,
    /// Where it comes from if the URL cannot be used, in this order.
    #[serde(default)]
    pub(crate) mirrors: Vec<String>,
    /// What it has to be: `sha256:` or `sha512:` and the digits.
    pub(crate) checksum: Option<String>,
    /// Headers of the request.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// Who asks, where the server wants to know.
    pub(crate) username: Option<String>,
    /// The password of the user.
    pub(crate) password: Option<String>,
    /// A file with the password in its first line.
    pub(crate) password_file: Option<String>,
    /// The directory that it is extracted to; an absolute path.
    pub(crate) extract_to: Option<String>,
    /// How many leading directories names in the archive lose.
    #[serde(default)]
    pub(crate) strip_components: u32,
    /// A path: where it exists, nothing is done.
    pub(crate) creates: Option<String>,
    /// Whether the download is removed after it has been extracted.
    #[serde(default)]
    pub(crate) cleanup: bool,
    /// Who owns the download and what is extracted from it: a name or a number.
    pub(crate) owner: Option<String>,
    /// The group that owns them: a name or a number.
    pub(crate) group: Option<String>,
    /// The mode of the download, such as `0644`.
    pub(crate) mode: Option<String>,
    /// Whether there shall be anything at all.
    #[serde(default)]
    pub(crate) ensure: Ensure,
    /// Whether a check asks the server, too.
    #[serde(default)]
    pub(crate) online: bool,
    /// How many bytes may be downloaded, and extracted, instead of what is usual.
    pub(crate) max_size: Option<u64>,
    /// How many files and directories may be extracted.
    pub(crate) max_entries: Option<u64>,
}

/// Whether there shall be anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ensure {
    /// The download is there, and extracted.
    #[default]
    Present,
    /// Neither the download nor what was extracted from it is there.
    Absent,
}

/// The mode of a download, if nothing is said.
const MODE: u32 = 0o644;

impl Archive {
    pub(crate) fn limits(&self) -> Limits {
        Limits { size: self.max_size, entries: self.max_entries }
    }

    /// The mode of the download. Read when it was validated.
    pub(crate) fn mode(&self) -> u32 {
        self.mode.as_deref().and_then(|mode| values::mode("mode", mode).ok()).unwrap_or(MODE)
    }

    pub(crate) fn checksum(&self) -> Option<Checksum> {
        self.checksum.as_deref().and_then(|text| text.parse().ok())
    }

    /// Where it comes from, the first choice first.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.url.iter().chain(&self.mirrors).filter_map(|url| url.parse().ok()).collect()
    }
}

// A password shall not appear in anything that is printed while looking for a mistake.
impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Definition for Archive {
    const TABLE: &'static str = "archive";
    const KEY: &'static str = "path";

    fn invalid_values(&self) -> Vec<Invalid> {
        let path = |key, path: &Option<String>| path.iter().try_for_each(|path| values::plain(key, path).map(drop));
        let account = |key, name: &Option<String>| name.iter().try_for_each(|name| values::account(key, name));
        let checksum = |text: &String| text.parse::<Checksum>().map(drop);
        let address =
            |key, url: &String| url.parse::<Address>().map(drop).map_err(|problem| Invalid::new(key, problem));
        Invalid::all([
            values::target("path", &self.path).map(drop),
            path("extract_to", &self.extract_to),
            path("creates", &self.creates),
            path("password_file", &self.password_file),
            account("owner", &self.owner),
            account("group", &self.group),
            self.mode.iter().try_for_each(|mode| values::mode("mode", mode).map(drop)),
            self.checksum.iter().try_for_each(checksum).map_err(|problem| Invalid::new("checksum", problem)),
            self.url.iter().try_for_each(|url| address("url", url)),
            self.mirrors.iter().try_for_each(|url| address("mirrors", url)),
            self.validate_headers(),
        ])
    }

    fn validate(&self) -> Result<(), Invalid> {
        self.validate_login()?;
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
        }
        Ok(())
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

    fn validate_headers(&self) -> Result<(), Invalid> {
        for (name, value) in &self.headers {
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(Invalid::new("headers", format!("{name:?} is no name of a header")));
            }
            if OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
                return Err(Invalid::new("headers", format!("{name} is set by the download itself")));
            }
            // What is wrong with the value is not shown: it may be secret.
            if value.bytes().any(|byte| byte != b'\t' && (byte < b' ' || byte == 0x7f)) {
                return Err(Invalid::new("headers", format!("the value of {name} holds control characters")));
            }
        }
        Ok(())
    }
}

/// Headers that a download cannot do without.
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

/// The directory that a path is in, unless it is the root.
pub(crate) fn parent(path: &str) -> Option<&str> {
    Path::new(path).parent()?.to_str().filter(|parent| *parent != "/")
}

#[cfg(test)]
mod tests;
