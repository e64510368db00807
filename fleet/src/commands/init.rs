//! `holo-fleet init`: prepares a server.

use crate::error::FleetError;
use crate::session::Session;
use crate::store::Made;
use clap::Args;
use serde::Serialize;
use std::process::ExitCode;

/// `holo-fleet init`
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The number of servers of a cluster that hold each bucket
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
    replicas: u8,
}

/// A line of `holo-fleet init --json`: a bucket or a stream.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Line {
    /// Its name.
    name: String,
    /// `created`, `unchanged`, or `different`.
    state: &'static str,
    /// The settings that differ.
    differences: Vec<String>,
}

pub(crate) async fn run(arguments: &Init, session: &Session) -> Result<ExitCode, FleetError> {
    let mut differs = false;
    for (name, made) in session.store.init(usize::from(arguments.replicas)).await? {
        let (state, differences) = match made {
            Made::Created => ("created", Vec::new()),
            Made::Unchanged => ("unchanged", Vec::new()),
            Made::Different(differences) => ("different", differences),
        };
        differs |= !differences.is_empty();
        let listed = if differences.is_empty() { String::new() } else { format!(" ({})", differences.join(", ")) };
        let text = format!("{state:9}  {name}{listed}");
        session.output.show(&Line { name: name.to_owned(), state, differences }, text)?;
    }
    Ok(if differs { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
