//! `holo history edited`: lists what people had edited before it was overwritten, and writes one of these versions.

use crate::cli::HistoryEdited;
use crate::error::{FatalError, exit};
use crate::host::root::Root;
use crate::host::settings::Settings;
use crate::report::table::{Cell, Table};
use crate::report::{Event, Remarks, Reporter};
use bstr::{BStr, BString, ByteSlice};
use holo_change::edited::{EditedVersion, EditedVersions};
use holo_change::tracked::State;
use holo_change::{Locations, PathError};
use holo_events::{EditedLine, Line};
use jiff::Timestamp;
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub(super) fn run(
    arguments: &HistoryEdited,
    settings: &Settings,
    reporter: &mut dyn Reporter,
) -> Result<u8, FatalError> {
    let Some(entity) = &arguments.entity else {
        let versions = numbered(&locations(&settings.root), reporter)?;
        show(&versions, reporter);
        return Ok(exit::DONE);
    };
    let found = find(&settings.root, entity.as_bytes().as_bstr(), arguments.number, reporter)?;
    if arguments.output.json {
        show(&[(found.number, found.version)], reporter);
        return Ok(exit::DONE);
    }
    match &arguments.file {
        Some(file) => found.write(file, reporter)?,
        None => found.print(reporter)?,
    }
    Ok(exit::DONE)
}

/// A version with the number by which a user selects it.
type Numbered = (usize, EditedVersion);

/// An edited version of an entity.
pub(in crate::commands) struct Found {
    locations: Locations,
    number: usize,
    version: EditedVersion,
}

/// Returns an edited version of an entity, by default the latest one. Reports an error if there is none.
pub(in crate::commands) fn find(
    root: &Root,
    id: &BStr,
    number: Option<NonZeroUsize>,
    reporter: &mut dyn Reporter,
) -> Result<Found, FatalError> {
    let locations = locations(root);
    let number = number.map_or(1, NonZeroUsize::get);
    let mut all = numbered(&locations, reporter)?;
    all.retain(|(_, version)| version.entity.0 == id);
    let count = all.len();
    match all.into_iter().find(|(found, _)| *found == number) {
        Some((number, version)) => Ok(Found { locations, number, version }),
        None => {
            reporter.error(match count {
                0 => format!("no edited version of {id} is kept"),
                _ => format!("there is no edited version {number} of {id}; the last one is {count}"),
            });
            reporter.advise("to list all edited versions: holo history edited");
            Err(FatalError::Reported)
        }
    }
}

impl Found {
    /// Writes the content to a file that does not exist yet, and that only its owner can read.
    pub(in crate::commands) fn write(&self, path: &Path, reporter: &mut dyn Reporter) -> Result<(), FatalError> {
        let mut content = self.content(reporter)?;
        let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut file = created.map_err(|error| FatalError::io("create", path, error))?;
        io::copy(&mut content, &mut file).map_err(|error| FatalError::io("write", path, error))?;
        Ok(())
    }

    fn print(&self, reporter: &mut dyn Reporter) -> Result<(), FatalError> {
        if self.version.sensitive {
            reporter.error(format!("{} is sensitive; --output FILE writes it to a file", self.version.entity.0));
            return Err(FatalError::Reported);
        }
        let mut bytes = Vec::new();
        let path = self.version.path();
        self.content(reporter)?.read_to_end(&mut bytes).map_err(|error| FatalError::io("read", &path, error))?;
        reporter.event(Event::Text(&bytes));
        Ok(())
    }

    fn content(&self, reporter: &mut dyn Reporter) -> Result<Box<dyn Read>, FatalError> {
        let content =
            EditedVersions::of(&self.locations).content(&self.version).map_err(|error| reported(&error, reporter))?;
        content.ok_or_else(|| {
            let EditedVersion { path, state, .. } = &self.version;
            reporter.error(match state {
                State::Symlink { target, .. } => {
                    format!("{} was a symlink to {}, which has no content", path.0, target.0)
                }
                state => format!("{} was a {}, which has no content", path.0, state.kind()),
            });
            FatalError::Reported
        })
    }
}

/// Returns the locations of the state, for reading.
fn locations(root: &Root) -> Locations {
    Locations::read_only(root.join(""), root.engine_state(), PathBuf::new())
}

fn reported(error: &PathError, reporter: &mut dyn Reporter) -> FatalError {
    reporter.error(error.to_string());
    FatalError::Reported
}

/// Returns all versions, the latest first. Those of each entity are numbered from 1.
fn numbered(locations: &Locations, reporter: &mut dyn Reporter) -> Result<Vec<Numbered>, FatalError> {
    let mut counts: HashMap<BString, usize> = HashMap::new();
    let all = EditedVersions::of(locations).all().map_err(|error| reported(&error, reporter))?;
    let number = |version: EditedVersion| {
        let count = counts.entry(version.entity.0.clone()).or_default();
        *count += 1;
        (*count, version)
    };
    Ok(all.into_iter().map(number).collect())
}

fn show(versions: &[Numbered], reporter: &mut dyn Reporter) {
    let time = |version: &EditedVersion| {
        i64::try_from(version.time).ok().and_then(|time| Timestamp::from_microsecond(time).ok()).unwrap_or_default()
    };
    let row = |(number, version): &Numbered| -> Vec<Cell> {
        let size = if version.state.content().is_some() { (&version.size).into() } else { Cell::Nothing };
        vec![
            (&version.entity.0).into(),
            number.into(),
            Cell::Time(time(version)),
            version.state.kind().into(),
            size,
            (&version.path.0).into(),
        ]
    };
    let rows: Vec<Vec<Cell>> = versions.iter().map(row).collect();
    reporter
        .event(Event::Table(&Table { columns: &["ENTITY", "N", "OVERWRITTEN", "KIND", "BYTES", "PATH"], rows: &rows }));
    for (number, version) in versions {
        let line = EditedLine {
            id: (&version.entity.0).into(),
            number: *number,
            time: time(version).to_string(),
            kind: version.state.kind().into(),
            size: version.size,
            path: (&version.path.0).into(),
            sensitive: version.sensitive,
        };
        reporter.event(Event::Line(&Line::EditedVersion(Box::new(line))));
    }
}
