//! `holo-fleet init`: prepares a server.

use crate::error::FleetError;
use crate::session::{Session, print};
use crate::store::Made;
use clap::Args;
use std::process::ExitCode;

/// `holo-fleet init`
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The number of servers of a cluster that hold each bucket
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
    replicas: u8,
}

pub(crate) async fn run(arguments: &Init, session: &Session) -> Result<ExitCode, FleetError> {
    let mut differs = false;
    for (name, made) in session.store.init(usize::from(arguments.replicas)).await? {
        match made {
            Made::Created => print(format_args!("created    {name}"))?,
            Made::Unchanged => print(format_args!("unchanged  {name}"))?,
            Made::Different(differences) => {
                differs = true;
                print(format_args!("different  {name} ({})", differences.join(", ")))?;
            }
        }
    }
    Ok(if differs { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
