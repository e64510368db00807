//! Archives of all formats, including some that no honest tool creates.
#![allow(clippy::unwrap_used, clippy::allow_attributes, reason = "a failed test panics")]

use std::io::Write;
use tar::{EntryType, Header};

/// A tar that is written entry by entry, without validation.
#[derive(Default)]
pub(crate) struct Tar(Vec<u8>);

impl Tar {
    pub(crate) fn new() -> Tar {
        Tar::default()
    }

    pub(crate) fn file(self, name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Tar {
        self.file_with_mode(name, content, 0o644)
    }

    pub(crate) fn file_with_mode(self, name: impl AsRef<[u8]>, content: impl AsRef<[u8]>, mode: u32) -> Tar {
        self.entry(EntryType::Regular, name.as_ref(), b"", content.as_ref(), mode)
    }

    pub(crate) fn directory(self, name: impl AsRef<[u8]>) -> Tar {
        self.entry(EntryType::Directory, name.as_ref(), b"", b"", 0o755)
    }

    pub(crate) fn symlink(self, name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Tar {
        self.entry(EntryType::Symlink, name.as_ref(), target.as_ref(), b"", 0o777)
    }

    pub(crate) fn hard_link(self, name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Tar {
        self.entry(EntryType::Link, name.as_ref(), target.as_ref(), b"", 0o644)
    }

    pub(crate) fn special(self, name: impl AsRef<[u8]>, kind: EntryType) -> Tar {
        self.entry(kind, name.as_ref(), b"", b"", 0o666)
    }

    /// Adds PAX records for the next entry.
    pub(crate) fn pax(self, records: impl AsRef<[u8]>) -> Tar {
        self.raw(EntryType::XHeader, b"./PaxHeaders/x", b"", records.as_ref(), 0o644)
    }

    fn entry(mut self, kind: EntryType, name: &[u8], target: &[u8], content: &[u8], mode: u32) -> Tar {
        for (long, letter) in [(name, b'L'), (target, b'K')] {
            if long.len() > 100 {
                let mut data = long.to_vec();
                data.push(0);
                self = self.raw(EntryType::new(letter), b"././@LongLink", b"", &data, 0);
            }
        }
        self.raw(kind, name, target, content, mode)
    }

    fn raw(mut self, kind: EntryType, name: &[u8], target: &[u8], content: &[u8], mode: u32) -> Tar {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        // Another user's file, and old.
        header.set_uid(4321);
        header.set_gid(4321);
        header.set_mtime(1_000_000_000);
        let gnu = header.as_gnu_mut().unwrap();
        copy(name, &mut gnu.name);
        copy(target, &mut gnu.linkname);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// Appends raw bytes.
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Tar {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

fn copy(from: &[u8], to: &mut [u8]) {
    let length = from.len().min(to.len());
    to[..length].copy_from_slice(&from[..length]);
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

/// An entry of a zip: its name, its mode with the type, and its content.
pub(crate) type ZipEntry<'a> = (&'a [u8], u32, &'a [u8]);

/// Creates an uncompressed zip manually, so that it can contain entries that no tool writes.
pub(crate) fn zip(entries: &[ZipEntry<'_>]) -> Vec<u8> {
    let (mut local, mut central) = (Vec::new(), Vec::new());
    for (name, mode, content) in entries {
        let offset = u32::try_from(local.len()).unwrap();
        let mut crc = flate2::Crc::new();
        crc.update(content);
        let length = u32::try_from(content.len()).unwrap().to_le_bytes();
        let name_length = u16::try_from(name.len()).unwrap().to_le_bytes();
        let common = |to: &mut Vec<u8>| {
            // Version 2.0, no flags, stored, 1980-01-01.
            to.extend_from_slice(&[20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0]);
            to.extend_from_slice(&crc.sum().to_le_bytes());
            to.extend_from_slice(&length);
            to.extend_from_slice(&length);
            to.extend_from_slice(&name_length);
            to.extend_from_slice(&[0, 0]);
        };
        local.extend_from_slice(b"PK\x03\x04");
        common(&mut local);
        local.extend_from_slice(name);
        local.extend_from_slice(content);
        // Made by Unix.
        central.extend_from_slice(b"PK\x01\x02\x14\x03");
        common(&mut central);
        central.extend_from_slice(&[0; 6]);
        central.extend_from_slice(&(mode << 16).to_le_bytes());
        central.extend_from_slice(&offset.to_le_bytes());
        central.extend_from_slice(name);
    }
    let count = u16::try_from(entries.len()).unwrap().to_le_bytes();
    let (size, offset) = (u32::try_from(central.len()).unwrap(), u32::try_from(local.len()).unwrap());
    let mut whole = [local, central].concat();
    whole.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    whole.extend_from_slice(&count);
    whole.extend_from_slice(&count);
    whole.extend_from_slice(&size.to_le_bytes());
    whole.extend_from_slice(&offset.to_le_bytes());
    whole.extend_from_slice(&[0, 0]);
    whole
}
