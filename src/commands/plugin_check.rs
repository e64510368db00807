//! `holo plugin check`: tests in a temporary root whether a plugin conforms to the interface.

mod described;
mod finding;
mod harness;
mod heard;
mod info;
mod judgement;
mod limited;
mod messages;
mod operations;
mod report;
mod scratch;
mod session;

use super::Context;
use crate::cli::PluginCheck;
use crate::error::{FatalError, exit};
use crate::host::cache::CacheDirectory;
use crate::host::settings::Settings;
use crate::report::{Event, Remarks};
use finding::{Findings, Rule, Severity};
use harness::Harness;
use holo_protocol::session::Operation;
use holo_protocol::{API_VERSION_3, API_VERSION_4, Info};
use rustix::fs::{Access, access};
use scratch::{Contents, Scratch, WorkingDirectory};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) fn run(arguments: &PluginCheck, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let subject = Subject::resolve(arguments, settings)?;
    let base = CacheDirectory::create(&absolute(&settings.temporary_directory)?)?;
    let _there = WorkingDirectory::enter(&base.subdirectory("work")?)?;
    let mut show = |finding: &finding::Finding| match finding.severity {
        Severity::Failure => reporter.error(finding.to_string()),
        Severity::Warning => reporter.warning(finding.to_string()),
    };
    let mut findings = Findings::new(&mut show);
    subject.judge_name(&mut findings);
    let info = {
        let scratch = Scratch::new(&base, "info", &subject.id, &subject.contents)?;
        let mut harness = Harness::new(&subject, Manner::INFO, scratch, interrupt, &mut findings);
        info::ask(&mut harness)?
    };
    for manner in info.as_ref().map(Manner::for_info).unwrap_or_default() {
        let scratch = Scratch::new(&base, manner.name(), &subject.id, &subject.contents)?;
        let mut harness = Harness::new(&subject, manner, scratch, interrupt, &mut findings);
        operations::all(&mut harness)?;
        harness.end_session()?;
    }
    let (failed, summary) = (findings.failed(), findings.to_string());
    reporter.end_paragraph();
    reporter.event(Event::Text(format!("{summary}\n").as_bytes()));
    Ok(if failed { exit::FAILED } else { exit::DONE })
}

/// The plugin under test.
struct Subject {
    program: PathBuf,
    id: String,
    contents: Contents,
    has_resources: bool,
    limit: Duration,
}

/// The given root is the running system.
#[derive(Debug, thiserror::Error)]
#[error("--root /: the tree is copied, so give a small one")]
struct WholeSystemError;

/// How a plugin is called: with a process per operation or in a session, and in which version.
#[derive(Clone)]
struct Manner {
    api_version: u32,
    session: bool,
    /// Whether the plugin also speaks version 3. In this mode, all its callers support version 4.
    also_version_3: bool,
    /// Whether the plugin also speaks version 4, in which it can declare more about its entities.
    also_version_4: bool,
    /// The optional operations that it supports.
    operations: BTreeSet<Operation>,
    /// Whether it supports scans limited to the neighbours of an entity.
    finds_neighbours: bool,
    /// Whether it supports scans limited to the owners of assets.
    finds_owners: bool,
    /// The number of entities that it may work on concurrently, in version 4.
    jobs: u32,
}

/// The number of entities worked on concurrently, unless the plugin sets a lower limit.
const JOBS: u32 = 4;

impl Manner {
    /// How `info` is called.
    const INFO: Manner = Manner {
        api_version: API_VERSION_3,
        session: false,
        also_version_3: false,
        also_version_4: false,
        operations: BTreeSet::new(),
        finds_neighbours: false,
        finds_owners: false,
        jobs: 1,
    };

    /// Returns all modes in which callers use a plugin with this answer to `info`.
    fn for_info(info: &Info) -> Vec<Manner> {
        let Some(api_version) = info.common_version(API_VERSION_3, API_VERSION_4) else { return Vec::new() };
        let also_version_3 = info.min_api_version <= API_VERSION_3 && api_version > API_VERSION_3;
        let jobs = info.concurrency.map_or(JOBS, |most| most.min(JOBS));
        let &Info { finds_neighbours, finds_owners, .. } = info;
        let operations = info.operations.clone();
        let version_4 = Manner { api_version, operations, finds_neighbours, finds_owners, jobs, ..Manner::INFO };
        if info.session && api_version >= API_VERSION_4 {
            // If the plugin also speaks version 3, older versions of Holo call it in that version.
            let processes = also_version_3.then_some(Manner { also_version_4: true, ..Manner::INFO });
            processes.into_iter().chain([Manner { session: true, ..version_4 }]).collect()
        } else {
            vec![Manner { also_version_3, ..version_4 }]
        }
    }

