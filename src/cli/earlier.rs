//! The options of the commands about earlier runs.

use super::Output;
use clap::{Args, Subcommand};
use std::ffi::OsString;

/// `holo generations`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct Generations {
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The subcommand; lists all generations if omitted
    #[command(subcommand)]
    pub verb: Option<GenerationsVerb>,
}

/// The subcommands of `holo generations`.
#[derive(Debug, Subcommand)]
pub enum GenerationsVerb {
    /// Show how the inputs of a generation differ from those of another, or from the current ones
    Diff(GenerationsDiff),
}

/// `holo generations diff`
#[derive(Debug, Args)]
pub struct GenerationsDiff {
    /// The number of the first generation
    #[arg(value_name = "FROM")]
    pub from: u32,
    /// The number of the second generation [default: the current inputs]
    #[arg(value_name = "TO")]
    pub to: Option<u32>,
}

/// `holo rollback`
#[derive(Debug, Args)]
pub struct Rollback {
    /// Only show what would be done
    #[arg(long, conflicts_with = "release")]
    pub dry_run: bool,
    /// Show changes, or pending changes, as unified diffs
    #[arg(long, conflicts_with = "release")]
    pub diff: bool,
    /// Overwrite manual changes, and restore deleted files
    #[arg(short, long, conflicts_with = "release")]
    pub force: bool,
    /// Use the current inputs again, from the next apply on
    #[arg(long, conflicts_with = "generation")]
    pub release: bool,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The number of the generation [default: the one before that in use]
    #[arg(value_name = "GENERATION")]
    pub generation: Option<u32>,
}

/// `holo history`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct History {
    /// Maximum number of lines; 0 for all
    #[arg(short, long, value_name = "N", default_value_t = 20)]
    pub number: usize,
    /// Leave out earlier runs: 12h, 7d, 2026-11-22, "2026-11-22 09:14", yesterday
    #[arg(long, value_name = "TIME", value_parser = crate::time::parse)]
    pub since: Option<jiff::Timestamp>,
    /// Show only failures, refusals and interruptions
    #[arg(long)]
    pub failed: bool,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The subcommand.
    #[command(subcommand)]
    pub verb: Option<HistoryVerb>,
    /// Entity IDs, plugin IDs or paths; lists runs if omitted
    // With another name it would be moved behind the options, and `show` with it.
    #[arg(value_name = "SELECTOR")]
    pub subjects: Vec<OsString>,
}

/// The subcommands of `holo history`.
#[derive(Debug, Subcommand)]
pub enum HistoryVerb {
    /// Show the details of a run
    Show(HistoryShow),
}

/// `holo history show`
#[derive(Debug, Args)]
pub struct HistoryShow {
    /// Show the differences that it made
    #[arg(long)]
    pub diff: bool,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The run, as a unique prefix of its ID [default: the last one]
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
}
