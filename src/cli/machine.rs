//! The options of the commands about what is known of this machine.

use super::Output;
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// `holo doctor`
#[derive(Debug, Args)]
pub struct Doctor {
    /// The form of the output
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
    /// The command; `show` if there is none
    #[command(subcommand)]
    pub verb: Option<StateVerb>,
}

/// The commands about the state database.
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
    /// Write a single value of JSON, for programs
    #[arg(long)]
    pub json: bool,
    /// The value to show, as in `os.id`; everything if there is none
    #[arg(value_name = "QUERY")]
    pub query: Option<String>,
}

/// `holo data`
#[derive(Debug, Args)]
pub struct Data {
    /// Say which files the values came from
    #[arg(long)]
    pub explain: bool,
    /// Write a single value of JSON, for programs
    #[arg(long)]
    pub json: bool,
    /// The value to show, as in `web.port`; everything if there is none
    #[arg(value_name = "KEY")]
    pub key: Option<String>,
}

/// `holo why`
#[derive(Debug, Args)]
pub struct Why {
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// A path, an entity ID, or the part of IDs behind the colon
    #[arg(value_name = "SELECTOR", required = true)]
    pub subject: OsString,
}

/// `holo blame`
#[derive(Debug, Args)]
pub struct Blame {
    /// The form of the output
    #[command(flatten)]
    pub output: Output,
    /// The path of a file, or the ID of the entity that it is
    #[arg(value_name = "SELECTOR", required = true)]
    pub subject: OsString,
}
