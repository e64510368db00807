//! Turning what there is into resource files.

use crate::{Entity, Host, Output, Verdict};
use bstr::{BStr, BString};
use std::path::{Path, PathBuf};

/// The request to turn one thing into resource files.
#[derive(Clone, Copy, Debug)]
pub struct Adoption<'a> {
    /// The ID of an entity, which need not exist yet, or the path of a file, as a person has given it.
    pub id: &'a BStr,
    /// An empty directory: resource files are written below it, at the paths that they shall have in a resource directory of the plugin,
    /// and with the modes that they shall have. An empty file stands for one that shall be removed.
    pub directory: &'a Path,
    /// The file that [`Adopted::Conflict`] has named before, with everything resolved by a person.
    pub resolved: Option<&'a Path>,
}

/// The outcome of an [`Adoption`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adopted {
    /// The plugin does not know such a thing.
    Unknown,
    /// The path is that of the entity with this ID, which is asked for next.
    Entity(BString),
    /// It is as the resource files have it.
    Unchanged,
    /// There are resource files in the directory, or this definition in TOML describes it, or both. It consists of tables with a header,
    /// as it is put into a file beside others.
    Done {
        /// The definition; empty if there is none.
        definition: String,
    },
    /// Both a person and the resource files have changed the same of it: this file has both, with markers around them.
    Conflict(PathBuf),
    /// It cannot be done, and the user has been told why.
    Failed,
}

impl Adopted {
    /// Returns the outcome for an entity that resource files define already: they are a person's, and not changed. None for an orphan, which
    /// nothing defines.
    pub fn defined_already(entity: &impl Entity, host: &Host, output: &mut Output<'_>) -> Option<Adopted> {
        let report = entity.report();
        if report.edges.orphan {
            return None;
        }
        Some(match entity.check(host, host.mode(false), output) {
            Verdict::Failed => Adopted::Failed,
            Verdict::InDesiredState | Verdict::Skipped(_) => Adopted::Unchanged,
            Verdict::WouldChange(_) | Verdict::NeedsForce(_) | Verdict::Unknown => {
                let sources: Vec<String> = report.sources.iter().map(ToString::to_string).collect();
                let place = if sources.is_empty() { "resource files".to_owned() } else { sources.join(", ") };
                output.error(format!("{} is defined already, and not as it is: change {place}", report.id));
                Adopted::Failed
            }
        })
    }
}
