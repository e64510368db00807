//! The family of the distribution: it decides how stock files are left beside targets.

use holo_plugin::system::OsRelease;

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

impl Distribution {
    /// The family that `os-release(5)` names.
    pub(crate) fn of(release: &OsRelease) -> Distribution {
        let ids = release.ids();
        let known = ids.iter().find_map(|id| match *id {
            "alpine" => Some(Distribution::Alpine),
            "arch" => Some(Distribution::Arch),
            "debian" => Some(Distribution::Debian),
            "fedora" | "suse" => Some(Distribution::Rpm),
            "unittest" => Some(Distribution::Unittest),
            _ => None,
        });
        known.unwrap_or_else(|| Distribution::Unknown(ids.into_iter().map(str::to_owned).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_families_by_id_or_by_what_is_like_it() {
        let of = |text: &str| Distribution::of(&OsRelease::parse(text));
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
