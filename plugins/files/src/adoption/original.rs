//! The files that packages have brought, from the archives that they came in.

use super::dpkg::Package;
use holo_plugin::Host;
use holo_plugin::process::Program;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

/// The directory in which APT keeps what it has downloaded.
const ARCHIVES: &str = "/var/cache/apt/archives";
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Returns the content of a file as its package has it, if the archive of the package is there.
pub(super) fn of(path: &Path, package: &Package, host: &Host) -> Option<Vec<u8>> {
    let Package { name, version, architecture } = package;
    let file = format!("{name}_{}_{architecture}.deb", version.replace(':', "%3a"));
    let archive = host.below_root(Path::new(ARCHIVES)).join(file);
    if !archive.is_file() {
        return None;
    }
    let unpacked = host.cache_dir().join("original.tar");
    let mut program = Program::new("dpkg-deb");
    program.arg("--fsys-tarfile").arg(&archive).stdout_file(File::create(&unpacked).ok()?).timeout(TIME_LIMIT);
    let ended = program.run(|_, _| {}).ok()?;
    let content = ended.failure().is_none().then(|| extract(&unpacked, path)).flatten();
    let _ = fs::remove_file(&unpacked);
    content
}

/// Returns the content of a file in an archive of tar.
fn extract(archive: &Path, path: &Path) -> Option<Vec<u8>> {
    let wanted = path.strip_prefix("/").ok()?;
    let mut archive = tar::Archive::new(File::open(archive).ok()?);
    for entry in archive.entries().ok()? {
        let mut entry = entry.ok()?;
        let is_wanted = entry.path().is_ok_and(|path| path.strip_prefix(".").unwrap_or(&path) == wanted);
        if is_wanted && entry.header().entry_type().is_file() {
            let mut content = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut content).ok()?;
            return Some(content);
        }
    }
    None
}
