//! The family of the distribution, which determines how package managers store stock files.

use holo_plugin::system::OsRelease;

/// A family of distributions whose package managers use the same suffixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    Alpine,
    Arch,
    Debian,
    /// Fedora and SUSE.
    Rpm,
    /// The simulated distribution of scenarios, which has no suffixes.
    Unittest,
    /// An unknown distribution, with the IDs from os-release.
    Unknown(Vec<String>),
}

impl Distribution {
    /// Returns the family that `os-release(5)` names.
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
    fn family_is_found_by_id_or_id_like() {
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
