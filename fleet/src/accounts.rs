//! Users of the server, and what each may do: `holo-fleet accounts`.
//!
//! A host may read its channel, the bundles, and the data that is meant for it, and write what it reports itself. It has an
//! inbox of its own, so that it does not hear answers to others, and it may not create consumers, because these can make
//! the server write to any subject.

use crate::disk::replace;
use crate::error::FleetError;
use crate::names::{Host, Label};
use crate::store::{BUNDLES, CHANNELS, DATA, EVENT_SUBJECT, EVENTS, HOSTS, REGISTRY};
use holo_definitions::read_document;
use nkeys::KeyPair;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The kinds of events, which are part of their subjects. A host that could choose them could push out others' events.
const KINDS: [&str; 16] = [
    "run",
    "drifted",
    "edited",
    "refused",
    "returned",
    "repaired",
    "failed",
    "definition_error",
    "storm",
    "health",
    "paused",
    "resumed",
    "watch",
    "fleet",
    "bundle",
    "merged",
];

/// The users of a server, for `holo-fleet accounts --hosts`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Users {
    /// The hosts.
    #[serde(default)]
    host: Vec<HostUser>,
    /// The operators.
    #[serde(default)]
    operator: Vec<OperatorUser>,
}

/// A host, and what it may read.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct HostUser {
    /// Its name, as `fleet.host` in its `agent.toml`.
    name: Host,
    /// The channel that it follows.
    channel: Option<Label>,
    /// The roles whose data it gets.
    #[serde(default)]
    roles: Vec<Label>,
}

/// An operator, or the controller.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct OperatorUser {
    /// Their name.
    name: Label,
    role: Role,
}

/// What an operator may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Role {
    /// Everything, also prepare the server.
    Admin,
    /// Publish bundles, roll them out, change data, and have hosts apply.
    Release,
    /// Look, and have hosts check.
    View,
}

/// What a user may publish and subscribe to.
struct Permissions {
    publish: Vec<String>,
    subscribe: Vec<String>,
    /// True if it answers requests.
    answers: bool,
}

impl Users {
    /// Reads the file.
    pub(crate) fn read(path: &Path) -> Result<Users, FleetError> {
        let users = read_document::<Users>(path).map_err(|error| FleetError(error.to_string()))?;
        let users = users.ok_or_else(|| FleetError::about(path.display(), "there is no such file"))?;
        let mut names = BTreeSet::new();
        let of_hosts = users.host.iter().map(|host| format!("host {}", host.name));
        for name in of_hosts.chain(users.operator.iter().map(|operator| format!("operator {}", operator.name))) {
            if let Some(name) = names.replace(name) {
                return Err(FleetError::about(path.display(), format!("{name} occurs twice")));
            }
        }
        Ok(users)
    }

    /// Returns the number of users.
    pub(crate) fn len(&self) -> usize {
        self.host.len() + self.operator.len()
    }

    /// Returns true if there is a user of this name.
    fn has(&self, name: &str) -> bool {
        self.host.iter().any(|host| host.name.as_str() == name)
            || self.operator.iter().any(|operator| operator.name.as_str() == name)
    }

    /// Writes the configuration of the server, and the seeds that are not there yet. Seeds to rotate are made anew.
    pub(crate) fn write(&self, folder: &Path, rotate: &[String]) -> Result<(), FleetError> {
        if let Some(name) = rotate.iter().find(|name| !self.has(name)) {
            return Err(FleetError(format!("--rotate: there is no host or operator {name}")));
        }
        let mut users = String::new();
        for host in &self.host {
            let path = folder.join("hosts").join(format!("{}.nk", host.name.token()));
            let key = seed(&path, rotate.iter().any(|name| name == host.name.as_str()))?;
            users.push_str(&user(&format!("host {}", host.name), &key, &of_host(host)));
        }
        for operator in &self.operator {
            let path = folder.join("operators").join(format!("{}.nk", operator.name));
            let key = seed(&path, rotate.iter().any(|name| name == operator.name.as_str()))?;
            users.push_str(&user(&format!("operator {}", operator.name), &key, &of_operator(operator)));
        }
        let config = format!(
            "# Written by holo-fleet accounts, and replaced by it: include this file in the configuration of the server,\n\
             # which says where it listens, its certificate, and where JetStream keeps its data.\n\
             authorization {{\n  timeout: 20\n  users: [\n{users}  ]\n}}\n"
        );
        replace(&folder.join("nats-server.conf"), config.as_bytes(), 0o644)
    }
}

/// Returns the public key of a seed, which is made if there is none.
fn seed(path: &Path, rotate: bool) -> Result<String, FleetError> {
    let about = |error: &dyn std::fmt::Display| FleetError::about(path.display(), error);
    let pair = match fs::read_to_string(path) {
        Ok(text) if !rotate => KeyPair::from_seed(text.trim()).map_err(|error| about(&error))?,
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(about(&error)),
        _ => {
            let pair = KeyPair::new_user();
            let seed = pair.seed().map_err(|error| about(&error))?;
            replace(path, format!("{seed}\n").as_bytes(), 0o600)?;
            pair
        }
    };
    Ok(pair.public_key())
}

