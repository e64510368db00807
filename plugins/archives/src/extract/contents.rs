//! The contents of files in an archive that are small enough to be displayed.

use std::collections::BTreeMap;

/// The maximum length of a displayed content.
pub(crate) const MAX_SHOWN: usize = 64 << 10;
/// The maximum total length of all contents.
const MAX_TOGETHER: usize = 4 << 20;

/// Contents by their SHA-256. Contents that are too long are dropped while they are read, so that no file is in memory
/// completely.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    wanted: BTreeMap<String, Option<Vec<u8>>>,
    length: usize,
}

impl Contents {
    /// Creates an empty collection for contents with these digests.
    pub(crate) fn new(wanted: impl IntoIterator<Item = String>) -> Contents {
        Contents { wanted: wanted.into_iter().map(|sha256| (sha256, None)).collect(), length: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Returns the content with this digest, if it was found.
    pub(crate) fn get(&self, sha256: &str) -> Option<&[u8]> {
        self.wanted.get(sha256)?.as_deref()
    }

    /// Stores a content if it is wanted.
    pub(super) fn offer(&mut self, sha256: &str, content: Vec<u8>) {
        if let Some(wanted @ None) = self.wanted.get_mut(sha256)
            && self.length + content.len() <= MAX_TOGETHER
        {
            self.length += content.len();
            *wanted = Some(content);
        }
    }
}

/// A copy of a content that is being read, until it is too long.
pub(super) struct ShortCopy(Option<Vec<u8>>);

impl ShortCopy {
    /// Creates a copy; disabled unless it is wanted.
    pub(super) fn new(is_wanted: bool) -> ShortCopy {
        ShortCopy(is_wanted.then(Vec::new))
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        let has_room = |copy: &Vec<u8>| copy.len() + bytes.len() <= MAX_SHOWN;
        self.0 = self.0.take().filter(has_room).map(|mut copy| {
            copy.extend_from_slice(bytes);
            copy
        });
    }

    /// Returns the complete content, if it is short.
    pub(super) fn into_content(self) -> Option<Vec<u8>> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_ends_where_a_content_is_too_long() {
        let mut copy = ShortCopy::new(true);
        copy.add(&[b'x'; MAX_SHOWN]);
        copy.add(b"");
        assert_eq!(copy.into_content().map(|content| content.len()), Some(MAX_SHOWN));
        let mut copy = ShortCopy::new(true);
        copy.add(&[b'x'; MAX_SHOWN]);
        copy.add(b"y");
        copy.add(b"z");
        assert_eq!(copy.into_content(), None);
        assert_eq!(ShortCopy::new(false).into_content(), None);
    }

    #[test]
    fn what_is_wanted_is_kept_once_and_not_without_end() {
        let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let mut contents = Contents::new(names.clone());
        contents.offer("other", vec![0]);
        contents.offer("0", vec![1]);
        contents.offer("0", vec![2]);
        assert_eq!((contents.get("other"), contents.get("0")), (None, Some(&[1][..])));
        names.iter().for_each(|name| contents.offer(name, vec![0; MAX_SHOWN]));
        assert_eq!(names.iter().filter(|name| contents.get(name).is_some()).count(), 64);
    }
}
