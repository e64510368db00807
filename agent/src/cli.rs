//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Keeps this machine as it should be
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
    /// Stay, and run holo as the configuration says
    Run(Run),
    /// Show what the agent does, and how things are
    Status(Status),
    /// Show what has happened, as it is kept on disk
    Events(Events),
    /// Read the configuration, and say what is wrong with it
    CheckConfig(CheckConfig),
}

/// `holo-agent run`
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// End after one whole run and one round of health checks
    #[arg(long)]
    pub(crate) once: bool,
}

/// `holo-agent status`
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Write a single value of JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
}

/// `holo-agent events`
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Write JSON Lines, for programs
    #[arg(long)]
    pub(crate) json: bool,
}

/// `holo-agent check-config`
#[derive(Debug, Args)]
pub(crate) struct CheckConfig {
    /// The file [default: /etc/holo/agent.toml]
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}
