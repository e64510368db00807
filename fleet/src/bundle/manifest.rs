//! The manifest of a bundle, and the rules for the paths in it.

use crate::names::{Label, NameError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path};
use std::str::FromStr;

/// The name of the manifest in the archive.
pub(super) const MANIFEST: &str = "holo-bundle.json";
/// The directories whose files a bundle can contain.
pub(super) const DIRECTORIES: [&str; 5] =
    ["usr/share/holo", "etc/holo/resources", "etc/holorc.d", "etc/holo/data", "etc/holo/facts.d"];
/// The maximum size of a bundle, packed and unpacked.
pub(crate) const MAX_SIZE: u64 = 1 << 30;
/// The maximum number of files.
pub(super) const MAX_FILES: usize = 100_000;
/// The maximum size of the manifest.
pub(super) const MAX_MANIFEST: u64 = 64 << 20;

/// The contents of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// The name of the bundle.
    pub(crate) name: Label,
    /// Its version.
    pub(crate) version: Version,
    /// The oldest version of holo that can apply it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) min_holo: Option<HoloVersion>,
    /// The files and symlinks by their paths, which are relative to the root.
    pub(crate) files: BTreeMap<String, Member>,
}

/// A file or symlink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(crate) enum Member {
    /// A file.
    File {
        /// The SHA-256 of the content.
        sha256: String,
        /// The length.
        size: u64,
        /// True if it is a program.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        executable: bool,
    },
    /// A symlink to another member.
    Symlink {
        /// The target.
        target: String,
    },
}

impl Member {
    pub(crate) fn size(&self) -> u64 {
        match self {
            Member::File { size, .. } => *size,
            Member::Symlink { .. } => 0,
        }
    }

    pub(crate) fn mode(&self) -> u32 {
        match self {
            Member::File { executable: true, .. } => 0o755,
            Member::File { executable: false, .. } => 0o644,
            Member::Symlink { .. } => 0o777,
        }
    }
}

impl Manifest {
    /// Returns the number of bytes of all files.
    pub(crate) fn size(&self) -> u64 {
        self.files.values().map(Member::size).fold(0, u64::saturating_add)
    }

    /// Returns what is wrong with the paths, sizes and symlinks: one line for each.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.files.len() > MAX_FILES {
            problems.push(format!("there are {} files; a bundle has at most {MAX_FILES}", self.files.len()));
        }
        for (path, member) in &self.files {
            let problem = path_problem(path).map(str::to_owned).or_else(|| match member {
                Member::File { .. } => self.parent_problem(path),
                Member::Symlink { target } => self.parent_problem(path).or_else(|| self.target_problem(path, target)),
            });
            problems.extend(problem.map(|problem| format!("{path}: {problem}")));
        }
        problems
    }

    fn parent_problem(&self, path: &str) -> Option<String> {
        let mut above = Path::new(path).ancestors().skip(1).filter_map(Path::to_str);
        above.find(|above| self.files.contains_key(*above)).map(|above| format!("{above} is not a directory"))
    }

    /// Follows a symlink name by name. It must lead to a member, or a directory of members, and not through others.
    fn target_problem(&self, path: &str, target: &str) -> Option<String> {
        let leaves = || Some(format!("the symlink to {target:?} leads out of the bundle"));
        let mut names: Vec<&str> = path.split('/').collect();
        names.pop();
        for component in Path::new(target).components() {
            if matches!(self.files.get(&names.join("/")), Some(Member::Symlink { .. })) {
                return Some(format!("the symlink to {target:?} leads through another one"));
            }
            match component {
                Component::Normal(name) => names.push(name.to_str().unwrap_or_default()),
                Component::ParentDir if names.pop().is_some() => {}
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => return leaves(),
            }
        }
        let end = names.join("/");
        let is_directory = || {
            let inside = format!("{end}/");
            self.files.range(inside.clone()..).next().is_some_and(|(path, _)| path.starts_with(&inside))
        };
        let is_here = path_problem(&format!("{end}/x")).is_none() || self.files.contains_key(&end);
        let exists = self.files.contains_key(&end) || is_directory();
        if end == path || path.starts_with(&format!("{end}/")) {
            return Some(format!("the symlink to {target:?} leads to itself"));
        }
        if is_here && exists { None } else { leaves() }
    }
}

/// Returns why a path cannot be in a bundle.
pub(super) fn path_problem(path: &str) -> Option<&'static str> {
    let is_plain = path.split('/').all(|name| !matches!(name, "" | "." | ".."));
    if !is_plain || path.contains(char::is_control) {
        return Some("this is not the name of a file in a bundle");
    }
    let is_below = |directory: &str| path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'));
    let is_permitted = DIRECTORIES.iter().any(|directory| is_below(directory));
    let outside = "a bundle only has files below usr/share/holo, etc/holo/resources, etc/holorc.d, etc/holo/data and \
                   etc/holo/facts.d; move it to another directory";
    (!is_permitted).then_some(outside)
}

