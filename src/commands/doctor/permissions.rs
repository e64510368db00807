//! Files that affect what root does and that others can write, and private files that others can read.

use super::{Check, Findings, Scene};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

pub(super) const CHECK: Check = Check {
    name: "permissions",
    fine: "only their owner can write definitions and read the state",
    needs_plugins: false,
    look,
};

const WRITABLE_BY_OTHERS: u32 = 0o002;
const ACCESSIBLE_BY_OTHERS: u32 = 0o077;

fn look(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    let root = scene.root;
    let obeyed = [root.holorc(), root.holorc_snippets(), root.resources(), root.join("etc/holo"), root.states()];
    for path in obeyed.iter().flat_map(|path| everything_below(path)) {
        let Ok(metadata) = path.symlink_metadata() else { continue };
        if !metadata.is_symlink() && metadata.mode() & WRITABLE_BY_OTHERS != 0 {
            let path = path.display();
            let title = format!("{path} is writable for everyone, so any user can run commands as root");
            findings.fail(title, format!("chmod o-w {path}"));
        } else if !is_trusted(&metadata) {
            let (path, owner) = (path.display(), metadata.uid());
            let title = format!("{path} belongs to user {owner}, who can therefore run commands as root");
            findings.warn(title, format!("chown root: {path}"));
        }
    }
    for path in everything_below(&root.engine_state()).into_iter().chain([root.state_database()]) {
        let Ok(metadata) = path.symlink_metadata() else { continue };
        if metadata.is_file() && metadata.mode() & ACCESSIBLE_BY_OTHERS != 0 {
            let path = path.display();
            findings.warn(
                format!("{path} is readable for others, and may have private contents"),
                format!("chmod go= {path}"),
            );
        }
    }
}

/// Returns true if the file belongs to root or to the current user.
fn is_trusted(metadata: &Metadata) -> bool {
    metadata.uid() == 0 || metadata.uid() == rustix::process::geteuid().as_raw()
}

/// Returns a path and its descendants down to [`DEPTH`].
fn everything_below(path: &Path) -> Vec<PathBuf> {
    let entries = WalkDir::new(path).max_depth(DEPTH).into_iter().filter_map(Result::ok);
    entries.map(walkdir::DirEntry::into_path).collect()
}

/// Deep enough for all files that are read first; deeper ones are only reachable through these directories.
const DEPTH: usize = 4;
