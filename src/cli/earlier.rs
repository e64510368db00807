//! The options of the commands about earlier runs.

use super::Output;
use clap::{Args, Subcommand};
use std::ffi::OsString;

/// `holo generations`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct Generations {
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The command; the list of all generations if there is none
    #[command(subcommand)]
    pub verb: Option<GenerationsVerb>,
}

/// The commands about generations.
#[derive(Debug, Subcommand)]
pub enum GenerationsVerb {
    /// Show how the inputs of a generation differ from those of another, or from today's
    Diff(GenerationsDiff),
}

/// `holo generations diff`
#[derive(Debug, Args)]
pub struct GenerationsDiff {
    /// The number of the first generation
    #[arg(value_name = "FROM")]
    pub from: u32,
    /// The number of the second generation; today's inputs if there is none
    #[arg(value_name = "TO")]
    pub to: Option<u32>,
}

/// `holo rollback`
#[derive(Debug, Args)]
pub struct Rollback {
    /// Only show what would be done
    #[arg(long, conflicts_with = "release")]
    pub dry_run: bool,
    /// Show what is changed as unified diffs, or would be
    #[arg(long, conflicts_with = "release")]
    pub diff: bool,
    /// Overwrite or restore what people changed or deleted
    #[arg(short, long, conflicts_with = "release")]
    pub force: bool,
    /// Use today's inputs again from the next apply on
    #[arg(long, conflicts_with = "generation")]
    pub release: bool,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The number of the generation [default: the one before that which is used]
    #[arg(value_name = "GENERATION")]
    pub generation: Option<u32>,
}

/// `holo history`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct History {
    /// Number of lines at most; 0 for all
    #[arg(short, long, value_name = "N", default_value_t = 20)]
    pub number: usize,
    /// Leave out what was before: 12h, 7d, 2026-11-22, "2026-11-22 09:14", yesterday
    #[arg(long, value_name = "TIME", value_parser = crate::time::parse)]
    pub since: Option<jiff::Timestamp>,
    /// Show only what failed, was refused or interrupted
    #[arg(long)]
    pub failed: bool,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The command.
    #[command(subcommand)]
    pub verb: Option<HistoryVerb>,
    /// Entity IDs, plugin IDs or paths; the runs themselves if there is none
    // Another name would have them moved behind the options, and `show` with them.
    #[arg(value_name = "SELECTOR")]
    pub subjects: Vec<OsString>,
}

/// The commands about earlier applies.
#[derive(Debug, Subcommand)]
pub enum HistoryVerb {
    /// Show what a run did
    Show(HistoryShow),
}

/// `holo history show`
#[derive(Debug, Args)]
pub struct HistoryShow {
    /// Show the differences that it made
    #[arg(long)]
    pub diff: bool,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The run, by the beginning of its ID; the last one if there is none
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
}
