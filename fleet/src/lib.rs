//! Many machines on NATS JetStream: operators publish signed bundles of resource files, and roll them out in waves;
//! each host fetches what is meant for it, verifies it, and applies it.
//!
//! This is a separate program because no other one needs a client of NATS: `holo-agent` runs its part on a host.

mod accounts;
mod bundle;
mod channel;
mod commands;
mod config;
mod connection;
mod controller;
mod disk;
mod error;
mod host;
mod metrics;
mod names;
mod published;
mod record;
mod registry;
mod report;
mod rollout;
mod session;
mod signing;
mod store;
mod view;

use clap::{Parser, Subcommand};
use commands::bundle::BundleVerb;
use commands::data::DataVerb;
use commands::host::HostVerb;
use commands::registry::RegistryVerb;
use commands::rollout::{Log, Promote, Rollback, RolloutVerb};
use commands::{accounts as users, controller as control, init, look, page, run as asking};
use config::Root;
use holo_process::{Stream, streams};
use session::Output;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs the command line and returns the exit code.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(usage) => {
            let stream = if usage.use_stderr() { Stream::Stderr } else { Stream::Stdout };
            let _ = streams::write(stream, usage.to_string().as_bytes());
            return ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2));
        }
    };
    commands::run(&cli, &Root::from_environment()).unwrap_or_else(|error| {
        streams::complain(format_args!("holo-fleet: {error}"));
        ExitCode::FAILURE
    })
}

/// Configures many machines over NATS JetStream
#[derive(Debug, Parser)]
#[command(name = "holo-fleet", version, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// The configuration [default: ~/.config/holo/fleet.toml or /etc/holo/fleet.toml]
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// Write JSON, an object per line, instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The command.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Cli {
    /// Returns how the command shows its result.
    pub(crate) fn output(&self) -> Output {
        Output { json: self.json }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Prepare a server
    Init(init::Init),
    /// Write the users of a server, and what each may do
    Accounts(users::Arguments),
    /// Build, sign and publish bundles
    #[command(subcommand)]
    Bundle(BundleVerb),
    /// Roll out bundles
    #[command(subcommand)]
    Rollout(RolloutVerb),
    /// Return a channel to the bundle that it ran before
    Rollback(Rollback),
    /// Roll out to a channel what another one runs
    Promote(Promote),
    /// Show who did what when
    Log(Log),
    /// Advance rollouts, as a service
    Controller(control::Arguments),
    /// Show a line for each channel
    Status,
    /// Show a line for each host
    Hosts(look::Hosts),
    /// Write a page about all channels and hosts
    Report(page::Report),
    /// Data for all hosts, for roles, and for single hosts
    #[command(subcommand)]
    Data(DataVerb),
    /// Services that are up
    #[command(subcommand)]
    Registry(RegistryVerb),
    /// Ask hosts to check, show differences, or apply
    Run(asking::Arguments),
    /// Show, install and roll back the bundle of this host, and follow its channel
    #[command(subcommand)]
    Host(HostVerb),
    /// Show the events of hosts
    Events(look::Events),
}
