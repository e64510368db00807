//! `holo-fleet bundle`.

use super::Outcome;
use super::publish::{self, One, Prune, Push};
use crate::Cli;
use crate::bundle::{self, Bundle, BundleError, Contents, MAX_SIZE, Options, Version};
use crate::config::{Operator, Root};
use crate::names::{Label, NameError};
use crate::session::{Output, Session};
use crate::signing::Signers;
use clap::{Args, Subcommand};
use holo_check::{CheckError, Checker};
use holo_process::streams;
use serde::Serialize;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The commands for bundles.
#[derive(Debug, Subcommand)]
pub(crate) enum BundleVerb {
    /// Build a bundle from the files of a directory
    Build(Build),
    /// Sign a bundle with an SSH key: writes FILE.sig
    Sign(Sign),
    /// Verify the signature and the contents of a bundle
    Verify(Verify),
    /// Publish a bundle with its signature
    Push(Push),
    /// List the bundles on the server
    List,
    /// Show a bundle on the server
    Show(One),
    /// Delete a bundle that no channel uses
    Delete(One),
    /// Delete old versions of bundles that no channel uses
    Prune(Prune),
}

/// Options of `bundle build`.
#[derive(Debug, Args)]
pub(crate) struct Build {
    /// The directory with usr/share/holo, etc/holo/data and so on, and holo-bundle.toml
    directory: PathBuf,
    /// The name [default: that in holo-bundle.toml]
    #[arg(long)]
    name: Option<Label>,
    /// The version [default: that in holo-bundle.toml]
    #[arg(long)]
    version: Option<Version>,
    /// The file to write [default: NAME-VERSION.tar.zst]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The limit for the size of all files, such as 64MiB
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    max_size: u64,
    /// Also pack private keys that are not encrypted
    #[arg(long)]
    allow_secrets: bool,
}

/// Options of `bundle sign`.
#[derive(Debug, Args)]
pub(crate) struct Sign {
    /// The bundle
    file: PathBuf,
    /// The private SSH key, or the public one of a key in the SSH agent [default: signing_key of the configuration]
    #[arg(long, value_name = "KEY")]
    key: Option<PathBuf>,
}

/// Options of `bundle verify`.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The bundle
    file: PathBuf,
    /// The public keys whose signatures are accepted [default: /etc/holo/allowed_signers]
    #[arg(long, value_name = "FILE")]
    signers: Option<PathBuf>,
}

pub(crate) fn run(verb: &BundleVerb, cli: &Cli, root: &Root) -> Outcome {
    let output = cli.output();
    match verb {
        BundleVerb::Push(options) => Session::run(cli, root, async |session| publish::push(options, session).await),
        BundleVerb::List => Session::run(cli, root, async |session| publish::list(session).await),
        BundleVerb::Show(options) => Session::run(cli, root, async |session| publish::show(options, session).await),
        BundleVerb::Delete(options) => Session::run(cli, root, async |session| publish::delete(options, session).await),
        BundleVerb::Prune(options) => Session::run(cli, root, async |session| publish::prune(options, session).await),
        BundleVerb::Build(options) => build(options, output, root),
        BundleVerb::Sign(options) => sign(options, cli, root),
        BundleVerb::Verify(options) => verify(options, output, root),
    }
}

/// The line of `holo-fleet bundle build`, `sign` and `verify` with `--json`.
#[derive(Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Described<'a> {
    name: &'a Label,
    version: &'a Version,
    digest: &'a str,
    files: usize,
    bytes: u64,
    signed_by: Option<&'a str>,
    file: &'a Path,
}

impl<'a> Described<'a> {
    fn new(bundle: &'a Bundle, signed_by: Option<&'a str>, file: &'a Path) -> Described<'a> {
        let (files, bytes) = (bundle.manifest().files.len(), bundle.manifest().size());
        let (name, version, digest) = (bundle.name(), bundle.version(), bundle.digest());
        Described { name, version, digest, files, bytes, signed_by, file }
    }
}

fn describe(bundle: &Bundle, file: &Path, output: Output) -> Outcome {
    let described = Described::new(bundle, bundle.signed_by(), file);
    let Described { name, version, digest, files, bytes, signed_by, file } = described;
    let signed = signed_by.map(|signer| format!(", signed by {signer}")).unwrap_or_default();
    let files = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
    let text = format!("{}: {name} {version}, {files}, {bytes} bytes{signed}\nsha256:{digest}", file.display());
    output.show(&described, text)?;
    Ok(ExitCode::SUCCESS)
}

fn build(options: &Build, output: Output, root: &Root) -> Outcome {
    let Build { name, version, max_size, allow_secrets, .. } = options;
    let (name, version) = (name.clone(), version.clone());
    let wanted = Options { name, version, max_size: *max_size, allow_secrets: *allow_secrets };
    let contents = Contents::read(&options.directory, &wanted)?;
    let manifest = &contents.manifest;
    let file = options.output.clone();
    let file = file.unwrap_or_else(|| format!("{}-{}.tar.zst", manifest.name, manifest.version).into());
    let failed = |source| BundleError::Write { path: file.clone(), source };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    contents.write(io::BufWriter::new(temporary.as_file()), &file)?;
    // What hosts will read is checked, not what it was made from.
    let bundle = Bundle::open(temporary.path(), &Signers::new(root.allowed_signers()), true)?;
    if !check(&bundle, &options.directory, root)? {
        return Ok(ExitCode::FAILURE);
    }
    let mode = fs::Permissions::from_mode(0o644);
    temporary.as_file().set_permissions(mode).and_then(|()| temporary.as_file().sync_all()).map_err(failed)?;
    temporary.persist(&file).map_err(|error| failed(error.error))?;
    describe(&bundle, &file, output)
}

/// The resource files cannot be checked.
#[derive(Debug, thiserror::Error)]
enum BundleCheckError {
    #[error(
        "holo is not installed, so the bundle cannot be checked; install holo and the plugins that the bundle uses"
    )]
    NoHolo,
    #[error("cannot check the bundle: {0}")]
    Check(#[from] CheckError),
}

