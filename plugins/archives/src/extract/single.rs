//! Extracting a single compressed file.

use super::error::{EntryError, ExtractError};
use super::staging::Staging;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The suffixes that are removed from the name of a compressed file.
const ENDINGS: [&str; 4] = ["gz", "xz", "zst", "bz2"];

/// Returns the file name for a download with this path; `None` if its suffix is not that of a compressed file.
pub(crate) fn name(download: &Path) -> Option<PathBuf> {
    let is_ending = |ending: &str| ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known));
    download.extension()?.to_str().filter(|ending| is_ending(ending))?;
    let stem = Path::new(download.file_stem()?);
    // A file that is named like a tar, but is none, is damaged.
    let is_tar = stem.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("tar"));
    (!is_tar).then(|| stem.to_owned())
}

pub(super) fn read(unpacked: impl Read, staging: &mut Staging<'_, '_>) -> Result<(), ExtractError> {
    let Some(path) = name(staging.extraction.download) else { return Err(ExtractError::UnnamedFile) };
    let in_entry = |error: EntryError| error.in_entry(path.as_os_str().as_bytes());
    if !staging.extraction.selection.has(&path).map_err(|error| in_entry(error.into()))? {
        return Ok(());
    }
    let mut content = staging.allowance.metered(unpacked);
    let mode = staging.extraction.mode;
    staging.file(&path, mode, None, None, &mut content).map_err(in_entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_loses_its_ending() {
        let name = |path: &str| name(Path::new(path));
        for (path, expected) in [("/srv/tool.gz", "tool"), ("/srv/a.b.XZ", "a.b"), ("/x.zst", "x"), ("/x.bz2", "x")] {
            assert_eq!(name(path), Some(expected.into()), "{path}");
        }
        for path in ["/srv/tool", "/srv/a.tar.gz", "/srv/a.tgz", "/srv/.gz", "/srv/a.zip"] {
            assert_eq!(name(path), None, "{path}");
        }
    }
}
