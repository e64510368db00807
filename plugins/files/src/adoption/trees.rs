//! Software that was installed as a whole, such as by `make install`. It is not configuration, and is not adopted.

use bstr::{BStr, BString, ByteSlice};
use holo_plugin::{Candidate, Output};
use std::collections::BTreeMap;

/// The maximum number of files without a package in a manually maintained directory.
const MOST_BY_HAND: usize = 50;

/// Removes the files of directories that contain too many, with a warning.
pub(super) fn leave_out(found: &mut Vec<Candidate>, output: &mut Output<'_>) {
    let mut counts: BTreeMap<BString, usize> = BTreeMap::new();
    let is_nobodys = |candidate: &Candidate| candidate.reason.contains_str("of no package");
    for candidate in found.iter().filter(|candidate| is_nobodys(candidate)) {
        *counts.entry(directory(candidate).to_owned()).or_default() += 1;
    }
    counts.retain(|_, count| *count > MOST_BY_HAND);
    found.retain(|candidate| !is_nobodys(candidate) || !counts.contains_key(directory(candidate)));
    for (directory, count) in counts {
        let directory = directory.strip_prefix(crate::overlay::PREFIX).unwrap_or(&directory).as_bstr();
        output.warning(format!(
            "{count} files of no package in {directory} are not adopted: such a large directory is installed software, which an archive can provide"
        ));
    }
}

/// Returns the ID of the directory that contains a candidate.
fn directory(candidate: &Candidate) -> &BStr {
    candidate.id.rsplit_once_str("/").map_or(b"".as_bstr(), |(directory, _)| directory.as_bstr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use holo_plugin::{Sink, Stream};

    struct OutputBuffer(String);

    impl Sink for OutputBuffer {
        fn write(&mut self, _: Stream, bytes: &[u8]) {
            self.0.push_str(&bytes.to_str_lossy());
        }
    }

    #[test]
    fn large_trees_are_left_out_with_a_warning() {
        let ids = (0..51).map(|number| format!("file:/usr/local/libexec/x/{number}"));
        let ids = ids.chain((0..50).map(|number| format!("file:/usr/local/bin/{number}")));
        let mut found: Vec<Candidate> = ids.map(|id| Candidate::new(id, "a file of no package")).collect();
        let mut said = OutputBuffer(String::new());
        leave_out(&mut found, &mut Output::new(&mut said));
        assert_eq!(found.len(), 50);
        assert!(found.iter().all(|candidate| candidate.id.starts_with(b"file:/usr/local/bin/")));
        assert_eq!(
            said.0,
            ">> 51 files of no package in /usr/local/libexec/x are not adopted: such a large directory is installed software, which an archive can provide\n"
        );
    }
}
