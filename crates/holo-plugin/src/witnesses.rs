//! Witnesses that the entities of several plugins have in common.

use holo_change::join;
use holo_protocol::Witness;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

/// Returns true if a path below a directory is a symlink, or leads through one. A witness of it might be another file
/// than the one that was read, because an absolute symlink is resolved below the root.
#[must_use]
pub fn leads_through_symlink(directory: &Path, below: &Path) -> bool {
    let mut path = directory.to_owned();
    below.components().any(|part| match part {
        Component::Normal(name) => {
            path.push(name);
            path.is_symlink()
        }
        Component::RootDir | Component::CurDir => false,
        Component::ParentDir | Component::Prefix(_) => true,
    })
}

/// Returns the witnesses of paths below a root. A directory on the way to another of these paths is compared in any
/// case, except for the names in it.
#[must_use]
pub fn witness_paths(root: &Path, paths: &BTreeSet<PathBuf>) -> Vec<Witness> {
    let leads_to_another = |path: &Path| {
        let mut after = paths.range::<Path, _>((Bound::Excluded(path), Bound::Unbounded));
        after.next().is_some_and(|next| next.starts_with(path))
    };
    let ends = paths.iter().filter(|path| !leads_to_another(path));
    ends.map(|path| Witness::file(&join(root, path))).collect()
}

/// Returns the witnesses of a file, or of a directory and everything below it. Symlinks are not followed.
///
/// # Errors
/// If a directory cannot be read.
pub fn witness_tree(path: &Path) -> io::Result<Vec<Witness>> {
    let mut witnesses = Vec::new();
    let mut open = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        witnesses.push(Witness::file(&path));
        if fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            for entry in fs::read_dir(&path)? {
                open.push(entry?.path());
            }
        }
    }
    Ok(witnesses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn symlinks_on_the_way_are_found() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("a")).unwrap();
        symlink("/a", root.path().join("link")).unwrap();
        let leads = |path: &str| leads_through_symlink(root.path(), Path::new(path));
        assert!(!leads("/a/b") && !leads("missing/b") && !leads("/"));
        assert!(leads("/link") && leads("/link/b") && leads("/a/../a"));
    }

    #[test]
    fn a_tree_is_everything_below_a_directory() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        fs::write(root.path().join("a/b/c"), "").unwrap();
        symlink("a", root.path().join("link")).unwrap();
        let paths = |path: &Path| {
            let mut paths: Vec<_> = witness_tree(path).unwrap().into_iter().map(|witness| witness.path).collect();
            paths.sort();
            paths
        };
        let of = |below: &str| holo_change::path_bytes(&root.path().join(below));
        let all = ["a", "a/b", "a/b/c", "link"].map(of);
        assert_eq!(paths(root.path())[1..], all);
        assert_eq!(paths(&root.path().join("missing")), [of("missing")]);
    }
}
