//! The options of the commands about this machine.

use super::Output;
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// `holo doctor`
#[derive(Debug, Args)]
pub struct Doctor {
    /// The output format
    #[command(flatten)]
    pub output: Output,
}

/// `holo report`
#[derive(Debug, Args)]
pub struct Report {
    /// The file to write the page to [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `holo state`
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct State {
    /// The subcommand [default: show]
    #[command(subcommand)]
    pub verb: Option<StateVerb>,
}

/// The subcommands of `holo state`.
#[derive(Debug, Subcommand)]
pub enum StateVerb {
    /// Count the rows of each table
    Show,
    /// Verify the integrity of the database
    Check,
    /// Write every row as JSON Lines
    Export,
    /// Read an export into an empty database
    Import {
        /// The file to read; - for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Replace a damaged database with the rows that can be read
    Repair,
}

/// `holo facts`
#[derive(Debug, Args)]
pub struct Facts {
    /// Write a single JSON value
    #[arg(long)]
    pub json: bool,
    /// The value to show, such as `os.id`; everything if omitted
    #[arg(value_name = "QUERY")]
    pub query: Option<String>,
}

/// `holo data`
#[derive(Debug, Args)]
pub struct Data {
    /// Show which files the values come from
    #[arg(long)]
    pub explain: bool,
    /// Write a single JSON value
    #[arg(long)]
    pub json: bool,
    /// The value to show, such as `web.port`; everything if omitted
    #[arg(value_name = "KEY")]
    pub key: Option<String>,
}

/// `holo why`
#[derive(Debug, Args)]
pub struct Why {
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// A path, an entity ID, or the part of an ID after the colon
    #[arg(value_name = "SELECTOR", required = true)]
    pub subject: OsString,
}

/// `holo blame`
#[derive(Debug, Args)]
pub struct Blame {
    /// The output format
    #[command(flatten)]
    pub output: Output,
    /// The path of a file, or the ID of its entity
    #[arg(value_name = "SELECTOR", required = true)]
    pub subject: OsString,
}
