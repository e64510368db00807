//! Services in definitions that are registered with a fleet.

use super::duration;
use holo_protocol::Registration;
use holo_protocol::registration::{self, RegistrationError};
use serde::{Deserialize, Deserializer, de};
use std::collections::BTreeMap;
use std::time::Duration;

#[cfg(feature = "schema")]
use super::DurationSchema;

/// A service that is registered with the fleet.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Service {
    /// The cluster to which it belongs.
    #[serde(deserialize_with = "name")]
    cluster: String,
    /// Its name.
    #[serde(deserialize_with = "name")]
    service: String,
    /// The protocol that it speaks.
    #[serde(deserialize_with = "name")]
    protocol: String,
    /// Its host name or IP address; the name of the host by default.
    #[serde(default, deserialize_with = "address")]
    address: Option<String>,
    /// Its port.
    #[serde(deserialize_with = "port")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    port: u16,
    /// Its place among others of the same service: lower ones come first; 1 by default.
    #[serde(default = "first")]
    priority: u16,
    /// The time after which it expires if the host is lost; one minute by default.
    #[serde(default, deserialize_with = "ttl")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<DurationSchema>"))]
    ttl: Option<Duration>,
    /// Other properties, for those who use the service.
    #[serde(default, deserialize_with = "annotations")]
    annotations: BTreeMap<String, String>,
}

fn first() -> u16 {
    1
}

/// Deserializes a list of services.
pub(super) fn services<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Registration>, D::Error> {
    let registration = |service: Service| {
        let Service { cluster, service, protocol, address, port, priority, ttl, annotations } = service;
        let ttl = ttl.unwrap_or(registration::DEFAULT_TTL).as_secs();
        Registration { cluster, service, protocol, address, port, priority, ttl, annotations }
    };
    Ok(Vec::<Service>::deserialize(deserializer)?.into_iter().map(registration).collect())
}

fn checked<T, E: de::Error>(value: T, check: impl Fn(&T) -> Result<(), RegistrationError>) -> Result<T, E> {
    check(&value).map_err(E::custom).map(|()| value)
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    checked(String::deserialize(deserializer)?, |name| registration::check_name(name))
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    checked(String::deserialize(deserializer)?, |address| registration::check_address(address)).map(Some)
}

fn port<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    checked(u16::deserialize(deserializer)?, |port| if *port == 0 { Err(RegistrationError::Port) } else { Ok(()) })
}

fn ttl<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    checked(duration(deserializer)?, |ttl| registration::check_ttl(ttl.unwrap_or_default().as_secs()))
}

fn annotations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    checked(BTreeMap::deserialize(deserializer)?, registration::check_annotations)
}
