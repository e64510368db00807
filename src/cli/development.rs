//! The options of the commands for those who write definitions, scenarios and plugins.

use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// `holo definitions`
#[derive(Debug, Args)]
pub struct Definitions {
    /// Show values that are encrypted in data; plugins that call this are always given them
    #[arg(long)]
    pub show_secrets: bool,
    /// The plugin's ID
    #[arg(value_name = "PLUGIN")]
    pub plugin: String,
}

/// `holo test`
#[derive(Debug, Args)]
pub struct Test {
    /// Write what comes out as what is expected
    #[arg(long)]
    pub bless: bool,
    /// Number of scenarios to run at a time [default: one a processor]
    #[arg(short, long, value_name = "N")]
    pub jobs: Option<std::num::NonZeroUsize>,
    /// Folders of scenarios
    #[arg(value_name = "DIR", required = true)]
    pub scenarios: Vec<PathBuf>,
}

/// `holo plugin`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct Plugin {
    /// The command.
    #[command(subcommand)]
    pub verb: PluginVerb,
}

/// The commands about plugins.
#[derive(Debug, Subcommand)]
pub enum PluginVerb {
    /// Put a plugin through its paces, and say where it breaks the interface
    Check(PluginCheck),
}

/// `holo plugin check`
#[derive(Debug, Args)]
pub struct PluginCheck {
    /// Resource directory of the plugin [default: its static one]
    #[arg(long, value_name = "DIR")]
    pub resources: Option<PathBuf>,
    /// Contents of the root in which the plugin is tried [default: nothing]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Time limit of a call: 10s, 5m
    #[arg(long, value_name = "DURATION", value_parser = holo_definitions::duration::parse, default_value = "10s")]
    pub timeout: Duration,
    /// The plugin's program
    #[arg(value_name = "PATH")]
    pub program: PathBuf,
}

/// `holo completion`
#[derive(Debug, Args)]
pub struct Completion {
    /// The shell to write it for
    #[arg(value_enum)]
    pub shell: Shell,
}

/// The shells that command lines can be completed in.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
#[expect(missing_docs, reason = "the names are the documentation")]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}
