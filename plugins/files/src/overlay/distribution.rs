//! Which distribution this is, as `os-release(5)` says: it decides how stock files are left beside targets.

use crate::overlay::layout::Layout;
use std::io::Read;
use std::path::Path;

/// A family of distributions whose package managers leave the same files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    Alpine,
    Arch,
    Debian,
    /// Fedora and SUSE.
    Rpm,
    /// The pretended distribution of scenarios, which leaves nothing.
    Unittest,
    /// None that we know; these are its IDs.
    Unknown(Vec<String>),
}

/// Where os-release is, the first that exists.
const OS_RELEASE: [&str; 2] = ["etc/os-release", "usr/lib/os-release"];

impl Distribution {
    pub(crate) fn detect(layout: &Layout) -> Distribution {
        let text = OS_RELEASE.iter().find_map(|path| read(layout, Path::new(path)));
        Distribution::of(ids(&text.unwrap_or_default()))
    }

    fn of(ids: Vec<String>) -> Distribution {
        let known = ids.iter().find_map(|id| match id.as_str() {
            "alpine" => Some(Distribution::Alpine),
            "arch" => Some(Distribution::Arch),
            "debian" => Some(Distribution::Debian),
            "fedora" | "suse" => Some(Distribution::Rpm),
            "unittest" => Some(Distribution::Unittest),
            _ => None,
        });
        known.unwrap_or(Distribution::Unknown(ids))
    }
}

fn read(layout: &Layout, path: &Path) -> Option<String> {
    // It is usually a symlink to the other.
    let mut file = layout.target(path).followed().ok()?.open().ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The values of `ID` and `ID_LIKE`, the nearest first.
fn ids(os_release: &str) -> Vec<String> {
    let value = |key: &str| {
        let lines = os_release.lines().rev().filter_map(|line| line.trim().split_once('='));
        let given = lines.into_iter().find(|(name, _)| *name == key).map(|(_, value)| value);
        given.unwrap_or_default().trim().trim_matches(['"', '\'']).to_owned()
    };
    let (id, like) = (value("ID"), value("ID_LIKE"));
    id.split_whitespace().chain(like.split_whitespace()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_families_by_id_or_by_what_is_like_it() {
        let of = |text: &str| Distribution::of(ids(text));
        assert_eq!(of("NAME=x\nID=debian\n"), Distribution::Debian);
        assert_eq!(of("ID=ubuntu\nID_LIKE=debian"), Distribution::Debian);
        assert_eq!(of("ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\""), Distribution::Rpm);
        assert_eq!(of("ID='rhel'\nID_LIKE=\"fedora\""), Distribution::Rpm);
        assert_eq!(of("ID_LIKE=arch\nID=manjaro"), Distribution::Arch);
        assert_eq!(of("ID=alpine\nID_LIKE=arch"), Distribution::Alpine);
        assert_eq!(of("ID=unittest"), Distribution::Unittest);
        assert_eq!(
            of("ID=haiku\nID_LIKE=\"be os\""),
            Distribution::Unknown(vec!["haiku".into(), "be".into(), "os".into()])
        );
        assert_eq!(of(""), Distribution::Unknown(vec![]));
    }
}
