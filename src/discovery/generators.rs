//! Runs generators, programs that write resource files before the plugins scan for them.

use crate::entities::resources::Generated;
use crate::error::FatalError;
use crate::generations;
use crate::host::cache::CacheDirectory;
use crate::host::interrupt::Interrupt;
use crate::host::settings::Settings;
use crate::plugin::process::{self, Program, RunError};
use crate::plugin::{PluginError, check_status};
use crate::report::Remarks;
use bstr::ByteSlice;
use holo_protocol::environment as names;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use walkdir::WalkDir;

/// A generator could not be run, or failed.
#[derive(Debug, thiserror::Error)]
#[error("could not run {}: {source}", path.display())]
struct GeneratorError {
    path: PathBuf,
    source: PluginError,
}

/// The time limit of a generator if none was given. Generators write files before anything is shown, so one that never
/// ends would look like a hanging dispatcher.
const TIME_LIMIT: Duration = Duration::from_secs(10 * 60);

/// Runs all generators, in the order of their names. If the inputs of an earlier run are in use, the files that
/// generators made then are used instead.
///
/// # Errors
/// If one cannot be run or fails; the remaining ones are not run then.
pub fn run(
    settings: &Settings,
    cache: &CacheDirectory,
    interrupt: &Interrupt,
    remarks: &mut impl Remarks,
) -> Result<Generated, FatalError> {
    let virtual_root = cache.subdirectory("generated-resources")?;
    if let Some(inputs) = settings.root.earlier_inputs() {
        return generations::restore_generated(inputs, &virtual_root).map_err(FatalError::could_not_run);
    }
    let mut generated = Generated::new();
    let mut made = BTreeSet::new();
    for (index, generator) in find(&settings.root.generators())?.into_iter().enumerate() {
        let environment = vec![
            (names::GENERATOR_OUT, virtual_root.clone().into()),
            (names::GENERATOR_RESOURCE_ROOT, settings.root.resources().into()),
            (names::ROOT_DIR, settings.root.as_given().into()),
            (names::CACHE_DIR, cache.subdirectory(&format!("generated-resources.cache/{index}"))?.into()),
            (names::FACTS, cache.facts().into()),
        ];
        let arguments = Vec::new();
        let limit = Some(settings.limit.unwrap_or(TIME_LIMIT));
        let (messages, requests, max_output) = (false, false, settings.max_output);
        let program = Program { path: &generator, arguments, environment, messages, requests, limit, max_output };
        let shown = settings.root.with_shown_paths(&generator.to_string_lossy());
        run_one(program, Path::new(&shown), interrupt, remarks)?;
        made = made_below(&virtual_root)?;
        for path in &made {
            generated.entry(path.clone()).or_insert_with(|| generator.clone());
        }
    }
    // A later generator may have removed files of an earlier one.
    generated.retain(|path, _| made.contains(path));
    Ok(generated)
}

/// Returns the generators below the directory that are not executable. Each of them makes every run fail.
#[must_use]
pub fn not_executable(folder: &Path) -> Vec<PathBuf> {
    let is_executable = |path: &Path| path.metadata().is_ok_and(|found| found.permissions().mode() & 0o111 != 0);
    find(folder).unwrap_or_default().into_iter().filter(|path| !is_executable(path)).collect()
}

/// Returns true if a remark is the output of a generator.
#[must_use]
pub fn is_output(remark: &[u8]) -> bool {
    remark.starts_with(OUTPUT)
}

/// The prefix of remarks that contain the output of a generator.
const OUTPUT: &[u8] = b"output from ";

/// Returns the regular files below the directory, which need not exist.
pub(super) fn find(folder: &Path) -> Result<Vec<PathBuf>, FatalError> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in WalkDir::new(folder).min_depth(1).sort_by_file_name() {
        let entry = entry.map_err(|error| FatalError::walk(folder, error))?;
        if entry.file_type().is_file() {
            found.push(entry.into_path());
        }
    }
    Ok(found)
}

fn run_one(
    program: Program<'_>,
    path: &Path,
    interrupt: &Interrupt,
    remarks: &mut impl Remarks,
) -> Result<(), FatalError> {
    let failed =
        |source: PluginError| FatalError::Generator(Box::new(GeneratorError { path: path.to_owned(), source }));
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let ended = program.run(interrupt, |channel, bytes| {
        let line = if channel == process::Channel::Stdout { &mut stdout } else { &mut stderr };
        line.extend_from_slice(bytes);
        // The rest has been searched already.
        if bytes.contains(&b'\n') {
            show_whole_lines(path, line, remarks);
        }
    });
    for mut rest in [stdout, stderr] {
        if !rest.is_empty() {
            rest.push(b'\n');
            show_whole_lines(path, &mut rest, remarks);
        }
    }
    let ended = ended.map_err(|error| match error {
        RunError::Start(error) => failed(error.into()),
        RunError::TimedOut(limit) => failed(PluginError::TimedOut(limit)),
        RunError::TooMuch(error) => failed(PluginError::TooMuch(error)),
        RunError::Interrupted(fatal) => fatal.during([path.display().to_string()]),
    })?;
    check_status(ended.status).map_err(failed)
}

fn show_whole_lines(generator: &Path, text: &mut Vec<u8>, remarks: &mut impl Remarks) {
    let Some(end) = text.rfind_byte(b'\n') else { return };
    for line in text.drain(..=end).as_slice().lines() {
        let intro = [OUTPUT, generator.as_os_str().as_bytes(), b": "].concat();
        remarks.warning([&intro[..], line].concat());
    }
}

/// Returns the paths, relative to the virtual root, of files and of empty directories inside the directories of
/// plugins.
fn made_below(virtual_root: &Path) -> Result<BTreeSet<PathBuf>, FatalError> {
    let mut made = BTreeSet::new();
    for entry in WalkDir::new(virtual_root).min_depth(1) {
        let entry = entry.map_err(|error| FatalError::walk(virtual_root, error))?;
        if let Ok(below) = entry.path().strip_prefix(virtual_root)
            && (!entry.file_type().is_dir() || (entry.depth() > 1 && is_empty(entry.path())?))
        {
            made.insert(below.to_owned());
        }
    }
    Ok(made)
}

fn is_empty(directory: &Path) -> Result<bool, FatalError> {
    let mut entries = fs::read_dir(directory).map_err(|error| FatalError::io("open", directory, error))?;
    Ok(entries.next().is_none())
}
