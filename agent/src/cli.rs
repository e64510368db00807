//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Keeps this machine in its desired state
#[derive(Debug, Parser)]
#[command(name = "holo-agent", version, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// The command.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run in the foreground and start holo as configured
    Run(Run),
    /// Show the status of the agent and the machine
    Status(Status),
    /// Show recorded events
    Events(Events),
    /// Check the configuration for errors
    CheckConfig(CheckConfig),
}

/// `holo-agent run`
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Exit after one complete run and one round of health checks
    #[arg(long)]
    pub(crate) once: bool,
}

/// `holo-agent status`
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Print a JSON value
    #[arg(long)]
    pub(crate) json: bool,
}

/// `holo-agent events`
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Print JSON Lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// `holo-agent check-config`
#[derive(Debug, Args)]
pub(crate) struct CheckConfig {
    /// The configuration file [default: /etc/holo/agent.toml]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}