/// Checks the resource files with the plugins of this machine. Returns true if there are no errors.
fn check(bundle: &Bundle, directory: &Path, root: &Root) -> Result<bool, Box<dyn std::error::Error>> {
    let holo = holo_check::find_holo().ok_or(BundleCheckError::NoHolo)?;
    let scratch = tempfile::tempdir()?;
    bundle.unpack(|path, member, content| {
        let place = scratch.path().join(path);
        let failed = |source| BundleError::Write { path: place.clone(), source };
        if path.starts_with("etc/holorc.d/") {
            return io::copy(content, &mut io::sink()).map(drop).map_err(failed);
        }
        let folder = place.parent().unwrap_or(scratch.path());
        DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(failed)?;
        match member {
            bundle::Member::Symlink { target } => symlink(target, &place).map_err(failed),
            bundle::Member::File { .. } => {
                let mut open = OpenOptions::new();
                let file: io::Result<File> = open.write(true).create_new(true).mode(member.mode()).open(&place);
                io::copy(content, &mut file.map_err(failed)?).map(drop).map_err(failed)
            }
        }
    })?;
    let checker = Checker { holo: &holo, host: root.path(), otherwise: "" };
    let problems = checker.check(scratch.path()).map_err(BundleCheckError::from)?;
    let mut is_well = true;
    for problem in &problems {
        // People know the file in their directory.
        let text = problem.path.as_ref().map_or_else(
            || problem.text.clone(),
            |path| problem.text.replace(&format!("/{path}"), &directory.join(path).display().to_string()),
        );
        if depends_on_host(&text) {
            streams::complain(format_args!(">> {text} here; this is not checked until a host has its data"));
        } else {
            streams::complain(format_args!("{} {text}", if problem.is_error { "!!" } else { ">>" }));
            is_well &= !problem.is_error;
        }
    }
    Ok(is_well)
}

/// Returns true for an error in a template that uses data or facts which are not in the bundle, but may be on hosts.
fn depends_on_host(text: &str) -> bool {
    text.ends_with("` is undefined") && ["`data.", "`facts."].iter().any(|name| text.contains(name))
}

fn sign(options: &Sign, cli: &Cli, root: &Root) -> Outcome {
    let key = Operator::read(root, cli.config.as_deref())?.signing_key(options.key.as_deref())?;
    let bytes = bundle::read(&options.file)?;
    // Nothing is signed but a whole bundle.
    let bundle = Bundle::parse(&options.file, bytes, None, None)?;
    let signature = bundle.sign(&key)?;
    let path = bundle::signature_path(&options.file);
    let failed = |source| BundleError::Write { path: path.clone(), source };
    fs::write(&path, signature).map_err(failed)?;
    let key = key.display().to_string();
    let text = format!("{}: {} {}, signed with {key}", path.display(), bundle.name(), bundle.version());
    cli.output().show(&Described::new(&bundle, Some(&key), &path), text)?;
    Ok(ExitCode::SUCCESS)
}

fn verify(options: &Verify, output: Output, root: &Root) -> Outcome {
    let signers = options.signers.clone().unwrap_or_else(|| root.allowed_signers());
    let bundle = Bundle::open(&options.file, &Signers::new(signers), false)?;
    describe(&bundle, &options.file, output)
}

/// Parses a size, such as `64MiB`.
fn size(text: &str) -> Result<u64, NameError> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = match text.get(digits.len()..) {
        Some("") => Some(1),
        Some("KiB") => Some(1 << 10),
        Some("MiB") => Some(1 << 20),
        Some("GiB") => Some(1 << 30),
        _ => None,
    };
    let size = digits.parse::<u64>().ok().zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
    let size = size.filter(|size| (1..=MAX_SIZE).contains(size));
    size.ok_or_else(|| NameError::new(text, "a size such as \"512KiB\" or \"64MiB\"; hosts accept \"1GiB\" at most"))
}
