//! Which key sets there are: those with a file, and those that have left keys somewhere.

use crate::account;
use crate::home::Home;
use crate::keyset::{KeySet, Name, is_user_name};
use crate::record::Record;
use crate::source::Source;
use bstr::BStr;
use holo_plugin::error::PathError;
use holo_plugin::{Host, Output, Plugin, ScanError};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The plugin `ssh-keys`.
pub(crate) struct SshKeys;

/// The first version that has a use for where the keys go.
const VERSION_WITH_EDGES: u32 = 4;

impl Plugin for SshKeys {
    type Entity = KeySet;

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<KeySet>, ScanError> {
        let mut homes = Homes { host, known: HashMap::new() };
        let mut known = BTreeSet::new();
        let mut sets = Vec::new();
        for name in files(host, output)? {
            sets.extend(read(host, &name, output).map(|source| homes.key_set(&name, Some(source))));
            // A file that is broken is still there: its keys stay.
            known.insert(name.id());
        }
        for id in record(host, output)?.entities.into_iter().filter(|id| !known.contains(id)) {
            match Name::from_id(id.as_ref()) {
                Some(name) => sets.push(homes.key_set(&name, None)),
                None => output.error(format!("{id} is recorded as provisioned, but is no key set")),
            }
        }
        Ok(sets)
    }

    fn find(&self, host: &Host, id: &BStr, output: &mut Output<'_>) -> Result<Option<KeySet>, ScanError> {
        let Some(name) = Name::from_id(id) else { return Ok(None) };
        let mut homes = Homes { host, known: HashMap::new() };
        if fs::symlink_metadata(host.resource_dir().join(name.path())).is_ok() {
            return Ok(read(host, &name, output).map(|source| homes.key_set(&name, Some(source))));
        }
        let is_recorded = record(host, output)?.entities.iter().any(|recorded| recorded == id);
        Ok(is_recorded.then(|| homes.key_set(&name, None)))
    }
}

/// Where users live. Looking that up may mean to ask a server.
struct Homes<'a> {
    host: &'a Host,
    known: HashMap<String, Option<PathBuf>>,
}

impl Homes<'_> {
    fn key_set(&mut self, name: &Name, source: Option<Source>) -> KeySet {
        let path = self.host.resource_dir().join(name.path());
        KeySet { name: name.clone(), source, path, watched: self.watched(&name.user) }
    }

    fn watched(&mut self, user: &str) -> Option<PathBuf> {
        if self.host.api_version() < VERSION_WITH_EDGES {
            return None;
        }
        let look_up = || account::home(self.host, user).map(|home| Home::keys_below(&home));
        self.known.entry(user.to_owned()).or_insert_with(look_up).clone()
    }
}

fn said(error: &PathError, output: &mut Output<'_>) -> ScanError {
    output.error(error.to_string());
    ScanError
}

fn record(host: &Host, output: &mut Output<'_>) -> Result<Record, ScanError> {
    Record::read(host).map_err(|error| said(&error, output))
}

/// The names of all key files, sorted.
fn files(host: &Host, output: &mut Output<'_>) -> Result<BTreeSet<Name>, ScanError> {
    let mut names = BTreeSet::new();
    for user in entries(host.resource_dir(), output)? {
        let folder = host.resource_dir().join(&user);
        if !folder.is_dir() {
            continue;
        }
        if !is_user_name(user.as_encoded_bytes()) {
            output.error(format!("{} is not named as a user can be", folder.display()));
            continue;
        }
        for file in entries(&folder, output)? {
            let path = folder.join(&file);
            if path.extension().is_none_or(|extension| extension != "pub") {
                continue;
            }
            match Name::from_file(&user, &file) {
                Some(name) => _ = names.insert(name),
                None => output.error(format!("{path:?}: no key set can have this name")),
            }
        }
    }
    Ok(names)
}

/// The names in a folder, in order.
fn entries(folder: &Path, output: &mut Output<'_>) -> Result<BTreeSet<OsString>, ScanError> {
    let names = || fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>();
    match names() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        names => names.map_err(|error| said(&PathError::new("open", folder, error), output)),
    }
}

/// Reads a key file. What is wrong with it is said.
fn read(host: &Host, name: &Name, output: &mut Output<'_>) -> Option<Source> {
    let path = host.resource_dir().join(name.path());
    let content = fs::metadata(&path).and_then(|metadata| match metadata.is_file() {
        true => fs::read(&path),
        false => Err(io::Error::other("it is not a regular file")),
    });
    match content.map(Source::parse) {
        Ok(Ok(source)) => Some(source),
        Ok(Err(bad_lines)) => {
            output.error(format!("File {} is invalid:", path.display()));
            bad_lines.iter().for_each(|line| output.warning(line.to_string()));
            None
        }
        Err(error) => {
            output.error(PathError::new("open", path, error).to_string());
            None
        }
    }
}
