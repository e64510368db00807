//! Conversions from the types of the plugin interface.

use crate::{Action, HealthState, Level, Stream, Text, is_false};
use bstr::BString;
use holo_protocol::{Registration, session};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

impl<'a> From<&'a holo_protocol::Action> for Action<'a> {
    fn from(action: &'a holo_protocol::Action) -> Self {
        Action { verb: (&action.verb).into(), reason: action.reason.as_ref().map(Text::from) }
    }
}

impl<'a> From<&'a holo_protocol::Edges> for Edges<'a> {
    fn from(edges: &'a holo_protocol::Edges) -> Self {
        let texts = |list: &'a [BString]| list.iter().map(Text::from).collect();
        let assets = |list: &'a [holo_protocol::Asset]| {
            list.iter().map(|asset| Asset { kind: (&asset.kind).into(), value: (&asset.value).into() }).collect()
        };
        Edges {
            after: texts(&edges.after),
            before: texts(&edges.before),
            requires: texts(&edges.requires),
            subscribes: texts(&edges.subscribes),
            notifies: texts(&edges.notifies),
            provides: assets(&edges.provides),
            needs: assets(&edges.needs),
            owns: assets(&edges.owns),
            watch: texts(&edges.watch),
            orphan: edges.orphan,
        }
    }
}

impl From<&holo_protocol::Controls> for Controls {
    fn from(controls: &holo_protocol::Controls) -> Self {
        Controls {
            noop: controls.noop,
            poll: controls.poll.map(|poll| poll.as_secs_f64()),
            limit: controls.limit.as_ref().map(ToString::to_string),
            semaphore: controls.semaphore.as_ref().map(ToString::to_string),
            schedule: controls.schedule.as_ref().map(ToString::to_string),
            register: controls.register.clone(),
        }
    }
}

impl From<holo_protocol::Level> for Level {
    fn from(level: holo_protocol::Level) -> Self {
        match level {
            holo_protocol::Level::Ok => Level::Ok,
            holo_protocol::Level::Warning => Level::Warning,
            holo_protocol::Level::Error => Level::Error,
        }
    }
}

impl From<holo_protocol::HealthState> for HealthState {
    fn from(state: holo_protocol::HealthState) -> Self {
        match state {
            holo_protocol::HealthState::Ok => HealthState::Ok,
            holo_protocol::HealthState::Warning => HealthState::Warning,
            holo_protocol::HealthState::Unknown => HealthState::Unknown,
            holo_protocol::HealthState::Critical => HealthState::Critical,
        }
    }
}

impl From<session::Stream> for Stream {
    fn from(stream: session::Stream) -> Self {
        match stream {
            session::Stream::Stdout => Stream::Stdout,
            session::Stream::Stderr => Stream::Stderr,
        }
    }
}

#[cfg(test)]
use schemars::JsonSchema;

/// An entity's edges, as declared by its plugin. Empty ones are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Edges<'a> {
    /// The IDs of entities that it comes after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Text<'a>>,
    /// The IDs of entities that it comes before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Text<'a>>,
    /// The IDs of entities that must be in their desired state first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<Text<'a>>,
    /// The IDs of entities that refresh it when they change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subscribes: Vec<Text<'a>>,
    /// The IDs of entities that it refreshes when it changes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notifies: Vec<Text<'a>>,
    /// The assets that it provides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provides: Vec<Asset<'a>>,
    /// The assets that it needs from other entities.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Asset<'a>>,
    /// The assets that only it may define.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owns: Vec<Asset<'a>>,
    /// Paths where a change may mean drift.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<Text<'a>>,
    /// True if the entity has no definition any more.
    #[serde(default, skip_serializing_if = "is_false")]
    pub orphan: bool,
}

/// Limits on when, and how often, an entity may be checked or changed, in the forms of scan reports, and the services that it
/// registers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Controls {
    /// True if the entity is only checked, never changed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub noop: bool,
    /// The interval in seconds at which a watch checks the entity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll: Option<f64>,
    /// The maximum number of repairs by a watch in a period, such as `3/10m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// A name, and the maximum number of entities with this name that are worked on concurrently, such as `db:2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semaphore: Option<String>,
    /// The times at which the entity may be changed, such as `hours=2-5 days=mon-fri`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The services that are registered with a fleet while the entity is in its desired state and healthy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schemars(with = "Vec<Service>"))]
    pub register: Vec<Registration>,
}

/// A service with the entity that registers it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RegisteredService<'a> {
    /// The ID of the entity.
    pub id: Text<'a>,
    /// The service.
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "Service"))]
    pub service: Registration,
}

impl RegisteredService<'_> {
    /// Returns the same with an owned ID.
    #[must_use]
    pub fn into_owned(self) -> RegisteredService<'static> {
        RegisteredService { id: Text(Cow::Owned(self.id.into_owned())), service: self.service }
    }
}

/// A service that is registered with a fleet.
#[cfg(test)]
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only the schema is used")]
struct Service {
    /// The cluster to which it belongs.
    cluster: String,
    /// Its name.
    service: String,
    /// The protocol that it speaks.
    protocol: String,
    /// Its host name or IP address; the name of the host if it is absent.
    #[serde(default)]
    address: Option<String>,
    /// Its port.
    port: u16,
    /// Its place among others of the same service: lower ones come first.
    priority: u16,
    /// The number of seconds after which it expires unless it is renewed.
    ttl: u64,
    /// Other properties.
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

impl Edges<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Edges::default()
    }
}

/// An asset that an entity provides, needs or owns.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Asset<'a> {
    /// A kind such as `path` or `user`.
    pub kind: Text<'a>,
    /// A value such as `/etc/motd`.
    pub value: Text<'a>,
}
