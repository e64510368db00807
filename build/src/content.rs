//! The contents of files: read once into a temporary file, with their digests.

use md5::Md5;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;

/// The contents of all files of a package. A source that changes during the build cannot make the package inconsistent,
/// because it is only read once.
#[derive(Debug)]
pub(crate) struct Contents {
    file: File,
    length: u64,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    offset: u64,
    pub(crate) size: u64,
    pub(crate) md5: [u8; 16],
    pub(crate) sha256: [u8; 32],
}

impl Contents {
    pub(crate) fn new() -> io::Result<Contents> {
        Ok(Contents { file: tempfile::tempfile()?, length: 0 })
    }

    /// Adds a content. The inner error is that of the reader.
    pub(crate) fn add(&mut self, reader: &mut dyn Read) -> io::Result<io::Result<Content>> {
        let (mut md5, mut sha256) = (Md5::new(), Sha256::new());
        let offset = self.length;
        let mut buffer = [0; 64 << 10];
        loop {
            let count = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Ok(Err(error)),
            };
            let chunk = buffer.get(..count).unwrap_or_default();
            self.file.write_all(chunk)?;
            md5.update(chunk);
            sha256.update(chunk);
            self.length += chunk.len() as u64;
        }
        let size = self.length - offset;
        Ok(Ok(Content { offset, size, md5: md5.finalize().into(), sha256: sha256.finalize().into() }))
    }

    /// Returns a reader of a content.
    pub(crate) fn reader(&self, content: &Content) -> impl Read {
        Section { file: &self.file, offset: content.offset, end: content.offset + content.size }
    }
}

struct Section<'a> {
    file: &'a File,
    offset: u64,
    end: u64,
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(self.end - self.offset).unwrap_or(usize::MAX);
        let length = buffer.len().min(rest);
        let count = self.file.read_at(buffer.get_mut(..length).unwrap_or_default(), self.offset)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// Returns bytes in hexadecimal notation.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_read_back_with_their_digests() {
        let mut contents = Contents::new().unwrap();
        let one = contents.add(&mut &b"one\n"[..]).unwrap().unwrap();
        let empty = contents.add(&mut &b""[..]).unwrap().unwrap();
        let large = vec![7; 200_000];
        let two = contents.add(&mut &large[..]).unwrap().unwrap();
        let read = |content: &Content| {
            let mut bytes = Vec::new();
            contents.reader(content).read_to_end(&mut bytes).unwrap();
            bytes
        };
        assert_eq!((read(&one), read(&empty), read(&two) == large), (b"one\n".to_vec(), vec![], true));
        // By md5sum and sha256sum.
        assert_eq!(hex(&one.md5), "5bbf5a52328e7439ae6e719dfe712200");
        assert_eq!(hex(&one.sha256), "2c8b08da5ce60398e1f19af0e5dccc744df274b826abe585eaba68c525434806");
        assert_eq!(hex(&empty.md5), "d41d8cd98f00b204e9800998ecf8427e");
    }
}
