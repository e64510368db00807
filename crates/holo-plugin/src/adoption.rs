//! Creating resource files from the current state of the system.

use crate::{Entity, Host, Mode, Output, Silence, Verdict};
use bstr::{BStr, BString, ByteSlice};
use std::path::PathBuf;

/// The outcome of an [`Adoption`](crate::Adoption).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adopted {
    /// The plugin cannot manage the given ID or path.
    Unknown,
    /// The path belongs to the entity with this ID, for which the next request is made.
    Entity(BString),
    /// The state already matches the resource files.
    Unchanged,
    /// The directory contains resource files, or this TOML definition describes the entity, or both. The definition
    /// consists of tables with headers, so that it can be added to a file with other definitions.
    Done {
        /// The definition; empty if there is none.
        definition: String,
    },
    /// The user and the resource files have changed the same lines. This file contains both versions with conflict
    /// markers.
    Conflict(PathBuf),
    /// The adoption failed, and the error has been printed.
    Failed,
}

impl Adopted {
    /// Returns the outcome for an entity that is already defined by resource files; those of the user are not changed.
    /// `None` if a new definition must be created, because the entity is an orphan, or is only defined by files of
    /// earlier adoptions.
    pub fn defined_already(entity: &impl Entity, host: &Host, output: &mut Output<'_>) -> Option<Adopted> {
        let report = entity.report();
        if report.edges.orphan {
            return None;
        }
        match entity.check(host, Mode::default(), &mut Output::new(&mut Silence)) {
            Verdict::InDesiredState | Verdict::Skipped(_) => Some(Adopted::Unchanged),
            _ if report.sources.iter().all(|source| is_adopted(source.as_bstr())) => None,
            _ => {
                let sources: Vec<String> = report.sources.iter().map(ToString::to_string).collect();
                output.error(format!(
                    "{} is defined already, and not as it is: change {}",
                    report.id,
                    sources.join(", ")
                ));
                Some(Adopted::Failed)
            }
        }
    }
}

/// Returns true if the dispatcher has created a definition file for adopted entities.
fn is_adopted(path: &BStr) -> bool {
    let name = path.rsplit_once_str("/").map_or(path.as_bytes(), |(_, name)| name);
    let rest = name.strip_prefix(b"adopted").and_then(|rest| rest.strip_suffix(b".toml"));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_adopted_definitions_have_their_names() {
        for (path, is_one) in [
            ("/etc/holo/resources/packages/adopted.toml", true),
            ("/etc/holo/resources/packages/adopted-nginx.toml", true),
            ("adopted.toml", true),
            ("/etc/adopted/10-web.toml", false),
            ("/etc/adoptedx.toml", false),
            ("/etc/adopted-x.pub", false),
        ] {
            assert_eq!(is_adopted(path.into()), is_one, "{path}");
        }
    }
}
