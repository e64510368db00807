//! Private keys in plain text, which would be readable by all who can fetch the bundle.

use bstr::ByteSlice;

/// What only unencrypted private keys contain.
const MARKS: [&str; 9] = [
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN RSA PRIVATE KEY-----",
    "-----BEGIN DSA PRIVATE KEY-----",
    "-----BEGIN EC PRIVATE KEY-----",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----",
    "-----BEGIN USER NKEY SEED-----",
    // The beginning of an OpenSSH key with the cipher `none`.
    "b3BlbnNzaC1rZXktdjEAAAAABG5vbmU",
    "AGE-SECRET-KEY-1",
    "PuTTY-User-Key-File-",
];
/// The length of the longest one.
const LONGEST: usize = 37;

/// Finds the first private key in a content that is passed piece by piece.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The end of the last piece, in which a key may begin.
    end: Vec<u8>,
    lines: usize,
    /// The line of the first key.
    pub(super) line: Option<usize>,
}

impl Search {
    pub(super) fn pass(&mut self, piece: &[u8]) {
        if self.line.is_some() {
            return;
        }
        self.end.extend_from_slice(piece);
        let first = MARKS.iter().filter_map(|mark| self.end.find(mark)).min();
        let passed = first.unwrap_or_else(|| self.end.len().saturating_sub(LONGEST));
        let gone: Vec<u8> = self.end.drain(..passed).collect();
        self.lines += gone.find_iter("\n").count();
        self.line = first.map(|_| self.lines + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(pieces: &[&str]) -> Option<usize> {
        let mut search = Search::default();
        pieces.iter().for_each(|piece| search.pass(piece.as_bytes()));
        search.line
    }

    #[test]
    fn a_key_is_found_wherever_a_piece_ends() {
        assert_eq!(MARKS.iter().map(|mark| mark.len()).max(), Some(LONGEST));
        for mark in MARKS {
            let text = format!("{}\na\n{mark}\nb\n", "x".repeat(100));
            for at in 0..text.len() {
                assert_eq!(line(&[&text[..at], &text[at..]]), Some(3), "{mark} at {at}");
            }
        }
    }

    #[test]
    fn encrypted_and_public_keys_are_no_secrets() {
        let texts = ["-----BEGIN ENCRYPTED PRIVATE KEY-----\n", "ssh-ed25519 AAAA…\n", "-----BEGIN CERTIFICATE-----\n"];
        texts.iter().for_each(|text| assert_eq!(line(&[text]), None, "{text}"));
        assert_eq!(line(&["b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHI"]), None);
    }
}
