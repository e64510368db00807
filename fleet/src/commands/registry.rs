//! `holo-fleet registry`: services that are up.

use crate::error::FleetError;
use crate::names::{Host, NameError};
use crate::registry::{Change, Entry, Live, current};
use crate::session::{Output, Session, local};
use crate::store::REGISTRY;
use clap::{Args, Subcommand};
use holo_definitions::registration::{DEFAULT_TTL, check_name};
use holo_definitions::{Registration, duration};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The commands for services.
#[derive(Debug, Subcommand)]
pub(crate) enum RegistryVerb {
    /// Show the services that are up
    Query(Filter),
    /// Show the services that are up, and go on with changes as they come
    Watch(Filter),
    /// Add a service that no host registers
    Add(Add),
    /// Remove services
    Remove(Filter),
}

/// `holo-fleet registry query`, `watch` and `remove`: which services
#[derive(Debug, Args)]
pub(crate) struct Filter {
    /// Only those of a cluster
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Only those of this name
    #[arg(long, value_name = "NAME")]
    service: Option<String>,
    /// Only those that speak a protocol
    #[arg(long, value_name = "NAME")]
    protocol: Option<String>,
    /// Only those at a host name or an IP address
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
}

/// `holo-fleet registry add`
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// The cluster to which it belongs
    #[arg(long, value_name = "NAME")]
    cluster: String,
    /// Its name
    #[arg(long, value_name = "NAME")]
    service: String,
    /// The protocol that it speaks
    #[arg(long, value_name = "NAME")]
    protocol: String,
    /// Its host name or IP address
    #[arg(long, value_name = "ADDRESS")]
    address: String,
    /// Its port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Its place among others of the same service: lower ones come first
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    priority: u16,
    /// The time after which it expires: nobody renews it [default: 1m]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    ttl: Option<Duration>,
    /// Another property
    #[arg(long = "annotation", value_name = "NAME=VALUE", value_parser = annotation)]
    annotations: Vec<(String, String)>,
}

fn annotation(text: &str) -> Result<(String, String), NameError> {
    let wrong = || NameError::new(text, "an annotation, such as zone=a");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    check_name(name).map_err(|_| wrong())?;
    Ok((name.to_owned(), value.to_owned()))
}

/// A line of `holo-fleet registry --json`: a service.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Line {
    /// What has happened; only by `watch`, `add` and `remove`.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<Happened>,
    /// The cluster to which it belongs.
    cluster: String,
    /// Its name.
    service: String,
    /// The protocol that it speaks.
    protocol: String,
    /// Its host name or IP address.
    address: String,
    /// Its port.
    port: u16,
    /// Its place among others of the same service: lower ones come first.
    priority: u16,
    /// The number of seconds after which it expires unless it is renewed.
    ttl: u64,
    /// Other properties.
    annotations: BTreeMap<String, String>,
    /// The host that has registered it.
    host: Host,
    /// The time at which it expires unless it is renewed; only by `query`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    expires: Option<Timestamp>,
}

/// What has happened to a service.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum Happened {
    /// It is new, or has changed.
    Added,
    /// It was withdrawn or removed.
    Removed,
    /// It was not renewed.
    Expired,
}

impl Line {
    fn new(Entry { host, service }: Entry, change: Option<Happened>, expires: Option<Timestamp>) -> Line {
        let Registration { cluster, service, protocol, address, port, priority, ttl, annotations } = service;
        let address = address.unwrap_or_default();
        Line { change, cluster, service, protocol, address, port, priority, ttl, annotations, host, expires }
    }

    fn of(change: Change) -> Line {
        match change {
            Change::Added(entry) => Line::new(entry, Some(Happened::Added), None),
            Change::Removed(entry) => Line::new(entry, Some(Happened::Removed), None),
            Change::Expired(entry) => Line::new(entry, Some(Happened::Expired), None),
        }
    }

    fn place(&self) -> String {
        let is_ipv6 = self.address.contains(':');
        if is_ipv6 { format!("[{}]:{}", self.address, self.port) } else { format!("{}:{}", self.address, self.port) }
    }

