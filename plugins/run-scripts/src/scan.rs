//! Scanning for scripts: the executable files directly in the resource directory.

use crate::comments::{self, Comments};
use crate::script::{PREFIX, Script};
use bstr::BStr;
use holo_change::error::PathError;
use holo_plugin::definitions::ListError;
use holo_plugin::{Host, Output, Plugin, ScanError};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The first version of the interface in which declarations are supported.
const VERSION_OF_COMMENTS: u32 = 4;

/// The `run-scripts` plugin.
pub(crate) struct RunScripts;

impl Plugin for RunScripts {
    type Entity = Script;

    const READS: &'static [&'static str] = &["x:*"];

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Script>, ScanError> {
        let mut files = host.resources().list(Path::new("")).map_err(|ListError { path, error }| {
            output.error(PathError::new("open", path, error).to_string());
            ScanError
        })?;
        files.sort_by(|one, other| one.below.as_os_str().cmp(other.below.as_os_str()));
        Ok(files.into_iter().filter_map(|file| script(host, file.below.into(), file.path, output)).collect())
    }

    fn find(&self, host: &Host, id: &BStr, output: &mut Output<'_>) -> Result<Option<Script>, ScanError> {
        let name = id.strip_prefix(PREFIX).filter(|name| !name.contains(&b'/'));
        let name = name.map(|name| OsStr::from_bytes(name).to_owned());
        let found = name.and_then(|name| Some((host.resources().directory_of(Path::new(&name)).ok()?, name)));
        Ok(found.and_then(|(directory, name)| script(host, name.clone(), directory.join(name), output)))
    }
}

/// Returns the script with this name, if it is an executable file, or a symlink to one.
fn script(host: &Host, name: OsString, path: PathBuf, output: &mut Output<'_>) -> Option<Script> {
    let found = fs::metadata(&path).ok()?;
    if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
        return None;
    }
    if name.as_bytes().contains(&b'\n') {
        output.error(format!("cannot run {path:?}: a script's name must not hold a newline; rename it"));
        return None;
    }
    let comments =
        if host.api_version() < VERSION_OF_COMMENTS { Comments::default() } else { comments::read(&path, output) };
    Some(Script { name, path, comments })
}
