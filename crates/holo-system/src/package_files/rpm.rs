//! RPM, whose database only its own program can read.

use super::{Digest, Found, PackagedFile, Wanted};
use crate::package_manager::RPM_DATABASES;
use crate::root::Root;
use bstr::ByteSlice;
use holo_process::Program;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// A line for each file of a package: the query selects packages.
const FORMAT: &str = "[%{=NAME}\\t%{FILEDIGESTS}\\t%{FILENAMES}\\n]";
const TIME_LIMIT: Duration = Duration::from_secs(10);

pub(super) fn find(root: &Root, wanted: &Wanted) -> Found {
    let mut found = Found::new();
    // A query would create the database.
    let Some(database) = RPM_DATABASES.iter().find(|path| root.has(path)) else { return found };
    let mut query = Program::new("rpm");
    if !root.is_running() {
        query.arg("--root").arg(root.shown(""));
    }
    if let Some(folder) = Path::new(database).parent() {
        query.arg("--dbpath").arg(Path::new("/").join(folder));
    }
    query.args(["--query", "--file", "--queryformat", FORMAT, "--"]).timeout(TIME_LIMIT).env("LC_ALL", "C");
    query.args(wanted.names().map(|name| Path::new("/").join(OsStr::from_bytes(name))));
    // The command fails if a file has no owner, but still reports the others.
    let Ok(output) = query.output() else { return found };
    for line in output.stdout.lines() {
        let mut fields = line.splitn_str(3, "\t");
        let (Some(package), Some(digest), Some(name)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let Some(name) = name.strip_prefix(b"/").filter(|name| wanted.has(name)) else { continue };
        let digest = digest.to_str().ok().filter(|digest| !digest.is_empty()).map(str::to_owned);
        let package = package.to_str_lossy().into_owned();
        let file = PackagedFile { package, digest: digest.map(Digest::Hexadecimal) };
        found.entry(name.to_vec()).or_insert(file);
    }
    found
}
