//! `holo-fleet accounts`: the users of the server.

use crate::accounts::{Users, places};
use crate::error::FleetError;
use crate::session::print;
use clap::Args;
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

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, FleetError> {
    let users = Users::read(&arguments.hosts)?;
    users.write(&arguments.output, &arguments.rotate)?;
    let [config, hosts, operators] = places(&arguments.output).map(|path| path.display().to_string());
    print(format_args!(
        "{} users; the server's part is {config}, and the seeds are in {hosts} and {operators}",
        users.len()
    ))?;
    Ok(ExitCode::SUCCESS)
}
