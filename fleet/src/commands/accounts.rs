//! `holo-fleet accounts`: the users of the server.

use crate::accounts::{Users, places};
use crate::error::FleetError;
use crate::session::Output;
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// `holo-fleet accounts`
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A TOML file with the hosts and operators
    #[arg(long, value_name = "FILE")]
    hosts: PathBuf,
    /// The directory for the configuration of the server and the seeds
    #[arg(long, value_name = "DIRECTORY")]
    output: PathBuf,
    /// Make a new seed for this host or operator
    #[arg(long, value_name = "NAME")]
    rotate: Vec<String>,
}

/// The line of `holo-fleet accounts --json`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Written {
    /// The number of users.
    users: usize,
    /// The file for the configuration of the server.
    config: String,
    /// The directory with the seeds of hosts.
    hosts: String,
    /// The directory with the seeds of operators.
    operators: String,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<ExitCode, FleetError> {
    let users = Users::read(&arguments.hosts)?;
    users.write(&arguments.output, &arguments.rotate)?;
    let [config, hosts, operators] = places(&arguments.output).map(|path| path.display().to_string());
    let users = users.len();
    let text = format!("{users} users; the server's part is {config}, and the seeds are in {hosts} and {operators}");
    output.show(&Written { users, config, hosts, operators }, text)?;
    Ok(ExitCode::SUCCESS)
}
