//! Names of hosts, channels, roles and bundles, and how they are written in subjects and keys.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The maximum length of a name in bytes.
const MAX_NAME: usize = 128;

/// A text is not what it should name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {wanted}")]
pub(crate) struct NameError {
    text: String,
    wanted: &'static str,
}

impl NameError {
    pub(crate) fn new(text: &str, wanted: &'static str) -> NameError {
        NameError { text: text.to_owned(), wanted }
    }
}

/// The name of a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(extend("minLength" = 1, "maxLength" = 128, "pattern" = "^[^\\s\\x00-\\x1f\\x7f]+$")))]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Host(String);

/// The name of a channel, a role or a bundle: letters, digits, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(extend("maxLength" = 128, "pattern" = "^[A-Za-z0-9_][A-Za-z0-9_-]*$")))]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Label(String);

/// Returns a name as a single token of a subject: other characters than letters, digits, `-` and `_` are written as `=XX`.
#[must_use]
pub(crate) fn token(name: &str) -> String {
    let mut token = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            token.push(char::from(byte));
        } else {
            token.push_str(&format!("={byte:02X}"));
        }
    }
    token
}

impl Host {
    /// Returns the name of a host.
    ///
    /// # Errors
    /// If it is empty, too long, or contains white space or control characters.
    pub(crate) fn new(name: &str) -> Result<Host, NameError> {
        if name.is_empty() || name.len() > MAX_NAME || name.contains(|c: char| c.is_control() || c.is_whitespace()) {
            return Err(NameError::new(name, "the name of a host"));
        }
        Ok(Host(name.to_owned()))
    }

    /// Returns the name as a single token of a subject.
    #[must_use]
    pub(crate) fn token(&self) -> String {
        token(&self.0)
    }

    /// Returns the host with a token.
    #[must_use]
    pub(crate) fn from_token(token: &str) -> Option<Host> {
        let mut name = Vec::new();
        let mut bytes = token.bytes();
        while let Some(byte) = bytes.next() {
            if byte != b'=' {
                name.push(byte);
                continue;
            }
            let digits = [bytes.next()?, bytes.next()?];
            name.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        }
        Host::new(std::str::from_utf8(&name).ok()?).ok().filter(|host| host.token() == token)
    }

    /// Returns the name.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Label {
    /// Returns a name.
    ///
    /// # Errors
    /// If it is empty or too long, or contains other characters.
    pub(crate) fn new(name: &str) -> Result<Label, NameError> {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || name.len() > MAX_NAME || name.starts_with('-') || !name.bytes().all(is_valid) {
            return Err(NameError::new(name, "a name: it consists of letters, digits, \"-\" and \"_\""));
        }
        Ok(Label(name.to_owned()))
    }

    /// Returns the name.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! text {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::str::FromStr for $name {
            type Err = NameError;

            fn from_str(name: &str) -> Result<$name, NameError> {
                $name::new(name)
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(name: String) -> Result<$name, NameError> {
                $name::new(&name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }
    };
}

text!(Host);
text!(Label);

/// A bundle that was published.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct BundleId {
    pub(crate) name: Label,
    pub(crate) version: String,
    /// The SHA-256 of its file.
    pub(crate) digest: String,
}

impl fmt::Display for BundleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_a_host_is_a_single_one_and_names_it_again() {
        for (name, token) in [("web1", "web1"), ("web1.example.org", "web1=2Eexample=2Eorg"), ("a=b*>", "a=3Db=2A=3E")]
        {
            let host = Host::new(name).unwrap();
            assert_eq!(host.token(), token);
            assert_eq!(Host::from_token(token), Some(host));
        }
        for wrong in ["", "a=", "a=2", "a=zz", "a=2e", "a.b", "a=41"] {
            assert_eq!(Host::from_token(wrong), None, "{wrong}");
        }
        assert!(Host::new("a b").is_err() && Host::new("").is_err() && Label::new("a.b").is_err());
    }
}
