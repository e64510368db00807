//! Tests that need more than the workspace offers: skipped visibly, or made to fail.

use std::env;
use std::path::Path;

use libtest_mimic::{Failed, Trial};
use rustix::fs::{Access, XattrFlags, access};

/// With this variable set and not empty, a test whose needs are not met fails instead of being skipped.
pub const REQUIRE_ALL: &str = "HOLO_TEST_REQUIRE_ALL";

/// A need of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// An executable of this name in `$PATH`, or at this path if it contains a slash.
    Program(&'static str),
    /// The privileges of root.
    Root,
    /// A file or directory on the host.
    Path(&'static str),
    /// ACLs and other extended attributes where temporary files are.
    ExtendedAttributes,
}

impl Need {
    fn is_met(self) -> bool {
        match self {
            Self::Program(name) if name.contains('/') => is_executable(Path::new(name)),
            Self::Program(name) => env::var_os("PATH")
                .is_some_and(|path| env::split_paths(&path).any(|dir| is_executable(&dir.join(name)))),
            Self::Root => rustix::process::geteuid().is_root(),
            Self::Path(path) => Path::new(path).exists(),
            Self::ExtendedAttributes => has_extended_attributes(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Program(name) | Self::Path(name) => name,
            Self::Root => "root",
            Self::ExtendedAttributes => "extended attributes",
        }
    }
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

fn has_extended_attributes() -> bool {
    // The owner, whose mode is the same, and a group that does not exist.
    const ACL: &[u8] = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x04\0\0\0\xff\xff\xff\xff\x08\0\x04\0\x39\x30\0\0\
        \x10\0\x04\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";
    tempfile::tempfile().is_ok_and(|file| {
        let set = |name, value| rustix::fs::fsetxattr(&file, name, value, XattrFlags::empty()).is_ok();
        set("user.holo", b"x") && set("system.posix_acl_access", ACL)
    })
}

/// Names the needs that are not met, as in `git, root`, or returns `None` if all are.
#[must_use]
pub fn missing(needs: &[Need]) -> Option<String> {
    let missing: Vec<_> = needs.iter().filter(|need| !need.is_met()).map(|need| need.name()).collect();
    (!missing.is_empty()).then(|| missing.join(", "))
}

/// Makes a test that is skipped unless its needs are met. Its name then says what it needs.
///
/// With [`REQUIRE_ALL`] set it fails instead.
#[must_use]
pub fn trial(name: &str, needs: &[Need], test: impl FnOnce() -> Result<(), Failed> + Send + 'static) -> Trial {
    let required = env::var_os(REQUIRE_ALL).is_some_and(|value| !value.is_empty());
    match missing(needs) {
        None => Trial::test(name, test),
        Some(missing) if required => {
            Trial::test(name, move || Err(format!("needs {missing}, and {REQUIRE_ALL} is set").into()))
        }
        Some(missing) => Trial::test(format!("{name} (needs {missing})"), test).with_ignored_flag(true),
    }
}

/// Makes a [`trial`] of a story, which says by panicking what is wrong.
#[must_use]
pub fn trial_of(name: &str, needs: &[Need], story: impl FnOnce() + Send + 'static) -> Trial {
    trial(name, needs, || {
        story();
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(missing(&[]), None);
        assert_eq!(missing(&[Need::Program("sh"), Need::Path("/")]), None);
        assert_eq!(missing(&[Need::Program("/bin/sh")]), None);
        assert_eq!(
            missing(&[Need::Program("no-such"), Need::Program("sh"), Need::Path("/no/such")]),
            Some("no-such, /no/such".to_owned())
        );
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(missing(&[Need::Root]).is_none(), is_root);
    }

    #[test]
    fn a_directory_is_no_program() {
        assert!(missing(&[Need::Program("/")]).is_some());
    }

    #[test]
    fn a_trial_is_skipped_only_if_something_is_missing() {
        let met = trial("met", &[Need::Program("sh")], || Ok(()));
        assert_eq!((met.name(), met.has_ignored_flag()), ("met", false));
        let unmet = trial("unmet", &[Need::Program("no-such")], || Ok(()));
        if env::var_os(REQUIRE_ALL).is_some_and(|value| !value.is_empty()) {
            assert_eq!((unmet.name(), unmet.has_ignored_flag()), ("unmet", false));
        } else {
            let name = "unmet (needs no-such)";
            assert_eq!((unmet.name(), unmet.has_ignored_flag()), (name, true));
        }
    }
}
