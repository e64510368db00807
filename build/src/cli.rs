//! The command line.

use crate::format::Format;
use clap::Parser;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Builds a package from a description
#[derive(Debug, Parser)]
#[command(name = "holo-build", version)]
pub(crate) struct Cli {
    /// The description of the package; - is standard input [default: -]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The format of the package [default: that of this distribution]
    #[arg(long, value_name = "FORMAT", value_enum, overrides_with_all = ["debian", "pacman", "rpm"])]
    format: Option<Format>,
    #[arg(long, hide = true)]
    debian: bool,
    #[arg(long, hide = true)]
    pacman: bool,
    #[arg(long, hide = true)]
    rpm: bool,
    /// The file to write, a directory for it, or - for standard output [default: the working directory]
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Only print the name of the package file
    #[arg(long, conflicts_with = "check")]
    pub(crate) suggest_filename: bool,
    /// Has no effect: every package is reproducible
    #[arg(long)]
    reproducible: bool,
    /// Only check the package with `holo check`
    #[arg(long, conflicts_with = "no_check")]
    pub(crate) check: bool,
    /// Build without `holo check`, which is run if holo is installed
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Sign the package with this key of gpg
    #[arg(long, value_name = "KEY")]
    pub(crate) sign_key: Option<OsString>,
}

impl Cli {
    /// Returns the path of the description; `None` for standard input.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref().filter(|file| *file != Path::new("-"))
    }

    /// Returns the requested format.
    pub(crate) fn format(&self) -> Option<Format> {
        self.format.or_else(|| self.deprecated().map(|(format, _)| format).next())
    }

    /// Returns the formats that were requested by deprecated options, with the names of these.
    pub(crate) fn deprecated(&self) -> impl Iterator<Item = (Format, &'static str)> {
        let options = [
            (self.debian, Format::Debian, "debian"),
            (self.pacman, Format::Pacman, "pacman"),
            (self.rpm, Format::Rpm, "rpm"),
        ];
        options.into_iter().filter(|(is_set, ..)| *is_set).map(|(_, format, name)| (format, name))
    }
}
