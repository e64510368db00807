//! The options of the commands that look at entities and work on them.

use super::{Output, Selection};
use clap::Args;
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::time::Duration;

/// `holo apply`
#[derive(Debug, Args)]
pub struct Apply {
    /// Overwrite or restore what people changed or deleted
    #[arg(short, long)]
    pub force: bool,
    /// Only show what would be done, as `check` does
    #[arg(long)]
    pub dry_run: bool,
    /// Show what is changed as unified diffs, or would be
    #[arg(long)]
    pub diff: bool,
    /// Read everything anew, whatever is known to be unchanged
    #[arg(long)]
    pub verify: bool,
    /// Number of entities of a plugin to work on at a time [default: one a processor]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroU32>,
    /// End the run, as by a signal, when it takes longer: 90s, 1m30s, 1h
    #[arg(long, value_name = "DURATION", value_parser = holo_definitions::duration::parse)]
    pub timeout: Option<Duration>,
    /// Stop at the first entity that fails or is refused; entities are worked on one by one then
    #[arg(long)]
    pub fail_fast: bool,
    /// End with 0 even if entities fail or are refused, as version 3 did
    #[arg(long)]
    pub exit_zero: bool,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The entities to apply
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo check`
#[derive(Debug, Args)]
pub struct Check {
    /// Show what would be changed as unified diffs
    #[arg(long)]
    pub diff: bool,
    /// Number of entities of a plugin to look at at a time [default: one a processor]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroU32>,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The entities to check
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo health`
#[derive(Debug, Args)]
pub struct Health {
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The entities whose checks are run
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo watch`
#[derive(Debug, Args)]
pub struct Watch {
    /// Apply entities that have changed
    #[arg(long)]
    pub apply: bool,
    /// Overwrite or restore what people changed or deleted, too
    #[arg(short, long, requires = "apply")]
    pub force: bool,
    /// Time that it has to be quiet before something is looked at
    #[arg(long, value_name = "DURATION", value_parser = holo_definitions::duration::parse, default_value = "200ms")]
    pub settle: Duration,
    /// End when something has happened, and was dealt with
    #[arg(long)]
    pub once: bool,
    /// End when nothing has changed for so long: 90s, 1m30s, 1h
    #[arg(long = "for", value_name = "DURATION", value_parser = holo_definitions::duration::parse)]
    pub converged: Option<Duration>,
    /// Number of entities of a plugin to work on at a time [default: one a processor]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroU32>,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The entities to watch
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo diff`
#[derive(Debug, Args)]
pub struct Diff {
    /// Show what applying entities would change instead
    #[arg(long)]
    pub pending: bool,
    /// End with 0 even if entities fail or definitions are broken, as version 3 did
    #[arg(long)]
    pub exit_zero: bool,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The entities to diff
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo adopt`
#[derive(Debug, Args)]
pub struct Adopt {
    /// Adopt everything that plugins find on this machine and no resource file describes
    #[arg(long, conflicts_with = "selectors", required_unless_present = "selectors")]
    pub all: bool,
    /// Only show what would be written
    #[arg(long)]
    pub dry_run: bool,
    /// Open an editor where a person and the resource files have changed the same lines
    #[arg(long)]
    pub edit: bool,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// Paths and entity IDs
    #[arg(value_name = "SELECTOR")]
    pub selectors: Vec<OsString>,
}

/// `holo scan`
#[derive(Debug, Args)]
pub struct Scan {
    /// End with 0 even if definitions are broken, as version 3 did
    #[arg(long)]
    pub exit_zero: bool,
    /// Show only entity IDs
    #[arg(short, long, conflicts_with_all = ["porcelain", "json"])]
    pub short: bool,
    /// Show reports as plugins write them, for scripts
    #[arg(short, long, conflicts_with = "json")]
    pub porcelain: bool,
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The selected entities
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo graph`
#[derive(Debug, Args)]
pub struct Graph {
    /// The language of the picture
    #[arg(long, value_enum, default_value = "dot")]
    pub format: Picture,
    /// End with 0 even if definitions are broken
    #[arg(long)]
    pub exit_zero: bool,
    /// The selected entities
    #[command(flatten)]
    pub selection: Selection,
}

/// The languages of pictures.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Picture {
    /// Graphviz's
    Dot,
    /// Mermaid's flowcharts
    Mermaid,
    /// A picture that needs no other program
    Svg,
}

/// `holo selectors`
#[derive(Debug, Args)]
pub struct Selectors {
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// List only those that begin so
    #[arg(long)]
    pub prefix: Option<OsString>,
}