    fn cells(&self) -> Vec<String> {
        let annotations = self.annotations.iter().map(|(name, value)| format!("{name}={value}"));
        vec![
            self.cluster.clone(),
            self.protocol.clone(),
            self.service.clone(),
            self.place(),
            format!("priority {}", self.priority),
            format!("by {}", self.host),
            self.expires.map(|time| format!("until {}", local(time))).unwrap_or_default(),
            annotations.collect::<Vec<_>>().join(" "),
        ]
    }

    fn show(&self, output: Output) -> Result<(), FleetError> {
        let word = match self.change {
            Some(Happened::Added) => "added",
            Some(Happened::Removed) => "removed",
            Some(Happened::Expired) => "expired",
            None => "up",
        };
        let cells = self.cells().into_iter().filter(|cell| !cell.is_empty());
        output.show(self, format_args!("{word:7}  {}", cells.collect::<Vec<_>>().join("  ")))
    }
}

impl Filter {
    fn is_empty(&self) -> bool {
        [&self.cluster, &self.service, &self.protocol, &self.address].into_iter().all(Option::is_none)
    }

    fn accepts(&self, Entry { service, .. }: &Entry) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|wanted| wanted == value);
        is(&self.cluster, &service.cluster)
            && is(&self.service, &service.service)
            && is(&self.protocol, &service.protocol)
            && is(&self.address, service.address.as_deref().unwrap_or_default())
    }
}

pub(crate) async fn run(verb: &RegistryVerb, session: &Session) -> Result<ExitCode, FleetError> {
    match verb {
        RegistryVerb::Query(filter) => query(filter, session).await?,
        RegistryVerb::Watch(filter) => watch(filter, session).await?,
        RegistryVerb::Add(arguments) => add(arguments, session).await?,
        RegistryVerb::Remove(filter) => remove(filter, session).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn query(filter: &Filter, session: &Session) -> Result<(), FleetError> {
    let found = current(&session.store).await?.into_iter().filter(|(entry, _)| filter.accepts(entry));
    let lines: Vec<Line> = found.map(|(entry, expires)| Line::new(entry, None, Some(expires))).collect();
    session.output.list(&lines, "", Line::cells)
}

async fn watch(filter: &Filter, session: &Session) -> Result<(), FleetError> {
    let mut live = Live::default();
    live.follow(&session.store).await?;
    for entry in live.entries().into_iter().filter(|entry| filter.accepts(entry)) {
        Line::new(entry, None, None).show(session.output)?;
    }
    loop {
        let next = live.next_expiry();
        let changes = tokio::select! {
            change = live.changed() => match change {
                Some(change) => vec![change],
                None => return Err(FleetError("the server has ended the subscription".to_owned())),
            },
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => live.expire(),
        };
        for change in changes {
            let (Change::Added(entry) | Change::Removed(entry) | Change::Expired(entry)) = &change;
            if filter.accepts(entry) {
                Line::of(change).show(session.output)?;
            }
        }
    }
}

async fn add(arguments: &Add, session: &Session) -> Result<(), FleetError> {
    let Add { cluster, service, protocol, address, port, priority, ttl, annotations } = arguments;
    let host = Host::new(address).map_err(|error| FleetError(error.to_string()))?;
    let service = Registration {
        cluster: cluster.clone(),
        service: service.clone(),
        protocol: protocol.clone(),
        address: Some(address.clone()),
        port: *port,
        priority: *priority,
        ttl: ttl.unwrap_or(DEFAULT_TTL).as_secs(),
        annotations: annotations.iter().cloned().collect(),
    };
    let entry = Entry::new(&host, service)?;
    entry.put(&session.store).await?;
    Line::of(Change::Added(entry)).show(session.output)
}

async fn remove(filter: &Filter, session: &Session) -> Result<(), FleetError> {
    if filter.is_empty() {
        return Err(FleetError("name what to remove, with --cluster, --service, --protocol or --address".to_owned()));
    }
    let bucket = session.store.bucket(REGISTRY).await?;
    let found = current(&session.store).await?.into_iter().map(|(entry, _)| entry);
    let found: Vec<Entry> = found.filter(|entry| filter.accepts(entry)).collect();
    if found.is_empty() {
        return Err(FleetError("there is no such service; look at: holo-fleet registry query".to_owned()));
    }
    for entry in found {
        bucket.remove(&entry.key()).await?;
        Line::of(Change::Removed(entry)).show(session.output)?;
    }
    Ok(())
}
