//! The handshake with a plugin: finds its program, and negotiates the version of the interface.

use super::error::{OperationError, PluginError, check_status};
use super::process::{Channel, Program, RunError};
use crate::host::config::PluginLine;
use crate::host::interrupt::Interrupt;
use crate::host::root::Root;
use crate::host::settings::Settings;
use holo_protocol::session::Stream;
use holo_protocol::{API_VERSION_3, API_VERSION_4, Info, environment as names};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A plugin's answer to the handshake.
#[derive(Clone, Debug)]
pub struct Handshake {
    /// The plugin's program.
    pub program: PathBuf,
    /// The negotiated version.
    pub api_version: u32,
    /// The plugin's description of itself.
    pub info: Info,
}

/// Returns the path of the plugin's program.
///
/// # Errors
/// The path at which the program is missing.
pub fn locate(line: &PluginLine, settings: &Settings) -> Result<PathBuf, PathBuf> {
    let candidates = line.program.clone().map_or_else(
        || default_programs(&line.id, &settings.root, settings.program_directory.as_deref()),
        |program| vec![program],
    );
    let found = candidates.iter().find(|path| path.exists()).cloned();
    found.ok_or_else(|| candidates.into_iter().next().unwrap_or_default())
}

/// Returns the candidates for a plugin's program if its line contains no path: in the default directory below the root,
/// next to this program, and in the default directory of the host. The first one that exists is used; if none does,
/// messages name the first candidate.
fn default_programs(id: &str, root: &Root, program_directory: Option<&Path>) -> Vec<PathBuf> {
    let name = format!("holo-{id}");
    let usual = |root: &Root| root.join("usr/lib/holo").join(&name);
    let beside = program_directory.map(|folder| folder.join(&name));
    [usual(root)].into_iter().chain(beside).chain([usual(&Root::new(None))]).collect()
}

/// Calls a plugin's `info` operation.
///
/// # Errors
/// If it fails, or its answer is invalid.
pub fn ask(
    id: &str,
    program: &Path,
    settings: &Settings,
    interrupt: &Interrupt,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Info, OperationError> {
    let mut output = Vec::new();
    let request = Program {
        path: program,
        arguments: vec![OsStr::new("info")],
        environment: vec![
            (names::ROOT_DIR, settings.root.as_given().into()),
            (names::API_VERSION, API_VERSION_3.to_string().into()),
        ],
        messages: false,
        requests: false,
        limit: settings.limit,
        max_output: settings.max_output,
    };
    let ended = request.run(interrupt, |channel, bytes| match channel {
        Channel::Stdout => output.extend_from_slice(bytes),
        Channel::Stderr | Channel::Extra => on_output(Stream::Stderr, bytes),
    });
    let failed = |source: PluginError| PluginError::Info { id: id.to_owned(), source: Box::new(source) };
    let ended = ended.map_err(|error| match error {
        RunError::TimedOut(limit) => failed(PluginError::TimedOut(limit)).into(),
        RunError::TooMuch(error) => failed(PluginError::TooMuch(error)).into(),
        error => OperationError::from(error).during(|| format!("the plugin {id}")),
    })?;
    check_status(ended.status).map_err(failed)?;
    Ok(Info::parse(&output).map_err(|source| PluginError::InfoForm { id: id.to_owned(), source })?)
}

impl Handshake {
    /// Negotiates the version of the interface.
    ///
    /// # Errors
    /// If the plugin does not support any of our versions.
    pub fn new(id: &str, program: PathBuf, mut info: Info) -> Result<Handshake, PluginError> {
        let api_version = info.common_version(API_VERSION_3, API_VERSION_4).ok_or_else(|| incompatible(id, &info))?;
        // Sessions require version 4.
        info.session &= api_version >= API_VERSION_4;
        Ok(Handshake { program, api_version, info })
    }
}

fn incompatible(id: &str, info: &Info) -> PluginError {
    PluginError::Incompatible { id: id.to_owned(), min: info.min_api_version, max: info.max_api_version }
}
