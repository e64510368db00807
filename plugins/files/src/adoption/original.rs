//! Original files of packages, extracted from package archives.

use holo_plugin::Host;
use holo_plugin::process::Program;
use holo_plugin::system::PackagedFile;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The directory of APT's downloaded archives.
const ARCHIVES: &str = "/var/cache/apt/archives";
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Returns the original content of a package's file, if an archive with the right content exists.
pub(super) fn of(path: &Path, file: &PackagedFile, host: &Host) -> Option<Vec<u8>> {
    let digest = file.digest.as_ref()?;
    let begins = format!("{}_", file.package);
    let archives = fs::read_dir(host.below_root(Path::new(ARCHIVES))).ok()?.filter_map(Result::ok);
    let archives: Vec<PathBuf> = archives.map(|entry| entry.path()).collect();
    let is_of_package = |archive: &&PathBuf| {
        let name = archive.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(&begins) && name.ends_with(".deb")
    };
    // There may be archives of other versions.
    let contents = archives.iter().filter(is_of_package).filter_map(|archive| unpack(archive, path, host));
    contents.into_iter().find(|content| digest.is_of(content) == Some(true))
}

/// Returns the content of a file in a Debian package.
fn unpack(archive: &Path, path: &Path, host: &Host) -> Option<Vec<u8>> {
    let unpacked = host.cache_dir().join("original.tar");
    let mut program = Program::new("dpkg-deb");
    program.arg("--fsys-tarfile").arg(archive).stdout_file(File::create(&unpacked).ok()?).timeout(TIME_LIMIT);
    let ended = program.run(|_, _| {}).ok()?;
    let content = ended.failure().is_none().then(|| extract(&unpacked, path)).flatten();
    let _ = fs::remove_file(&unpacked);
    content
}

/// Returns the content of a file in a tar archive.
fn extract(archive: &Path, path: &Path) -> Option<Vec<u8>> {
    let wanted = path.strip_prefix("/").ok()?;
    let mut archive = tar::Archive::new(File::open(archive).ok()?);
    for entry in archive.entries().ok()? {
        let mut entry = entry.ok()?;
        let is_wanted = entry.path().is_ok_and(|path| path.strip_prefix(".").unwrap_or(&path) == wanted);
        if is_wanted && entry.header().entry_type().is_file() {
            let mut content = Vec::new();
            entry.read_to_end(&mut content).ok()?;
            return Some(content);
        }
    }
    None
}
