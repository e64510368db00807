//! `holo-fleet bundle push`, `list`, `show`, `delete` and `prune`: bundles on the server.

use crate::bundle::Bundle;
use crate::error::FleetError;
use crate::names::{BundleId, Label};
use crate::published::Published;
use crate::session::{Session, local, print};
use clap::Args;
use holo_process::streams;
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

/// `holo-fleet bundle push`
#[derive(Debug, Args)]
pub(crate) struct Push {
    /// The bundle; its signature in FILE.sig is published with it
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// `holo-fleet bundle show` and `delete`
#[derive(Debug, Args)]
pub(crate) struct One {
    /// The bundle: NAME@VERSION, NAME for the last published one, or the beginning of a digest
    #[arg(value_name = "BUNDLE")]
    bundle: String,
}

/// `holo-fleet bundle prune`
#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// The number of versions of each bundle to keep, besides those that channels use
    #[arg(long, value_name = "N", default_value_t = 3)]
    keep: usize,
}

/// A line of `holo-fleet bundle list --json`, and of the other commands for bundles on the server.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Line {
    #[serde(flatten)]
    id: BundleId,
    /// The size of its file in bytes.
    size: u64,
    /// When it was published, in UTC.
    #[cfg_attr(test, schemars(with = "String"))]
    published: Timestamp,
    /// True if there is a signature.
    signed: bool,
    /// The channels that use it.
    channels: BTreeSet<Label>,
}

pub(crate) async fn push(arguments: &Push, session: &Session) -> Result<ExitCode, FleetError> {
    let file = &arguments.file;
    // What hosts would refuse is not worth publishing, as far as this machine knows whose signatures they accept.
    let bundle = Bundle::open(file, &session.signers(), true).map_err(|error| FleetError(error.to_string()))?;
    if bundle.signature().is_none() {
        let file = file.display();
        streams::complain(format_args!("{file} is not signed: only hosts with allow_unsigned = true install it"));
    }
    let id = bundle.id();
    let words = if session.store.publish(&bundle).await? { "published" } else { "was published before" };
    if session.output.json {
        let published = session.store.find_bundle(&id.digest).await?;
        lines(session, vec![published]).await?.iter().try_for_each(|line| session.output.show_json(line))?;
    } else {
        print(format_args!("{id} {words} ({:.12})", id.digest))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn lines(session: &Session, bundles: Vec<Published>) -> Result<Vec<Line>, FleetError> {
    let used = session.store.used_bundles().await?;
    let line = |bundle: Published| {
        let channels = used.iter().filter(|(id, _)| id.digest == bundle.id.digest).map(|(_, channel)| channel.clone());
        Line {
            channels: channels.collect(),
            signed: bundle.signature.is_some(),
            id: bundle.id,
            size: bundle.size,
            published: bundle.time,
        }
    };
    Ok(bundles.into_iter().map(line).collect())
}

fn cells(line: &Line) -> Vec<String> {
    let channels: Vec<&str> = line.channels.iter().map(Label::as_str).collect();
    vec![
        line.id.to_string(),
        format!("{:.12}", line.id.digest),
        format!("{} bytes", line.size),
        local(line.published),
        if line.signed { "signed" } else { "unsigned" }.to_owned(),
        channels.join(", "),
    ]
}

pub(crate) async fn list(session: &Session) -> Result<ExitCode, FleetError> {
    let lines = lines(session, session.store.published().await?).await?;
    session.output.list(&lines, "no bundles; publish one with: holo-fleet bundle push FILE", cells)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn show(arguments: &One, session: &Session) -> Result<ExitCode, FleetError> {
    let bundle = session.store.find_bundle(&arguments.bundle).await?;
    for line in lines(session, vec![bundle]).await? {
        let channels: Vec<&str> = line.channels.iter().map(Label::as_str).collect();
        let text = [
            format!("    bundle {}", line.id),
            format!("    digest {}", line.id.digest),
            format!("      size {} bytes", line.size),
            format!(" published {}, {}", local(line.published), if line.signed { "signed" } else { "unsigned" }),
            format!("  channels {}", if channels.is_empty() { "none".to_owned() } else { channels.join(", ") }),
        ];
        session.output.show(&line, text.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn delete(arguments: &One, session: &Session) -> Result<ExitCode, FleetError> {
    let bundle = session.store.find_bundle(&arguments.bundle).await?;
    for line in lines(session, vec![bundle]).await? {
        let id = &line.id;
        if let Some(channel) = line.channels.first() {
            return Err(FleetError(format!("{id} is in use: channel {channel} runs it, or can return to it")));
        }
        session.store.unpublish(id).await?;
        session.output.show(&line, format_args!("{id} deleted"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Deletes old versions of bundles that no channel uses.
pub(crate) async fn prune(arguments: &Prune, session: &Session) -> Result<ExitCode, FleetError> {
    let mut of_name: Option<(Label, usize)> = None;
    for line in lines(session, session.store.published().await?).await? {
        let id = &line.id;
        let number = match &of_name {
            Some((name, number)) if *name == id.name => number + 1,
            _ => 1,
        };
        of_name = Some((id.name.clone(), number));
        if number > arguments.keep && line.channels.is_empty() {
            session.store.unpublish(id).await?;
            session.output.show(&line, format_args!("{id} deleted"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
