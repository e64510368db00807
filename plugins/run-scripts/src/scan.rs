//! The scan for scripts: the executables directly in the resource directory.

use crate::comments::{self, Comments};
use crate::script::{PREFIX, Script};
use bstr::BStr;
use holo_change::error::PathError;
use holo_plugin::{Host, Output, Plugin, ScanError};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Comments have a meaning from this version of the interface on.
const VERSION_OF_COMMENTS: u32 = 4;

/// The plugin `run-scripts`.
pub(crate) struct RunScripts;

impl Plugin for RunScripts {
    type Entity = Script;

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Script>, ScanError> {
        let names = names(host.resource_dir()).map_err(|error| {
            output.error(error.to_string());
            ScanError
        })?;
        Ok(names.into_iter().filter_map(|name| script(host, name, output)).collect())
    }

    fn find(&self, host: &Host, id: &BStr, output: &mut Output<'_>) -> Result<Option<Script>, ScanError> {
        let name = id.strip_prefix(PREFIX).filter(|name| !name.contains(&b'/'));
        Ok(name.and_then(|name| script(host, OsStr::from_bytes(name).to_owned(), output)))
    }
}

/// Returns the names in the directory, sorted.
fn names(folder: &Path) -> Result<Vec<OsString>, PathError> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(|error| PathError::new("open", folder, error))?;
    let mut names: Vec<OsString> = entries.into_iter().map(|entry| entry.file_name()).collect();
    names.sort();
    Ok(names)
}

/// The script of this name, if there is an executable file, or a symlink to one.
fn script(host: &Host, name: OsString, output: &mut Output<'_>) -> Option<Script> {
    let path = host.resource_dir().join(&name);
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