/// Returns the prefix of the inboxes of a user, which nobody else may hear.
pub(crate) fn inbox(public_key: &str) -> String {
    format!("_INBOX_{public_key}")
}

fn user(comment: &str, key: &str, permissions: &Permissions) -> String {
    let list =
        |subjects: &[String]| subjects.iter().map(|subject| format!("\"{subject}\"")).collect::<Vec<_>>().join(", ");
    let inbox = format!("{}.>", inbox(key));
    let subscribe = [&permissions.subscribe[..], &[inbox]].concat();
    let responses = if permissions.answers { ", allow_responses: { max: 1, expires: \"15m\" }" } else { "" };
    format!(
        "    # {comment}\n    {{ nkey: {key}, permissions: {{ publish: {{ allow: [{}] }}, subscribe: {{ allow: [{}] }}{responses} }} }}\n",
        list(&permissions.publish),
        list(&subscribe)
    )
}

/// Returns the subjects of requests for the value of a key, and of a stream.
fn reading(bucket: &str, keys: &[String]) -> Vec<String> {
    let gets = keys.iter().map(|key| format!("$JS.API.DIRECT.GET.KV_{bucket}.$KV.{bucket}.{key}"));
    gets.chain([format!("$JS.API.STREAM.INFO.KV_{bucket}")]).collect()
}

fn of_host(host: &HostUser) -> Permissions {
    let token = host.name.token();
    let channels: Vec<String> =
        host.channel.iter().flat_map(|channel| [channel.to_string(), format!("{channel}.progress")]).collect();
    let own = ["common".to_owned(), format!("host.{token}")];
    let layers: Vec<String> = host.roles.iter().map(|role| format!("role.{role}")).chain(own).collect();
    let mut publish = reading(CHANNELS, &channels);
    publish.extend(reading(DATA, &layers));
    publish.extend(reading(HOSTS, std::slice::from_ref(&token)));
    publish.extend(reading(REGISTRY, &[">".to_owned()]));
    publish.extend([
        format!("$JS.API.STREAM.INFO.OBJ_{BUNDLES}"),
        format!("$JS.API.DIRECT.GET.OBJ_{BUNDLES}"),
        format!("$JS.API.DIRECT.GET.OBJ_{BUNDLES}.>"),
        format!("$KV.{HOSTS}.{token}"),
        format!("$KV.{REGISTRY}.*.*.*.{token}.*"),
        format!("holo.claim.{token}"),
    ]);
    publish.extend(KINDS.map(|kind| format!("{EVENT_SUBJECT}.{token}.{kind}")));
    let registry = format!("$KV.{REGISTRY}.>");
    let mut subscribe = vec![format!("holo.claim.{token}"), format!("holo.run.{token}.*"), registry];
    subscribe.extend(channels.iter().map(|key| format!("$KV.{CHANNELS}.{key}")));
    subscribe.extend(layers.iter().map(|key| format!("$KV.{DATA}.{key}")));
    Permissions { publish, subscribe, answers: true }
}

fn of_operator(operator: &OperatorUser) -> Permissions {
    let text = |subjects: &[&str]| subjects.iter().map(ToString::to_string).collect::<Vec<_>>();
    if operator.role == Role::Admin {
        return Permissions { publish: text(&[">"]), subscribe: text(&[">"]), answers: false };
    }
    let mut publish =
        text(&["$JS.API.INFO", "$JS.API.STREAM.INFO.*", "$JS.API.DIRECT.GET.>", "holo.run.*.check", "holo.run.*.diff"]);
    let of_consumers = ["CREATE", "INFO", "MSG.NEXT", "DELETE"];
    publish.push(format!("$JS.API.CONSUMER.CREATE.{EVENTS}"));
    publish.extend(of_consumers.map(|request| format!("$JS.API.CONSUMER.{request}.{EVENTS}.>")));
    if operator.role == Role::Release {
        publish.extend(text(&["holo.run.*.apply", "holo.run.*.preview"]));
        publish.extend([CHANNELS, DATA, HOSTS, REGISTRY].map(|bucket| format!("$KV.{bucket}.>")));
        publish.push(format!("$O.{BUNDLES}.>"));
        publish.push(format!("$JS.API.STREAM.PURGE.OBJ_{BUNDLES}"));
        publish.push(format!("$JS.API.STREAM.PURGE.KV_{REGISTRY}"));
    }
    // The controller hears changes.
    let heard = [CHANNELS, HOSTS].iter().filter(|_| operator.role == Role::Release);
    let subscribe = heard.chain([&REGISTRY]).map(|bucket| format!("$KV.{bucket}.>")).collect();
    Permissions { publish, subscribe, answers: false }
}

/// Returns where the seeds are written, to show it.
pub(crate) fn places(folder: &Path) -> [PathBuf; 3] {
    [folder.join("nats-server.conf"), folder.join("hosts"), folder.join("operators")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_is_that_of_the_types() {
        holo_testing::schema_is_kept("holo-fleet-accounts.schema.json", &schemars::schema_for!(Users));
    }
}
