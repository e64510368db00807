//! Names in archives: destinations of entries, and symlinks that lead out of the tree.

use holo_change::PathError;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::limits::{DEPTH, PATH_LENGTH};

/// The error for an unusable name.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NameError {
    #[error("its name is absolute")]
    Absolute,
    #[error("its name holds NUL")]
    Nul,
    #[error("its name holds \"..\"")]
    Parent,
    #[error("it is nested deeper than {DEPTH} directories")]
    TooDeep,
    #[error("its name is too long")]
    TooLong,
}

/// The maximum number of symlinks that the kernel follows in a path.
const MAX_SYMLINKS: u32 = 40;

/// Returns the path of an entry relative to the target directory; `None` if all components of its name are stripped.
///
/// # Errors
/// If the name could lead out of the directory, or is too long.
pub(crate) fn destination(name: &[u8], strip: u32) -> Result<Option<PathBuf>, NameError> {
    if name.starts_with(b"/") {
        return Err(NameError::Absolute);
    }
    if name.contains(&0) {
        return Err(NameError::Nul);
    }
    let parts: Vec<&[u8]> = name.split(|&byte| byte == b'/').filter(|part| !part.is_empty()).collect();
    if parts.contains(&&b".."[..]) {
        return Err(NameError::Parent);
    }
    // As in tar, a leading "." counts as a component.
    let kept = parts.iter().skip(usize::try_from(strip).unwrap_or(usize::MAX)).filter(|part| **part != b".");
    let path: PathBuf = kept.map(|part| OsStr::from_bytes(part)).collect();
    if path.components().count() > DEPTH {
        return Err(NameError::TooDeep);
    }
    if path.as_os_str().len() > PATH_LENGTH || path.iter().any(|part| part.len() > 255) {
        return Err(NameError::TooLong);
    }
    Ok((!path.as_os_str().is_empty()).then_some(path))
}

/// Returns the target of the symlink at a path of the tree, if it is one.
pub(crate) type SymlinkAt<'a> = &'a dyn Fn(&Path) -> Result<Option<Vec<u8>>, PathError>;

/// Returns true if a symlink leads out of the tree, directly or through other symlinks. `top` is the path of the tree.
///
/// # Errors
/// If a symlink cannot be read.
pub(crate) fn leads_out(link: &Path, target: &[u8], symlink_at: SymlinkAt<'_>, top: &Path) -> Result<bool, PathError> {
    let mut way: Vec<OsString> = link.parent().into_iter().flat_map(Path::iter).map(OsStr::to_owned).collect();
    let mut open: Vec<OsString> = Vec::new();
    if !follow(target, top, &mut way, &mut open) {
        return Ok(true);
    }
    let mut symlinks = 1;
    while let Some(part) = open.pop() {
        match part.as_bytes() {
            b"" | b"." => {}
            b".." => {
                if way.pop().is_none() {
                    return Ok(true);
                }
            }
            _ => {
                way.push(part);
                let here: PathBuf = way.iter().collect();
                if let Some(target) = symlink_at(&here)? {
                    symlinks += 1;
                    if symlinks > MAX_SYMLINKS {
                        // The kernel does not follow it either.
                        return Ok(false);
                    }
                    way.pop();
                    if !follow(&target, top, &mut way, &mut open) {
                        return Ok(true);
                    }
                }
            }
        }
    }
    Ok(false)
}

/// Adds the components of a symlink's target to the pending ones. Returns false if it is an absolute path outside of
/// the tree.
fn follow(target: &[u8], top: &Path, way: &mut Vec<OsString>, open: &mut Vec<OsString>) -> bool {
    let path = Path::new(OsStr::from_bytes(target));
    let below = if path.is_absolute() {
        // Absolute targets with ".." are rejected without further examination.
        if path.components().any(|part| part == Component::ParentDir) {
            return false;
        }
        match path.strip_prefix(top) {
            Ok(below) => {
                way.clear();
                below
            }
            Err(_) => return false,
        }
    } else {
        path
    };
    let parts: Vec<&OsStr> = below.iter().collect();
    open.extend(parts.into_iter().rev().map(OsStr::to_owned));
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn names_lead_down() {
        let to = |name: &str, strip| destination(name.as_bytes(), strip).unwrap();
        assert_eq!(to("a/b", 0), Some("a/b".into()));
        assert_eq!(to("./a//b/", 0), Some("a/b".into()));
        assert_eq!(to("a/b/c", 1), Some("b/c".into()));
        assert_eq!(to("./a/b", 1), Some("a/b".into()));
        assert_eq!(to("a", 1), None);
        assert_eq!(to("./", 0), None);
        assert_eq!(to("a\nb", 0), Some("a\nb".into()));
        assert_eq!(to("a..b/..c", 0), Some("a..b/..c".into()));
        let deep = "d/".repeat(DEPTH + 1);
        for (name, strip) in [("/etc/passwd", 0), ("../x", 0), ("a/../x", 0), ("a/..", 2), ("a\0b", 0), (&deep, 0)] {
            assert!(destination(name.as_bytes(), strip).is_err(), "{name}");
        }
        assert!(destination(&[b'a'; 256], 0).is_err());
    }

    #[test]
    fn symlinks_that_lead_out_are_found() {
        let top = Path::new("/opt/app");
        let links: BTreeMap<PathBuf, Vec<u8>> =
            [("deep/x/up", "../.."), ("round", "round"), ("absolute", "/opt/app/deep")]
                .into_iter()
                .map(|(link, target)| (link.into(), target.into()))
                .collect();
        let symlink_at = |path: &Path| Ok(links.get(path).cloned());
        let out = |link: &str, target: &str| leads_out(Path::new(link), target.as_bytes(), &symlink_at, top).unwrap();
        for (link, target) in [
            ("l", "a"),
            ("l", "."),
            ("d/l", ".."),
            ("d/l", "../a/../b"),
            ("l", "round"),
            ("l", "absolute/x"),
            ("l", "/opt/app/x"),
            ("l", "/opt/app"),
            ("l", "deep/x/up/deep"),
        ] {
            assert!(!out(link, target), "{link} -> {target}");
        }
        for (link, target) in [
            ("l", ".."),
            ("l", "/"),
            ("l", "/etc/passwd"),
            ("l", "/opt/application"),
            ("l", "/opt/app/../x"),
            ("d/l", "../../x"),
            // Lexically, this one ends in deep/x.
            ("l", "deep/x/up/.."),
            ("l", "absolute/../.."),
        ] {
            assert!(out(link, target), "{link} -> {target}");
        }
    }
}
