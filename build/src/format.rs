//! The package formats: how one is chosen, and what each calls the same thing.

use clap::ValueEnum;
use holo_system::{OsRelease, Root};
use std::path::Path;

/// The greatest epoch in packages for Debian.
pub(crate) const EPOCH_MAX: u32 = i32::MAX as u32;

/// The version of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) number: String,
    pub(crate) prerelease: Option<(Stage, u32)>,
    pub(crate) epoch: u32,
    pub(crate) release: u32,
}

/// The kind of a prerelease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Alpha,
    Beta,
}

impl Stage {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Stage::Alpha => "alpha",
            Stage::Beta => "beta",
        }
    }
}

/// The architecture of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Architecture {
    Any,
    I386,
    X86_64,
    Armv5,
    Armv6h,
    Armv7h,
    Aarch64,
}

impl Architecture {
    /// All names of each architecture.
    pub(crate) const NAMES: [(Architecture, &'static [&'static str]); 7] = [
        (Architecture::Any, &["any", "all", "noarch"]),
        (Architecture::I386, &["i386", "i686"]),
        (Architecture::X86_64, &["x86_64", "amd64"]),
        (Architecture::Armv5, &["arm", "armel", "armv5tl"]),
        (Architecture::Armv6h, &["armv6h", "armv6hl"]),
        (Architecture::Armv7h, &["armhf", "armv7h", "armv7hl"]),
        (Architecture::Aarch64, &["arm64", "aarch64"]),
    ];

    /// Returns the architecture with this name.
    pub(crate) fn parse(name: &str) -> Option<Architecture> {
        Self::NAMES.into_iter().find(|(_, names)| names.contains(&name)).map(|(architecture, _)| architecture)
    }
}

/// A package format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Packages for dpkg: Debian and its derivatives.
    Debian,
    /// Packages for pacman: Arch Linux and its derivatives.
    Pacman,
    /// Packages for rpm: Fedora, Mageia, SUSE and their derivatives.
    Rpm,
}

impl Format {
    /// Returns the format of the distribution below a root; `None` if it is unknown.
    #[must_use]
    pub fn of_system(root: &Path) -> Option<Format> {
        OsRelease::read(&Root::new(root)).ids().into_iter().find_map(|id| match id {
            "arch" => Some(Format::Pacman),
            "debian" => Some(Format::Debian),
            "fedora" | "mageia" | "suse" => Some(Format::Rpm),
            _ => None,
        })
    }

    /// Returns the name of an architecture.
    pub(crate) fn architecture(self, architecture: Architecture) -> &'static str {
        let [debian, pacman, rpm] = match architecture {
            Architecture::Any => ["all", "any", "noarch"],
            Architecture::I386 => ["i386", "i686", "i686"],
            Architecture::X86_64 => ["amd64", "x86_64", "x86_64"],
            Architecture::Armv5 => ["armel", "arm", "armv5tl"],
            Architecture::Armv6h => ["armhf", "armv6h", "armv6hl"],
            Architecture::Armv7h => ["armhf", "armv7h", "armv7hl"],
            Architecture::Aarch64 => ["arm64", "aarch64", "aarch64"],
        };
        match self {
            Format::Debian => debian,
            Format::Pacman => pacman,
            Format::Rpm => rpm,
        }
    }

    /// Returns a version without epoch and release.
    pub(crate) fn upstream_version(self, version: &Version) -> String {
        let tilde = if self == Format::Pacman { "" } else { "~" };
        match version.prerelease {
            Some((stage, number)) => format!("{}{tilde}{}.{number}", version.number, stage.word()),
            None => version.number.clone(),
        }
    }

    /// Returns a complete version: `[EPOCH:]VERSION-RELEASE`.
    pub(crate) fn full_version(self, version: &Version) -> String {
        let epoch = if version.epoch > 0 { format!("{}:", version.epoch) } else { String::new() };
        format!("{epoch}{}-{}", self.upstream_version(version), version.release)
    }

    /// Returns the recommended name of a package file.
    pub(crate) fn file_name(self, name: &str, version: &Version, architecture: Architecture) -> String {
        let (version, architecture) = (self.full_version(version), self.architecture(architecture));
        match self {
            Format::Debian => format!("{name}_{version}_{architecture}.deb"),
            Format::Pacman => format!("{name}-{version}-{architecture}.pkg.tar.xz"),
            Format::Rpm => format!("{name}-{version}.{architecture}.rpm"),
        }
    }

    /// Returns the name of the format in messages.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Format::Debian => "Debian",
            Format::Pacman => "pacman",
            Format::Rpm => "RPM",
        }
    }

    /// Checks the name of a package.
    pub(crate) fn check_name(self, name: &str) -> Result<(), NameError> {
        let is_lower = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        let (first, rest) = (name.chars().next(), name.chars().skip(1));
        let is_valid = match self {
            Format::Debian => {
                let is_rest = |letter: char| is_lower(letter) || "+.-".contains(letter);
                name.len() > 1 && first.is_some_and(is_lower) && { rest }.all(is_rest)
            }
            Format::Pacman => {
                let is_first = |letter: char| is_lower(letter) || "@._+".contains(letter);
                first.is_some_and(is_first) && { rest }.all(|letter| is_first(letter) || letter == '-')
            }
            Format::Rpm => {
                let is_rest = |letter: char| letter.is_ascii_alphanumeric() || "._+-".contains(letter);
                first.is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '_') && { rest }.all(is_rest)
            }
        };
        if is_valid { Ok(()) } else { Err(NameError { name: name.to_owned(), format: self }) }
    }
}

