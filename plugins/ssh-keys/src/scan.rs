//! Scans for key sets: those with a key file, and orphans that left keys behind.

use crate::home::{self, Home};
use crate::keyset::{Family, KeySet, Name, is_user_name};
use crate::record::Record;
use crate::section::{BadLine, Source};
use crate::{adoption, operations};
use bstr::BStr;
use holo_change::error::PathError;
use holo_plugin::definitions::{ListError, ResourceFile};
use holo_plugin::{Adopted, Adoption, Candidate, Host, Job, Output, Plugin, ScanError, SetAnswers, Silence, Verdict};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

/// The plugin `ssh-keys`.
pub(crate) struct SshKeys;

/// The first version of the protocol that uses the paths of `authorized_keys`.
const VERSION_WITH_EDGES: u32 = 4;

impl Plugin for SshKeys {
    type Entity = KeySet;

    const READS: &'static [&'static str] = &["*/*.pub"];

    const ADOPTS: bool = true;

    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<KeySet>, ScanError> {
        let files = files(host, output)?;
        let record = record(host, output)?;
        let mut recorded = Vec::new();
        for id in &record.entities {
            match Name::from_id(id.as_ref()) {
                Some(name) => recorded.push(name),
                None => output.error(format!("{id} is recorded as provisioned, but is not a key set")),
            }
        }
        let mut homes = Homes { host, known: HashMap::new() };
        Ok(key_sets(&files, recorded, &mut homes, |problem| problem.say(output)))
    }

    fn find(&self, host: &Host, id: &BStr, output: &mut Output<'_>) -> Result<Option<KeySet>, ScanError> {
        let Some(wanted) = Name::from_id(id) else { return Ok(None) };
        let files = key_files(host, Path::new(&wanted.user), output)?;
        let name = |file: &ResourceFile| Name::from_file(OsStr::new(&wanted.user), file.below.file_name()?);
        let files = files.into_iter().filter_map(|file| Some((name(&file)?, file.path))).collect();
        let record = record(host, output)?;
        let recorded = record.entities.iter().filter_map(|id| Name::from_id(id.as_ref()));
        let recorded = recorded.filter(|name| name.user == wanted.user).collect();
        let mut homes = Homes { host, known: HashMap::new() };
        // The scan has already reported errors in other files.
        let sets = key_sets(&files, recorded, &mut homes, |problem| {
            if problem.name == wanted {
                problem.say(output);
            }
        });
        Ok(sets.into_iter().find(|set| set.name == wanted))
    }

    fn apply_set(&self, host: &Host, set: &[Job<'_, KeySet>], answers: &mut dyn SetAnswers) {
        operations::apply(host, set, answers);
    }

    fn check_set(&self, host: &Host, set: &[Job<'_, KeySet>], answers: &mut dyn SetAnswers<Verdict>) {
        let sets: Vec<&KeySet> = set.iter().map(|job| job.entity).collect();
        for (place, outcome) in operations::check(host, &sets) {
            answers.begin(place);
            let verdict = outcome.report(&mut answers.output(place));
            answers.end(place, verdict);
        }
    }

    fn candidates(&self, host: &Host, _: &[PathBuf], output: &mut Output<'_>) -> Result<Vec<Candidate>, ScanError> {
        Ok(adoption::candidates(host, &families(self, host)?, output))
    }

    fn adopt(&self, host: &Host, adoption: Adoption<'_>, output: &mut Output<'_>) -> Adopted {
        let Some(name) = Name::from_id(adoption.id) else { return Adopted::Unknown };
        let set = self.find(host, adoption.id, &mut Output::new(&mut Silence)).ok().flatten();
        let defined = set.and_then(|set| Adopted::defined_already(&set, host, output));
        defined.unwrap_or_else(|| match families(self, host) {
            Ok(families) => {
                let family = families.get(&name.user).map(Arc::as_ref);
                adoption::adopt(host, &name, family, adoption.directory, output)
            }
            Err(ScanError) => Adopted::Failed,
        })
    }
}

/// Returns the key sets of each user who has any.
fn families(plugin: &SshKeys, host: &Host) -> Result<adoption::Families, ScanError> {
    let sets = plugin.scan(host, &mut Output::new(&mut Silence))?;
    Ok(sets.into_iter().map(|set| (set.name.user, set.family)).collect())
}

/// Builds key sets from these files, and orphans from recorded names without a file.
fn key_sets(
    files: &BTreeMap<Name, PathBuf>,
    recorded: Vec<Name>,
    homes: &mut Homes<'_>,
    mut complain: impl FnMut(Problem),
) -> Vec<KeySet> {
    let mut families: BTreeMap<&str, Family> = BTreeMap::new();
    for (name, path) in files {
        let family = families.entry(&name.user).or_default();
        match read(name, path) {
            Ok(source) => family.living.push((name.clone(), source)),
            Err(problem) => {
                // A broken file still exists, and so its keys stay.
                family.invalid.get_or_insert_with(|| problem.path.clone());
                complain(problem);
            }
        }
    }
    let orphans: Vec<Name> = recorded.into_iter().filter(|name| !files.contains_key(name)).collect();
    for name in &orphans {
        families.entry(&name.user).or_default().orphans.push(name.clone());
    }
    let mut sets = Vec::new();
    for family in families.into_values().map(Arc::new) {
        let living = family.living.iter().map(|(name, source)| (name, Some(source)));
        for (name, source) in living.chain(family.orphans.iter().map(|name| (name, None))) {
            let path = files.get(name).cloned();
            let path = path.unwrap_or_else(|| homes.host.resources().shown(&name.path()));
            let (watched, family) = (homes.watched(&name.user), Arc::clone(&family));
            sets.push(KeySet { name: name.clone(), source: source.cloned(), path, watched, family });
        }
    }
    sets
}

/// A key file that cannot be used.
struct Problem {
    name: Name,
    path: PathBuf,
    what: ReadError,
}

/// Why a key file yields no key set.
enum ReadError {
    Invalid(Vec<BadLine>),
    Error(io::Error),
}

impl Problem {
    fn say(self, output: &mut Output<'_>) {
        match self.what {
            ReadError::Invalid(lines) => {
                output.error(format!("File {} is invalid:", self.path.display()));
                lines.iter().for_each(|line| output.warning(line.to_string()));
            }
            ReadError::Error(error) => output.error(PathError::new("open", self.path, error).to_string()),
        }
    }
}

/// A cache of the users' home directories, because a look-up may have to query a server.
struct Homes<'a> {
    host: &'a Host,
    known: HashMap<String, Option<PathBuf>>,
}

