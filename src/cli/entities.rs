//! The options of the commands that inspect and change entities.

use super::{Output, Selection};
use clap::Args;
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// `holo apply`
#[derive(Debug, Args)]
pub struct Apply {
    /// Overwrite manual changes, and restore deleted files
    #[arg(short, long)]
    pub force: bool,
    /// Only show what would be done, like `check`
    #[arg(long)]
    pub dry_run: bool,
    /// Show changes, or pending changes, as unified diffs
    #[arg(long)]
    pub diff: bool,
    /// Read everything again, including files that are known to be unchanged
    #[arg(long)]
    pub verify: bool,
    /// Number of entities of a plugin to apply concurrently [default: number of processors]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroU32>,
    /// End the run after this time, as if by a signal: 90s, 1m30s, 1h
    #[arg(long, value_name = "DURATION", value_parser = holo_definitions::duration::parse)]
    pub timeout: Option<Duration>,
    /// Stop at the first entity that fails or is refused; applies entities one at a time
    #[arg(long)]
    pub fail_fast: bool,
    /// Exit with 0 even if entities fail or are refused, like version 3
    #[arg(long)]
    pub exit_zero: bool,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The entities to apply
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo check`
#[derive(Debug, Args)]
pub struct Check {
    /// Show pending changes as unified diffs
    #[arg(long)]
    pub diff: bool,
    /// Number of entities of a plugin to check concurrently [default: number of processors]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroU32>,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The entities to check
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo health`
#[derive(Debug, Args)]
pub struct Health {
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The entities whose checks are run
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo watch`
#[derive(Debug, Args)]
pub struct Watch {
    /// Repair entities that have drifted
    #[arg(long)]
    pub apply: bool,
    /// Also overwrite manual changes, and restore deleted files
    #[arg(short, long, requires = "apply")]
    pub force: bool,
    /// Quiet period that must pass after an event before entities are checked
    #[arg(long, value_name = "DURATION", value_parser = holo_definitions::duration::parse, default_value = "200ms")]
    pub settle: Duration,
    /// Exit after the first event has been handled
    #[arg(long)]
    pub once: bool,
    /// Exit when nothing has changed for this time: 90s, 1m30s, 1h
    #[arg(long = "for", value_name = "DURATION", value_parser = holo_definitions::duration::parse)]
    pub converged: Option<Duration>,
    /// Number of entities of a plugin to check or apply concurrently [default: number of processors]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroU32>,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The entities to watch
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo diff`
#[derive(Debug, Args)]
pub struct Diff {
    /// Show what an apply would change instead
    #[arg(long)]
    pub pending: bool,
    /// Exit with 0 even if entities fail or definitions are invalid, like version 3
    #[arg(long)]
    pub exit_zero: bool,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The entities to diff
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo adopt`
#[derive(Debug, Args)]
pub struct Adopt {
    /// Adopt all manual changes that plugins find and no resource file describes
    #[arg(long, conflicts_with = "selectors", required_unless_present = "selectors")]
    pub all: bool,
    /// Only show what would be written
    #[arg(long)]
    pub dry_run: bool,
    /// Open an editor for lines with conflicting changes
    #[arg(long)]
    pub edit: bool,
    /// Write a description of a package for holo-build, and no resource files
    #[arg(long, value_name = "NAME", requires = "description", conflicts_with = "dry_run", value_parser = package_name)]
    pub package: Option<String>,
    /// The file for the description of the package
    #[arg(long = "output", value_name = "FILE", requires = "package")]
    pub description: Option<PathBuf>,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// Paths and entity IDs
    #[arg(value_name = "SELECTOR")]
    pub selectors: Vec<OsString>,
}

/// Parses the name of a package, which becomes part of paths. The rules of its format are checked by holo-build.
fn package_name(text: &str) -> Result<String, &'static str> {
    let is_safe = |letter: char| letter.is_ascii_alphanumeric() || "@._+-".contains(letter);
    let is_name = text.starts_with(|letter: char| letter.is_ascii_alphanumeric()) && text.chars().all(is_safe);
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("expected letters, digits and @ . _ + -, beginning with a letter or digit")
    }
}

/// `holo scan`
#[derive(Debug, Args)]
pub struct Scan {
    /// Exit with 0 even if definitions are invalid, like version 3
    #[arg(long)]
    pub exit_zero: bool,
    /// Show only entity IDs
    #[arg(short, long, conflicts_with_all = ["porcelain", "json"])]
    pub short: bool,
    /// Show reports in the format of plugins, for scripts
    #[arg(short, long, conflicts_with = "json")]
    pub porcelain: bool,
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The selected entities
    #[command(flatten)]
    pub selection: Selection,
}

/// `holo graph`
#[derive(Debug, Args)]
pub struct Graph {
    /// The language of the graph
    #[arg(long, value_enum, default_value = "dot")]
    pub format: Picture,
    /// Exit with 0 even if definitions are invalid
    #[arg(long)]
    pub exit_zero: bool,
    /// The selected entities
    #[command(flatten)]
    pub selection: Selection,
}

/// The languages of graphs.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Picture {
    /// For Graphviz
    Dot,
    /// A Mermaid flowchart
    Mermaid,
    /// A self-contained picture
    Svg,
}

/// `holo selectors`
#[derive(Debug, Args)]
pub struct Selectors {
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// List only selectors with this prefix
    #[arg(long)]
    pub prefix: Option<OsString>,
}
