//! Archive formats, which are detected from the first bytes, because names may be arbitrary.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

/// The format of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// A tar archive, compressed or not.
    Tar(Compression),
    Zip,
    /// A single compressed file.
    Single(Compression),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Xz,
    Zstd,
    Bzip2,
}

/// The block size of tar.
const BLOCK: usize = 512;
/// The memory limit of xz, slightly more than its strongest preset requires.
const XZ_MEMORY: u64 = 256 << 20;
/// The maximum window size of zstd, as a power of two: that of `zstd --ultra --long=27`.
const ZSTD_WINDOW: u32 = 27;

impl Format {
    /// Detects the format of a file; `None` if it is not an archive. The file is rewound.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn detect(file: &mut File) -> io::Result<Option<Format>> {
        let beginning = beginning(&mut *file)?;
        file.seek(SeekFrom::Start(0))?;
        let is = |magic: &[u8]| beginning.starts_with(magic);
        if is(b"PK\x03\x04") || is(b"PK\x05\x06") {
            return Ok(Some(Format::Zip));
        }
        let compression = if is(&[0x1f, 0x8b]) {
            Compression::Gzip
        } else if is(&[0xfd, b'7', b'z', b'X', b'Z', 0]) {
            Compression::Xz
        } else if is(&[0x28, 0xb5, 0x2f, 0xfd]) || is_skippable_frame(&beginning) {
            Compression::Zstd
        } else if is(b"BZh") {
            Compression::Bzip2
        } else {
            Compression::None
        };
        let inner = match compression {
            Compression::None => beginning,
            // If it cannot be decompressed, the extraction reports the error.
            _ => match self::beginning(compression.reader(file)?) {
                Ok(inner) => inner,
                Err(_) => return Ok(Some(Format::Tar(compression))),
            },
        };
        file.seek(SeekFrom::Start(0))?;
        Ok(match compression {
            _ if is_tar(&inner) => Some(Format::Tar(compression)),
            Compression::None => None,
            _ => Some(Format::Single(compression)),
        })
    }
}

impl Compression {
    /// Returns a reader for the decompressed rest of a file.
    ///
    /// # Errors
    /// If the decoder cannot be created.
    pub(crate) fn reader<'f>(self, file: &'f File) -> io::Result<Box<dyn Read + 'f>> {
        let file = BufReader::with_capacity(1 << 16, file);
        Ok(match self {
            Compression::None => Box::new(file),
            // Files may consist of several members, such as those of pigz.
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
            Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(file)),
            Compression::Xz => {
                let decoder = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, liblzma::stream::CONCATENATED)?;
                Box::new(liblzma::bufread::XzDecoder::new_stream(file, decoder))
            }
            Compression::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(file)?;
                decoder.window_log_max(ZSTD_WINDOW)?;
                Box::new(decoder)
            }
        })
    }
}

fn beginning(reader: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(BLOCK as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns true for a skippable frame of zstd, with which the output of pzstd begins.
fn is_skippable_frame(bytes: &[u8]) -> bool {
    matches!(bytes, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// Returns true if a block is a tar header with a valid checksum, or consists of zeros, like an empty tar.
fn is_tar(block: &[u8]) -> bool {
    let Some(sum) = block.get(148..156).filter(|_| block.len() == BLOCK) else { return false };
    if block.iter().all(|&byte| byte == 0) {
        return true;
    }
    let digits: String = sum.iter().map(|&byte| char::from(byte)).collect();
    let Ok(sum) = u32::from_str_radix(digits.trim_matches([' ', '\0']), 8) else { return false };
    let with_spaces = block.iter().enumerate().map(|(at, &byte)| if (148..156).contains(&at) { b' ' } else { byte });
    with_spaces.map(u32::from).sum::<u32>() == sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn detect(bytes: &[u8]) -> Option<Format> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let format = Format::detect(&mut file).unwrap();
        assert_eq!(file.stream_position().unwrap(), 0);
        format
    }

    #[test]
    fn formats_are_detected_by_content() {
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_old();
        header.set_size(0);
        tar.append_data(&mut header, "name", io::empty()).unwrap();
        let tar = tar.into_inner().unwrap();
        assert_eq!(detect(&tar), Some(Format::Tar(Compression::None)));
        assert_eq!(detect(&zstd::encode_all(&*tar, 1).unwrap()), Some(Format::Tar(Compression::Zstd)));
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&tar).unwrap();
        assert_eq!(detect(&gzip.finish().unwrap()), Some(Format::Tar(Compression::Gzip)));
        assert_eq!(detect(&[0; 1024]), Some(Format::Tar(Compression::None)));
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(b"a text").unwrap();
        assert_eq!(detect(&gzip.finish().unwrap()), Some(Format::Single(Compression::Gzip)));
        for wrong in [&b""[..], b"text", b"#!/bin/sh\n", b"PK", &[0; 100], &[b'a'; 1024], &[0xff; 1024]] {
            assert_eq!(detect(wrong), None);
        }
    }
}
