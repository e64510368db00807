//! The requirements on a machine for such a system.

use std::ffi::OsStr;
use std::sync::OnceLock;

use super::keeper::ASSEMBLE;
use crate::require::Need;
use crate::spawn::succeeds;

/// The requirements of a test with an overlay, for [`trial`](crate::trial()).
pub const NEEDS: &[Need] =
    &[Need::Root, Need::Program("unshare"), Need::Program("nsenter"), Need::Program("mount"), CAN_BE_MADE];

/// An [`Overlay`] of this machine can be created: not every kernel and container permits that to root.
pub(super) const CAN_BE_MADE: Need = Need::Trial("an overlay of /", can_be_made);

/// A process can have its own mounts, which is impossible in a chroot whose `/` is not a mount point.
pub const MOUNTS: Need = Need::Trial("mounts of its own", mounts_can_be_made);

/// Tries it once, and caches the result.
fn mounts_can_be_made() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| succeeds("unshare", &["--mount", "true"]))
}

/// Tries it once, and caches the result.
fn can_be_made() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        tempfile::tempdir().is_ok_and(|directory| {
            let assemble = format!("KEEP=:\n{ASSEMBLE}");
            let directory = directory.path().as_os_str();
            let arguments = ["--mount", "sh", "-ec", &assemble, "sh"].map(OsStr::new);
            succeeds("unshare", &[&arguments[..], &[directory]].concat())
        })
    })
}
