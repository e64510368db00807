//! Access of other users of the machine, decided by the kernel.

use crate::files::{Context, IoError, fail, sure};
use bstr::ByteSlice;
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::process::{Gid, Uid};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The user and group ID of `nobody`.
pub const NOBODY: u32 = 65534;

/// Runs a closure with the IDs of another user, in a thread of its own. This requires root.
///
/// # Panics
/// If the credentials cannot be set, or if the closure panics.
#[track_caller]
pub fn as_user<T: Send>(id: u32, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| match scope.spawn(|| become_user(id).map(|()| act())).join() {
        Ok(Ok(done)) => done,
        Ok(Err(errno)) => fail(&format!("become user {id}: {errno}")),
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

#[expect(clippy::disallowed_methods, reason = "the credentials of a thread of this function's caller")]
fn become_user(id: u32) -> rustix::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)
}

/// Returns the files below a directory that contain this text and that the user `nobody` can read, even if only with
/// knowledge of their names. Parents of the directory are treated as accessible. This requires root.
///
/// # Panics
/// If the directory cannot be searched.
#[track_caller]
pub fn disclosed(folder: &Path, secret: &[u8]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    sure(collect_files(folder, &mut files));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = sure(open(folder, flags, Mode::empty()).map_err(std::io::Error::from).context("open", folder));
    let is_disclosed = |path: &PathBuf| {
        let Ok(below) = path.strip_prefix(folder) else { return false };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(opened) = openat(&root, below, flags, Mode::empty()) else { return false };
        let mut content = Vec::new();
        File::from(opened).read_to_end(&mut content).is_ok() && content.contains_str(secret)
    };
    as_user(NOBODY, || files.into_iter().filter(is_disclosed).collect())
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), IoError> {
    for entry in fs::read_dir(folder).context("read", folder)? {
        let path = entry.context("read", folder)?.path();
        let metadata = path.symlink_metadata().context("stat", &path)?;
        if metadata.is_dir() {
            collect_files(&path, files)?;
        } else if metadata.is_file() {
            files.push(path);
        }
    }
    Ok(())
}
