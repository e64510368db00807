//! The options of the commands for authors of definitions, scenarios and plugins.

use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// `holo definitions`
#[derive(Debug, Args)]
pub struct Definitions {
    /// Decrypt the values that are encrypted in data; always on if a plugin calls this command
    #[arg(long)]
    pub show_secrets: bool,
    /// The ID of the plugin
    #[arg(value_name = "PLUGIN")]
    pub plugin: String,
}

/// `holo test`
#[derive(Debug, Args)]
pub struct Test {
    /// Replace the expected output with the actual output
    #[arg(long)]
    pub bless: bool,
    /// Number of scenarios to run concurrently [default: number of processors]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<std::num::NonZeroUsize>,
    /// Scenario directories
    #[arg(value_name = "DIR", required = true)]
    pub scenarios: Vec<PathBuf>,
}

/// `holo plugin`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct Plugin {
    /// The subcommand.
    #[command(subcommand)]
    pub verb: PluginVerb,
}

/// The subcommands of `holo plugin`.
#[derive(Debug, Subcommand)]
pub enum PluginVerb {
    /// Test whether a plugin conforms to the interface
    Check(PluginCheck),
}

/// `holo plugin check`
#[derive(Debug, Args)]
pub struct PluginCheck {
    /// Resource directory of the plugin [default: its static one]
    #[arg(long, value_name = "DIR")]
    pub resources: Option<PathBuf>,
    /// Initial contents of the root in which the plugin is tested [default: empty]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Time limit of each call: 10s, 5m
    #[arg(long, value_name = "DURATION", value_parser = holo_definitions::duration::parse, default_value = "10s")]
    pub timeout: Duration,
    /// The program of the plugin
    #[arg(value_name = "PATH")]
    pub program: PathBuf,
}

/// `holo completion`
#[derive(Debug, Args)]
pub struct Completion {
    /// The shell to write the script for
    #[arg(value_enum)]
    pub shell: Shell,
}

/// The supported shells.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[expect(missing_docs, reason = "the names are the documentation")]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}
