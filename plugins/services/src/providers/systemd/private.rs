//! The socket of systemd itself, on which it speaks D-Bus with root without a bus.
//!
//! There, systemd sends its well-known name as the sender, where only unique names are permitted, and the D-Bus library
//! refuses that. Therefore its messages pass through a relay, which replaces that name with a unique name of the same
//! length.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;

const SOCKET: &str = "/run/systemd/private";
/// The start of the header field of the sender: its code and signature, the length (in native byte order), and the
/// first letter of the name. Its first byte does not occur again in it.
const SENDER: [&[u8]; 3] = [b"\x07\x01s\0", &24_u32.to_ne_bytes(), b"o"];
/// The first letter of all unique names, which replaces that of the well-known name.
const UNIQUE: u8 = b':';

/// Connects to systemd.
pub(super) fn connect() -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    let systemd = UnixStream::connect(SOCKET)?;
    let (to, from) = (systemd.try_clone()?, theirs.try_clone()?);
    thread::spawn(move || relay(from, to, <[u8]>::to_vec));
    let mut renaming = Renaming::new();
    thread::spawn(move || relay(systemd, theirs, move |bytes| renaming.rename(bytes)));
    Ok(ours)
}

/// Forwards data from one stream to the other until either ends.
fn relay(mut from: UnixStream, mut to: UnixStream, mut change: impl FnMut(&[u8]) -> Vec<u8>) {
    let mut buffer = [0; 1 << 13];
    while let Ok(length @ 1..) = from.read(&mut buffer)
        && let Some(bytes) = buffer.get(..length)
        && to.write_all(&change(bytes)).is_ok()
    {}
    // The other direction ends with this one.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Replaces the name of the sender in a stream of chunks.
struct Renaming {
    sender: Vec<u8>,
    /// The number of bytes of the pattern that matched last.
    seen: usize,
}

impl Renaming {
    fn new() -> Renaming {
        Renaming { sender: SENDER.concat(), seen: 0 }
    }

    /// Returns the bytes with the first letter of the name replaced.
    fn rename(&mut self, bytes: &[u8]) -> Vec<u8> {
        bytes.iter().map(|&byte| if self.ends_with(byte) { UNIQUE } else { byte }).collect()
    }

    /// Processes a byte, and returns true if it completes the pattern.
    fn ends_with(&mut self, byte: u8) -> bool {
        let continues = self.sender.get(self.seen) == Some(&byte);
        self.seen = if continues { self.seen + 1 } else { usize::from(self.sender.first() == Some(&byte)) };
        self.seen == self.sender.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_sender_becomes_a_unique_one() {
        let message = |name: &[u8]| [b"l\x07\x07\x01", SENDER[0], SENDER[1], name, b"\0\x07\x01s\0 and so on"].concat();
        let said = [message(b"org.freedesktop.systemd1"), message(b"org.freedesktop.systemd1")].concat();
        let expected = [message(b":rg.freedesktop.systemd1"), message(b":rg.freedesktop.systemd1")].concat();
        for size in [1, 3, 7, 1000] {
            let mut renaming = Renaming::new();
            let heard: Vec<u8> = said.chunks(size).flat_map(|piece| renaming.rename(piece)).collect();
            assert_eq!(bstr::BString::from(heard), bstr::BString::from(expected.clone()), "in pieces of {size}");
        }
    }
}