impl Homes<'_> {
    fn watched(&mut self, user: &str) -> Option<PathBuf> {
        if self.host.api_version() < VERSION_WITH_EDGES {
            return None;
        }
        let look_up = || home::home(self.host, user).map(|home| Home::keys_below(&home));
        self.known.entry(user.to_owned()).or_insert_with(look_up).clone()
    }
}

fn report(error: &PathError, output: &mut Output<'_>) -> ScanError {
    output.error(error.to_string());
    ScanError
}

fn record(host: &Host, output: &mut Output<'_>) -> Result<Record, ScanError> {
    Record::read(host).map_err(|error| report(&error, output))
}

/// Returns all key files, sorted by name.
fn files(host: &Host, output: &mut Output<'_>) -> Result<BTreeMap<Name, PathBuf>, ScanError> {
    let mut files = BTreeMap::new();
    for folder in entries(host, Path::new(""), output)? {
        if !folder.path.is_dir() {
            continue;
        }
        let user = folder.below.as_os_str();
        if !is_user_name(user.as_encoded_bytes()) {
            output.error(format!("{} is not a valid user name", folder.path.display()));
            continue;
        }
        for file in key_files(host, &folder.below, output)? {
            match file.below.file_name().and_then(|name| Name::from_file(user, name)) {
                Some(name) => _ = files.insert(name, file.path),
                None if file.path.extension().is_none_or(|extension| extension != "pub") => {}
                None => output.error(format!("{:?}: no key set can have this name", file.path)),
            }
        }
    }
    Ok(files)
}

/// Returns the entries of a user's directory.
fn key_files(host: &Host, user: &Path, output: &mut Output<'_>) -> Result<Vec<ResourceFile>, ScanError> {
    let is_folder = host.resources().iter().any(|directory| directory.join(user).is_dir());
    if is_folder { entries(host, user, output) } else { Ok(Vec::new()) }
}

/// Returns the entries of a directory, sorted by name. A missing directory is empty.
fn entries(host: &Host, below: &Path, output: &mut Output<'_>) -> Result<Vec<ResourceFile>, ScanError> {
    match host.resources().list(below) {
        Err(ListError { error, .. }) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(ListError { path, error }) => Err(report(&PathError::new("open", path, error), output)),
        Ok(mut files) => {
            files.sort_by(|one, other| one.below.cmp(&other.below));
            Ok(files)
        }
    }
}

/// Reads and parses a key file.
fn read(name: &Name, path: &Path) -> Result<Source, Problem> {
    let content = fs::metadata(path).and_then(|metadata| match metadata.is_file() {
        true => fs::read(path),
        false => Err(io::Error::other("it is not a regular file")),
    });
    let what = match content.map(Source::parse) {
        Ok(Ok(source)) => return Ok(source),
        Ok(Err(bad_lines)) => ReadError::Invalid(bad_lines),
        Err(error) => ReadError::Error(error),
    };
    Err(Problem { name: name.clone(), path: path.to_owned(), what })
}