/// The name of a package breaks the rules of its format.
#[derive(Debug, thiserror::Error)]
#[error("{name:?} is not a valid name for {} packages: expected {}", format.word(), self.rule())]
pub(crate) struct NameError {
    name: String,
    format: Format,
}

impl NameError {
    fn rule(&self) -> &'static str {
        match self.format {
            Format::Debian => "at least two of a-z 0-9 + . -, beginning with a letter or digit",
            Format::Pacman => "a-z 0-9 @ . _ + -, not beginning with -",
            Format::Rpm => "letters, digits and . _ + -, beginning with a letter, a digit or _",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_follow_the_format() {
        let version = Version { number: "1.0".into(), prerelease: Some((Stage::Alpha, 2)), epoch: 2, release: 3 };
        let names = |version: &Version, architecture| {
            [Format::Debian, Format::Pacman, Format::Rpm].map(|format| format.file_name("foo", version, architecture))
        };
        assert_eq!(
            names(&version, Architecture::Any),
            ["foo_2:1.0~alpha.2-3_all.deb", "foo-2:1.0alpha.2-3-any.pkg.tar.xz", "foo-2:1.0~alpha.2-3.noarch.rpm"]
        );
        let version = Version { prerelease: None, epoch: 0, ..version };
        assert_eq!(
            names(&version, Architecture::X86_64),
            ["foo_1.0-3_amd64.deb", "foo-1.0-3-x86_64.pkg.tar.xz", "foo-1.0-3.x86_64.rpm"]
        );
    }

    #[test]
    fn names_of_packages_follow_the_format() {
        let valid =
            |name: &str| [Format::Debian, Format::Pacman, Format::Rpm].map(|format| format.check_name(name).is_ok());
        assert_eq!(valid("foo-1+x.y"), [true; 3]);
        assert_eq!(valid("f"), [false, true, true]);
        assert_eq!(valid("foo_bar"), [false, true, true]);
        assert_eq!(valid("@foo"), [false, true, false]);
        assert_eq!(valid("Foo"), [false, false, true]);
        for name in ["", "-foo", "foo bar", "foo/bar", "foo\n", "foö"] {
            assert_eq!(valid(name), [false; 3], "{name:?}");
        }
    }

    #[test]
    fn distributions_have_a_format() {
        let of = |text: &str| {
            let root = tempfile::tempdir().unwrap();
            std::fs::create_dir(root.path().join("etc")).unwrap();
            std::fs::write(root.path().join("etc/os-release"), text).unwrap();
            Format::of_system(root.path())
        };
        assert_eq!(of("ID=debian\n"), Some(Format::Debian));
        assert_eq!(of("ID=ubuntu\nID_LIKE=debian\n"), Some(Format::Debian));
        assert_eq!(of("ID=endeavouros\nID_LIKE=arch\n"), Some(Format::Pacman));
        assert_eq!(of("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n"), Some(Format::Rpm));
        assert_eq!(of("ID=opensuse-leap\nID_LIKE=\"suse opensuse\"\n"), Some(Format::Rpm));
        assert_eq!(of("ID=alpine\n"), None);
    }
}
