//! Work below the directories of untrusted users, with the privileges of the user only.

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// The identity of a user for [`as_user`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub uid: u32,
    /// The user's group.
    pub gid: u32,
    /// All groups of the user.
    pub groups: Vec<u32>,
}

/// Work could not be completed as a user.
#[derive(Debug, thiserror::Error)]
pub enum AsUserError {
    /// The credentials of the user could not be set. The work was not started.
    #[error("cannot work as the user: {}", holo_protocol::words::reason(.0))]
    NotPermitted(io::Error),
    /// The work exceeded its time limit, for example because a network or user file system does not respond. It may
    /// complete later.
    #[error("the file system did not answer for {} seconds", .0.as_secs())]
    TimedOut(Duration),
    /// The work has panicked.
    #[error("the work was abandoned")]
    Abandoned,
}

/// Performs work as a user, in a separate thread, and waits for the result up to a time limit.
///
/// The kernel enforces the permissions of the user, so symlinks, hard links and mounts that the user creates cannot be
/// used to gain access to anything else. New files belong to the user, and count against the user's quota. Descriptors
/// that are already open remain accessible.
///
/// Only the *effective* user and group are changed, so that the user can neither signal nor trace this process in the
/// meantime. If this process does not run as root, the work is performed with its own identity.
///
/// # Errors
/// If the credentials cannot be set, or the work does not complete.
pub fn as_user<T: Send + 'static>(
    who: &Credentials,
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, AsUserError> {
    let (sender, result) = mpsc::sync_channel(1);
    let who = who.clone();
    // Credentials belong to the thread, and end with it. The thread is never joined, because it must not block this
    // process if it hangs in the user's file system.
    let spawned = std::thread::Builder::new().spawn(move || {
        let done = change(&who).map(|()| work());
        // The receiver is gone after the time limit.
        let _ = sender.send(done);
    });
    spawned.map_err(AsUserError::NotPermitted)?;
    match result.recv_timeout(limit) {
        Ok(done) => done.map_err(AsUserError::NotPermitted),
        Err(RecvTimeoutError::Timeout) => Err(AsUserError::TimedOut(limit)),
        Err(RecvTimeoutError::Disconnected) => Err(AsUserError::Abandoned),
    }
}

/// Sets the credentials of this thread.
#[expect(clippy::disallowed_methods, reason = "this is the one place that changes the credentials of a thread")]
fn change(who: &Credentials) -> io::Result<()> {
    let wanted = Uid::from_raw(who.uid);
    if !geteuid().is_root() || wanted.is_root() {
        return Ok(());
    }
    let groups: Vec<Gid> = who.groups.iter().copied().map(Gid::from_raw).collect();
    thread::set_thread_groups(&groups)?;
    thread::set_thread_res_gid(None, Gid::from_raw(who.gid), None)?;
    thread::set_thread_res_uid(None, wanted, None)?;
    // Changing the user drops all capabilities, unless this process was configured otherwise.
    if geteuid() != wanted || !thread::capabilities(None)?.effective.is_empty() {
        return Err(io::Error::from(io::ErrorKind::PermissionDenied));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    const LIMIT: Duration = Duration::from_secs(60);

    fn user() -> Credentials {
        Credentials { uid: 12345, gid: 12346, groups: vec![12347] }
    }

    #[test]
    fn new_files_are_the_users_and_closed_ones_stay_closed() {
        if !geteuid().is_root() {
            // Only root can become another user.
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (secret, open) = (folder.path().join("secret"), folder.path().join("open"));
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(&secret, "s").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let made = open.join("made");
        let path = made.clone();
        let (read, status) = as_user(&user(), LIMIT, move || {
            fs::write(&path, "").unwrap();
            (fs::read(&secret), fs::read_to_string("/proc/thread-self/status"))
        })
        .unwrap();
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let owner = fs::metadata(&made).unwrap();
        assert_eq!((owner.uid(), owner.gid()), (12345, 12346));
        let status = status.unwrap();
        assert!(status.contains("\nUid:\t0\t12345\t0\t12345\n"), "{status}");
        assert!(status.contains("\nGroups:\t12347 \n"), "{status}");
        // Only the credentials of the other thread were changed.
        assert!(geteuid().is_root());
        assert_eq!(fs::read(folder.path().join("secret")).unwrap(), b"s");
    }

    #[test]
    fn work_that_does_not_end_is_left_alone() {
        let own = Credentials { uid: geteuid().as_raw(), gid: 0, groups: Vec::new() };
        let (end, wait) = mpsc::channel::<()>();
        let done = as_user(&own, Duration::from_millis(1), move || wait.recv());
        assert!(matches!(done, Err(AsUserError::TimedOut(_))), "{done:?}");
        drop(end);
    }
}