    fn supports(&self, operation: Operation) -> bool {
        self.operations.contains(&operation)
    }

    fn name(&self) -> &'static str {
        if self.session { "session" } else { "processes" }
    }
}

impl Subject {
    fn resolve(arguments: &PluginCheck, settings: &Settings) -> Result<Subject, FatalError> {
        let program = absolute(&arguments.program)?;
        can_be_executed(&program).map_err(|error| FatalError::io("execute", &arguments.program, error))?;
        let id = plugin_id(&program);
        let static_resources = settings.root.resources().join(&id);
        let in_root = arguments.root.as_ref().is_some_and(|root| root.join("usr/share/holo").join(&id).is_dir());
        let resources = match &arguments.resources {
            Some(given) => Some(directory(given)?),
            None => (!in_root && static_resources.is_dir()).then(|| absolute(&static_resources)).transpose()?,
        };
        let root = arguments.root.as_deref().map(directory).transpose()?;
        if root.as_ref().is_some_and(|root| root.canonicalize().is_ok_and(|root| root == Path::new("/"))) {
            return Err(FatalError::could_not_run(WholeSystemError));
        }
        let has_resources = in_root || resources.is_some();
        Ok(Subject { program, id, contents: Contents { root, resources }, has_resources, limit: arguments.timeout })
    }

    fn judge_name(&self, findings: &mut Findings<'_>) {
        let name = self.program.file_name().unwrap_or_default().to_string_lossy();
        let expected = format!("holo-{}", self.id);
        let problem = format!("the name of an installed plugin is \"{expected}\", with its ID in it");
        // The file may have any name before it is installed.
        if name.starts_with("holo-") {
            findings.expect(Severity::Warning, Rule::Names, &name, name == expected, problem);
        }
        if !begins_like_a_program(&self.program) {
            findings.note(format!(
                "{name} has no interpreter in its first line (#!/bin/sh), so that only version 4 of holo can start it"
            ));
        }
        if !self.has_resources {
            findings.note("a plugin without resource files can only be tested a little; see --resources".to_owned());
        }
    }
}

/// Returns true if the system can start the file: it is a binary, or a script that names its interpreter.
fn begins_like_a_program(program: &Path) -> bool {
    let mut start = [0; 4];
    let read = File::open(program).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && (start.starts_with(b"#!") || start == *b"\x7fELF")
}

/// Returns the ID from `holo-ID`, or derives one for a program with another name.
fn plugin_id(program: &Path) -> String {
    let name = program.file_stem().unwrap_or_default().to_string_lossy();
    let letter = |letter: char| {
        let lower = letter.to_ascii_lowercase();
        if lower.is_ascii_lowercase() || lower.is_ascii_digit() { lower } else { '-' }
    };
    let id: String = name.strip_prefix("holo-").unwrap_or(&name).chars().map(letter).collect();
    let id = id.trim_start_matches('-');
    if id.is_empty() { "plugin".to_owned() } else { id.to_owned() }
}

fn can_be_executed(program: &Path) -> io::Result<()> {
    let metadata = program.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(access(program, Access::EXEC_OK)?)
}

/// Returns the absolute path of a directory argument.
fn directory(given: &Path) -> Result<PathBuf, FatalError> {
    std::fs::read_dir(given).map_err(|error| FatalError::io("open", given, error))?;
    absolute(given)
}

fn absolute(path: &Path) -> Result<PathBuf, FatalError> {
    std::path::absolute(path).map_err(|error| FatalError::io("find", path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_id_is_derived_from_any_program_name() {
        for (program, id) in [
            ("/usr/lib/holo/holo-foosql-users", "foosql-users"),
            ("/src/plugin.sh", "plugin"),
            ("/src/Foo_Bar", "foo-bar"),
            ("/src/holo-", "plugin"),
            ("/src/.x", "x"),
        ] {
            assert_eq!(plugin_id(Path::new(program)), id, "{program}");
        }
    }

    #[test]
    fn session_plugin_is_also_tested_in_version_3() {
        let manners = |min, max, session| {
            let info = Info { min_api_version: min, max_api_version: max, session, ..Info::default() };
            let all = Manner::for_info(&info);
            all.iter().map(|manner| (manner.api_version, manner.session)).collect::<Vec<_>>()
        };
        assert_eq!(manners(3, 3, false), [(3, false)]);
        assert_eq!(manners(3, 3, true), [(3, false)]);
        assert_eq!(manners(3, 4, false), [(4, false)]);
        assert_eq!(manners(3, 4, true), [(3, false), (4, true)]);
        assert_eq!(manners(4, 5, true), [(4, true)]);
        assert_eq!(manners(5, 6, false), []);
    }
}
