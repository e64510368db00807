//! `--check`: checks the resource files of a package.

use crate::findings::Finding;
use crate::package::{Kind, Package, RESOURCES};
use holo_check::{CheckError, Checker};
use holo_process::words::reason;
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::Path;

/// The package cannot be checked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackageCheckError {
    #[error("holo is not installed, so the package cannot be checked")]
    NoHolo,
    #[error("cannot unpack the package for its check: {}", reason(.0))]
    Unpack(#[from] io::Error),
    #[error("cannot check the package: {0}; --no-check builds it without")]
    Check(#[from] CheckError),
}

/// Checks the resource files of a package. `host` is the root directory of this machine.
pub(crate) fn check(
    package: &Package,
    name: &str,
    holo: &Path,
    host: &Path,
) -> Result<Vec<Finding>, PackageCheckError> {
    if package.nodes.range(RESOURCES.to_owned()..).next().is_none_or(|(path, _)| !path.starts_with(RESOURCES)) {
        return Ok(Vec::new());
    }
    let root = tempfile::tempdir()?;
    unpack(package, root.path())?;
    let problems = Checker { holo, host, otherwise: ", or build with --no-check" }.check(root.path())?;
    let finding = |problem: holo_check::Problem| {
        let node = problem.path.and_then(|path| package.nodes.get(&path));
        let line = node.and_then(|node| node.origin.line());
        Finding { file: name.to_owned(), line, is_error: problem.is_error, text: problem.text }
    };
    let mut findings: Vec<Finding> = problems.into_iter().map(finding).collect();
    findings.sort_by_key(|finding| finding.line);
    Ok(findings)
}

/// Writes the files of the package, except for its configuration of holo, and symlinks that could lead out of the root.
fn unpack(package: &Package, root: &Path) -> io::Result<()> {
    for (path, node) in &package.nodes {
        let leads_out = matches!(node.kind, Kind::Symlink { .. }) && !path.starts_with(RESOURCES);
        if leads_out || path.starts_with("etc/holorc") {
            continue;
        }
        let path = root.join(path);
        match &node.kind {
            Kind::Directory => DirBuilder::new().mode(0o755).create(path)?,
            Kind::Symlink { target } => symlink(target, path)?,
            Kind::File { content, .. } => {
                // We read it back, perhaps as a user who is not its owner.
                let mode = node.mode & 0o777 | 0o400;
                let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
                io::copy(&mut package.contents.reader(content), &mut file)?;
            }
        }
    }
    Ok(())
}
