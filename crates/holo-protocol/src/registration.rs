//! Services that entities register with a fleet.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// The time to live of a registration that sets none.
pub const DEFAULT_TTL: Duration = Duration::from_secs(60);
/// The range of times to live. A shorter one would be over before it is renewed.
const TTL: std::ops::RangeInclusive<u64> = 3..=30 * 24 * 60 * 60;
/// The maximum number of bytes of a name.
const MAX_NAME: usize = 64;
/// The maximum number of bytes of an address, which is that of a host name.
const MAX_ADDRESS: usize = 253;
/// The maximum number of annotations, and of bytes of the value of one.
const MAX_ANNOTATIONS: usize = 32;
const MAX_VALUE: usize = 256;

/// A service that is published in the registry of a fleet while its entity is in its desired state and healthy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Registration {
    /// The cluster to which it belongs, such as `eu`.
    pub cluster: String,
    /// Its name, such as `web`.
    pub service: String,
    /// The protocol that it speaks, such as `http`.
    pub protocol: String,
    /// Its host name or IP address. `None` for the name of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Its port.
    pub port: u16,
    /// Its place among others of the same service: lower ones come first.
    pub priority: u16,
    /// The number of seconds after which it expires unless it is renewed.
    pub ttl: u64,
    /// Other properties.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A registration with an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    /// A name is empty, too long, or contains other characters.
    #[error("{0:?} is not a name of letters, digits, \"-\", \"_\" and \".\", at most {MAX_NAME} of them")]
    Name(String),
    /// An address is neither a host name nor an IP address.
    #[error("{0:?} is not a host name or an IP address")]
    Address(String),
    /// The port is 0.
    #[error("a port is a number from 1 to 65535")]
    Port,
    /// The time to live is out of range.
    #[error("a registration lasts from {}s to 30d without being renewed", TTL.start())]
    Ttl,
    /// There are too many annotations.
    #[error("there are more than {MAX_ANNOTATIONS} annotations")]
    Annotations,
    /// The value of an annotation is too long, or contains control characters.
    #[error("the annotation {0} is longer than {MAX_VALUE} bytes, or contains control characters")]
    Annotation(String),
    /// It is not a registration at all.
    #[error("expected a registration as JSON")]
    Form,
}

/// Checks the name of a cluster, a service, a protocol or an annotation.
///
/// # Errors
/// If it is not valid.
pub fn check_name(name: &str) -> Result<(), RegistrationError> {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(is_valid);
    if is_name { Ok(()) } else { Err(RegistrationError::Name(name.to_owned())) }
}

/// Checks an address. It ends up in configuration files of other programs, which may give any other character a meaning.
///
/// # Errors
/// If it is not valid.
pub fn check_address(address: &str) -> Result<(), RegistrationError> {
    let is_ip = address.parse::<std::net::IpAddr>().is_ok();
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = !address.starts_with('-') && address.bytes().all(is_valid);
    if !address.is_empty() && address.len() <= MAX_ADDRESS && (is_ip || is_name) {
        Ok(())
    } else {
        Err(RegistrationError::Address(address.to_owned()))
    }
}

/// Checks a time to live in seconds.
///
/// # Errors
/// If it is too short or too long.
pub fn check_ttl(ttl: u64) -> Result<(), RegistrationError> {
    if TTL.contains(&ttl) { Ok(()) } else { Err(RegistrationError::Ttl) }
}

/// Checks the annotations.
///
/// # Errors
/// If there are too many, or one is not valid.
pub fn check_annotations(annotations: &BTreeMap<String, String>) -> Result<(), RegistrationError> {
    if annotations.len() > MAX_ANNOTATIONS {
        return Err(RegistrationError::Annotations);
    }
    annotations.iter().try_for_each(|(name, value)| {
        check_name(name)?;
        let is_valid = value.len() <= MAX_VALUE && !value.contains(char::is_control);
        if is_valid { Ok(()) } else { Err(RegistrationError::Annotation(name.clone())) }
    })
}

impl Registration {
    /// Checks all values.
    ///
    /// # Errors
    /// The first value that is not valid.
    pub fn check(&self) -> Result<(), RegistrationError> {
        [&self.cluster, &self.service, &self.protocol].into_iter().try_for_each(|name| check_name(name))?;
        self.address.as_deref().map_or(Ok(()), check_address)?;
        check_ttl(self.ttl)?;
        check_annotations(&self.annotations)?;
        if self.port == 0 { Err(RegistrationError::Port) } else { Ok(()) }
    }

    /// Returns the time after which it expires unless it is renewed.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        Duration::from_secs(self.ttl)
    }

    /// Parses the value of a line of a scan report.
    pub(crate) fn parse(text: &str) -> Result<Registration, RegistrationError> {
        let registration: Registration = serde_json::from_str(text).map_err(|_| RegistrationError::Form)?;
        registration.check().map(|()| registration)
    }
}

/// Formats it as in a scan report: as JSON, which is a single line.
impl fmt::Display for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_registrations_are_checked() {
        let valid = Registration {
            cluster: "eu".to_owned(),
            service: "web".to_owned(),
            protocol: "http".to_owned(),
            address: Some("fe80::1".to_owned()),
            port: 80,
            priority: 1,
            ttl: 60,
            annotations: [("zone".to_owned(), "a b".to_owned())].into(),
        };
        assert_eq!(Registration::parse(&valid.to_string()), Ok(valid.clone()));
        let wrong = |change: fn(&mut Registration)| {
            let mut wrong = valid.clone();
            change(&mut wrong);
            let error = wrong.check().unwrap_err();
            assert_eq!(Registration::parse(&wrong.to_string()), Err(error.clone()));
            error
        };
        assert_eq!(wrong(|of| of.cluster.clear()), RegistrationError::Name(String::new()));
        assert_eq!(wrong(|of| of.service = "a b".to_owned()), RegistrationError::Name("a b".to_owned()));
        assert_eq!(wrong(|of| of.protocol = "x".repeat(65)), RegistrationError::Name("x".repeat(65)));
        for address in ["", "a b", "a;b", "-x", "a:1", "[::1]", "a\nb"] {
            assert_eq!(check_address(address), Err(RegistrationError::Address(address.to_owned())));
        }
        assert_eq!(wrong(|of| of.port = 0), RegistrationError::Port);
        assert_eq!(wrong(|of| of.ttl = 2), RegistrationError::Ttl);
        assert_eq!(wrong(|of| of.ttl = u64::MAX), RegistrationError::Ttl);
        let zone = |value: &str| [("zone".to_owned(), value.to_owned())].into();
        assert_eq!(check_annotations(&zone("a\nb")), Err(RegistrationError::Annotation("zone".to_owned())));
        assert_eq!(check_annotations(&zone(&"x".repeat(257))), Err(RegistrationError::Annotation("zone".to_owned())));
        let many = (0..33).map(|number| (number.to_string(), String::new())).collect();
        assert_eq!(check_annotations(&many), Err(RegistrationError::Annotations));
        assert_eq!(Registration::parse("{}"), Err(RegistrationError::Form));
    }
}
