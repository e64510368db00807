//! Turning what there is into resource files.

use crate::{Entity, Host, Output, Silence, Verdict};
use bstr::{BStr, BString, ByteSlice};
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
    /// The IDs of what is adopted in the same group, such as the files of the package that a service belongs to.
    pub with: &'a [BString],
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
    /// Returns the outcome for an entity that resource files define already: they are a person's, and not changed. None for one that is to be
    /// described anew: an orphan, which nothing defines, or one that is defined by what was adopted before alone.
    pub fn defined_already(entity: &impl Entity, host: &Host, output: &mut Output<'_>) -> Option<Adopted> {
        let report = entity.report();
        if report.edges.orphan {
            return None;
        }
        match entity.check(host, host.mode(false), &mut Output::new(&mut Silence)) {
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

/// Returns true if a file of definitions is one into which the dispatcher has put what was adopted.
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
