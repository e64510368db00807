//! `holo-build`: compiles a description of a package into a package for Debian, pacman or RPM.
//!
//! [`Source::read`] reads a description into a [`Package`], which [`Package::write`] writes. No external program is
//! needed for that, except to sign.

mod archive;
mod check;
mod content;
mod debian;
mod description;
mod findings;
mod format;
mod output;
mod package;
mod pacman;
mod relation;
mod rpm;
mod sign;
mod tables;

pub use description::Source;
pub use findings::Finding;
pub use format::Format;
pub use output::BuildError;
pub use package::Package;

use clap::Parser;
use holo_process::words::reason;
use holo_process::{Stream, streams};
use output::Destination;
use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The exit status if the description is not valid.
const INVALID: u8 = 1;
/// The exit status if the package cannot be built or written.
const FAILED: u8 = 2;

/// The package cannot be built, for a reason that is not in its description.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("read {name}: {}", reason(source))]
    Read { name: String, source: io::Error },
    #[error("cannot keep the files of the package in {}: {}", env::temp_dir().display(), reason(.0))]
    Contents(io::Error),
    #[error("the package format of this distribution is unknown; choose one with --format")]
    NoFormat,
    #[error("SOURCE_DATE_EPOCH={0} is not a number of seconds since 1970")]
    Time(String),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Check(#[from] check::PackageCheckError),
}

/// Runs the command line and returns the exit code.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(usage) => {
            let stream = if usage.use_stderr() { Stream::Stderr } else { Stream::Stdout };
            let _ = streams::write(stream, usage.to_string().as_bytes());
            return ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(FAILED));
        }
    };
    match build(&cli) {
        Ok(code) => code,
        Err(failure) => {
            show("!!", &failure);
            ExitCode::from(FAILED)
        }
    }
}

fn build(cli: &Cli) -> Result<ExitCode, Failure> {
    for (_, option) in cli.deprecated() {
        show("!!", &format!("--{option} is deprecated - use \"--format {option}\" instead"));
    }
    let root = env::var_os("HOLO_ROOT_DIR").filter(|root| !root.is_empty()).map_or("/".into(), PathBuf::from);
    let format = cli.format().or_else(|| Format::of_system(&root)).ok_or(Failure::NoFormat)?;
    let (name, text) = description(cli)?;
    let directory = cli.file().and_then(Path::parent).unwrap_or(Path::new(""));
    let time = time()?;
    let source = Source { name: &name, text: &text, directory, format, root: &root, time };
    let (package, findings) = source.read().map_err(Failure::Contents)?;
    report(&findings);
    let Some(package) = package else { return Ok(ExitCode::from(INVALID)) };
    if cli.suggest_filename {
        return print(&package.file_name());
    }
    if !cli.no_check {
        let holo = holo_check::find_holo();
        if holo.is_none() && cli.check {
            return Err(check::PackageCheckError::NoHolo.into());
        }
        let findings = holo.map(|holo| check::check(&package, &name, &holo, &root)).transpose()?.unwrap_or_default();
        report(&findings);
        if findings.iter().any(|finding| finding.is_error) {
            return Ok(ExitCode::from(INVALID));
        }
    }
    if !cli.check {
        let destination = Destination::new(cli.output.as_deref(), &package);
        package.save(&destination, cli.force, cli.sign_key.as_deref())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the description, and returns it with its name in messages.
fn description(cli: &Cli) -> Result<(String, Vec<u8>), Failure> {
    let mut text = Vec::new();
    let (name, read) = match cli.file() {
        Some(path) => (path.display().to_string(), std::fs::read(path).map(|content| text = content)),
        None => ("stdin".to_owned(), io::stdin().read_to_end(&mut text).map(drop)),
    };
    match read {
        Ok(()) => Ok((name, text)),
        Err(source) => Err(Failure::Read { name, source }),
    }
}

/// Returns the time of all files: `SOURCE_DATE_EPOCH`, or 0.
fn time() -> Result<u32, Failure> {
    let Some(time) = env::var_os("SOURCE_DATE_EPOCH").filter(|time| !time.is_empty()) else { return Ok(0) };
    let time = time.to_string_lossy().into_owned();
    time.parse().map_err(|_| Failure::Time(time))
}

fn print(line: &str) -> Result<ExitCode, Failure> {
    let written = streams::write(Stream::Stdout, format!("{line}\n").as_bytes());
    written.map_err(|source| BuildError::Io { path: "standard output".into(), source })?;
    Ok(ExitCode::SUCCESS)
}

fn report(findings: &[Finding]) {
    findings.iter().for_each(|finding| show(if finding.is_error { "!!" } else { ">>" }, finding));
}

fn show(mark: &str, message: &dyn Display) {
    streams::complain(format_args!("{mark} {message}"));
}

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
