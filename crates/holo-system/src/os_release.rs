//! `os-release(5)`: the distribution.

use crate::Root;
use std::collections::BTreeMap;

/// The paths of os-release below the root; the first readable one is used.
const PATHS: [&str; 2] = ["etc/os-release", "usr/lib/os-release"];

/// The content of os-release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OsRelease {
    values: BTreeMap<String, String>,
}

impl OsRelease {
    /// Reads the file of the system below the root. If there is none, there are no values.
    #[must_use]
    pub fn read(root: &Root) -> OsRelease {
        OsRelease::parse(&PATHS.iter().find_map(|path| root.text(path)).unwrap_or_default())
    }

    /// Parses the content of the file. If a key occurs several times, the last value is used, as in a shell.
    #[must_use]
    pub fn parse(text: &str) -> OsRelease {
        let mut values = BTreeMap::new();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let Some((key, value)) = line.split_once('=') else { continue };
            values.insert(key.to_owned(), unquoted(value));
        }
        OsRelease { values }
    }

    /// Returns the value of a key if it is not empty.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the IDs of the distributions from which this one derives, nearest first.
    pub fn id_like(&self) -> impl Iterator<Item = &str> {
        self.get("ID_LIKE").unwrap_or_default().split_whitespace()
    }

    /// Returns the ID of the distribution and those from which it derives, nearest first.
    #[must_use]
    pub fn ids(&self) -> Vec<&str> {
        self.get("ID").unwrap_or_default().split_whitespace().chain(self.id_like()).collect()
    }
}

/// Unquotes a value like a shell. If the quotes do not match, those at the ends are removed.
fn unquoted(value: &str) -> String {
    let words = shlex::split(value).map(|words| words.join(" "));
    words.unwrap_or_else(|| value.trim_matches(['"', '\'']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn values_are_read_as_a_shell_reads_them() {
        let text = "# x\nNAME=\"Open\\\"SUSE\"\nID=other\n ID='opensuse-leap' \nID_LIKE=\"suse  opensuse\"\nVERSION_ID=15.6\n\
                    VERSION=\"15 'x'\"\nodd\nEMPTY=\n";
        let release = OsRelease::parse(text);
        assert_eq!(release.get("NAME"), Some("Open\"SUSE"));
        assert_eq!(release.ids(), ["opensuse-leap", "suse", "opensuse"]);
        assert_eq!((release.get("VERSION_ID"), release.get("VERSION")), (Some("15.6"), Some("15 'x'")));
        assert_eq!((release.get("EMPTY"), release.get("odd")), (None, None));
        assert_eq!(OsRelease::parse("ID=\"broken\n").ids(), ["broken"]);
        assert_eq!(OsRelease::parse("").ids(), [] as [&str; 0]);
    }

    #[test]
    fn an_absolute_link_is_resolved_inside_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let path = |path: &str| folder.path().join(path);
        fs::create_dir_all(path("usr/lib/variant")).unwrap();
        fs::create_dir_all(path("etc")).unwrap();
        symlink("/usr/lib/variant/os-release", path("etc/os-release")).unwrap();
        fs::write(path("usr/lib/variant/os-release"), "ID=arch\n").unwrap();
        assert_eq!(OsRelease::read(&Root::new(folder.path())).ids(), ["arch"]);
        // The symlink's target exists on the host, but not below the root.
        fs::remove_file(path("etc/os-release")).unwrap();
        symlink(std::env::current_exe().unwrap(), path("etc/os-release")).unwrap();
        fs::write(path("usr/lib/os-release"), "ID=alpine\n").unwrap();
        assert_eq!(OsRelease::read(&Root::new(folder.path())).ids(), ["alpine"]);
    }
}