/// The version of a bundle: letters, digits, and `.`, `-`, `_`, `+` and `~` after the first one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(extend("pattern" = "^[A-Za-z0-9][A-Za-z0-9._+~-]*$", "maxLength" = 64)))]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Version(String);

impl FromStr for Version {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Version, NameError> {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+~".contains(&byte);
        let starts_well = text.starts_with(|first: char| first.is_ascii_alphanumeric());
        if !starts_well || text.len() > 64 || !text.bytes().all(is_valid) {
            return Err(NameError::new(text, "a version such as \"1.4.0\""));
        }
        Ok(Version(text.to_owned()))
    }
}

/// A version of holo, such as `4.1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(extend("pattern" = "^[0-9]+([.][0-9]+){0,2}$")))]
#[serde(try_from = "String", into = "String")]
pub(crate) struct HoloVersion(Vec<u32>);

impl HoloVersion {
    /// Returns the version of this program, which is that of holo.
    pub(crate) fn own() -> HoloVersion {
        env!("CARGO_PKG_VERSION").parse().unwrap_or(HoloVersion(Vec::new()))
    }
}

impl FromStr for HoloVersion {
    type Err = NameError;

    fn from_str(text: &str) -> Result<HoloVersion, NameError> {
        let numbers: Option<Vec<u32>> = text.split('.').map(|number| number.parse().ok()).collect();
        let numbers = numbers.filter(|numbers| numbers.len() <= 3 && !text.contains('+'));
        numbers.map(HoloVersion).ok_or_else(|| NameError::new(text, "a version of holo such as \"4.0.0\""))
    }
}

impl fmt::Display for HoloVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! as_text {
    ($name:ident) => {
        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<$name, NameError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(version: $name) -> String {
                version.to_string()
            }
        }
    };
}

as_text!(Version);
as_text!(HoloVersion);

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(files: &[(&str, Option<&str>)]) -> Manifest {
        let member = |target: &Option<&str>| match target {
            Some(target) => Member::Symlink { target: (*target).to_owned() },
            None => Member::File { sha256: String::new(), size: 1, executable: false },
        };
        let files = files.iter().map(|(path, target)| ((*path).to_owned(), member(target))).collect();
        Manifest { name: "web".parse().unwrap(), version: "1".parse().unwrap(), min_holo: None, files }
    }

    #[test]
    fn only_paths_below_the_directories_are_permitted() {
        for path in ["usr/share/holo/a", "etc/holorc.d/50-web", "etc/holo/data/hosts/web1.toml", "etc/holo/facts.d/x"] {
            assert_eq!(path_problem(path), None, "{path}");
        }
        let wrong = ["usr/share/holo", "usr/share/holography/x", "etc/holo/agent.toml", "etc/holorc", "README.md", ""];
        let hostile = ["/usr/share/holo/x", "usr/share/holo/../../x", "usr/share/holo//x", "usr/share/holo/a\nb"];
        for path in wrong.iter().chain(&hostile) {
            assert!(path_problem(path).is_some(), "{path}");
        }
    }

    #[test]
    fn a_symlink_stays_in_the_bundle_and_passes_through_no_other() {
        let link = |target: &str| {
            let files = [
                ("usr/share/holo/files/a.toml", None),
                ("usr/share/holo/files/dir/b", None),
                ("usr/share/holo/files/through", Some("dir")),
                ("usr/share/holo/files/link", Some(target)),
            ];
            manifest(&files).problems()
        };
        for target in ["a.toml", "./dir", "dir/b", "../files/a.toml", "dir/../a.toml", "through"] {
            assert_eq!(link(target), Vec::<String>::new(), "{target}");
        }
        let leaves =
            ["/etc/passwd", "../../../../../etc/passwd", "missing", "", ".", "link", "../../../../etc", "../.."];
        for target in leaves.into_iter().chain(["through/../a.toml", "through/b"]) {
            assert_eq!(link(target).len(), 1, "{target}: {:?}", link(target));
        }
    }

    #[test]
    fn nothing_is_below_a_file() {
        let twice = manifest(&[("usr/share/holo/a", None), ("usr/share/holo/a/b", None)]);
        assert_eq!(twice.problems(), ["usr/share/holo/a/b: usr/share/holo/a is not a directory"]);
    }

    #[test]
    fn versions_are_compared_by_numbers() {
        let version = |text: &str| text.parse::<HoloVersion>().unwrap();
        assert!(version("4.10") > version("4.9.1") && version("4") <= version("4.0.0"));
        for wrong in ["", "4.", "4.0.0.0", "4.x", "+4", "v4"] {
            assert!(wrong.parse::<HoloVersion>().is_err(), "{wrong}");
        }
        for wrong in ["", "-1", ".1", "1/2", "1 2", "../x"] {
            assert!(wrong.parse::<Version>().is_err(), "{wrong}");
        }
        assert!(HoloVersion::own() > version("3"));
    }
}
