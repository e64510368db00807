//! Finds the files that have one of some texts, without keeping what is in them.

use bstr::{BString, Finder};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The number of bytes that are looked at together.
const PIECE: usize = 256 << 10;

/// Returns true if a file has one of some texts. What is split by two pieces is found, too.
pub(super) fn contains_any(path: &Path, texts: &[BString]) -> io::Result<bool> {
    let finders: Vec<Finder<'_>> = texts.iter().map(Finder::new).collect();
    let overlap = texts.iter().map(|text| text.len()).max().unwrap_or_default().saturating_sub(1);
    let mut file = File::open(path)?;
    let mut buffer = vec![0; PIECE + overlap];
    let mut kept = 0;
    loop {
        let count = file.read(buffer.get_mut(kept..).unwrap_or_default())?;
        let filled = buffer.get(..kept + count).unwrap_or_default();
        if finders.iter().any(|finder| finder.find(filled).is_some()) {
            return Ok(true);
        } else if count == 0 {
            return Ok(false);
        }
        let rest = filled.len().saturating_sub(overlap);
        kept = filled.len() - rest;
        buffer.copy_within(rest..rest + kept, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn texts_are_found_wherever_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let (one, other) = (BString::from("needle"), BString::from("x"));
        for start in [0, 1, PIECE - 6, PIECE - 3, PIECE - 1, PIECE, PIECE + 4, 2 * PIECE + 2, 3 * PIECE - 6] {
            let mut content = vec![b'.'; 3 * PIECE];
            content[start..start + 6].copy_from_slice(b"needle");
            fs::write(&path, &content).unwrap();
            assert!(contains_any(&path, &[other.clone(), one.clone()]).unwrap(), "{start}");
            assert!(!contains_any(&path, std::slice::from_ref(&other)).unwrap(), "{start}");
            assert!(!contains_any(&path, &["needles".into()]).unwrap(), "{start}");
        }
        fs::write(&path, "").unwrap();
        assert!(contains_any(&path, &["".into()]).unwrap());
        assert!(!contains_any(&path, &[one]).unwrap());
        assert!(contains_any(&folder.path().join("none"), &[]).is_err());
    }
}
