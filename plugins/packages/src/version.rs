//! Compares versions by the rules of each package manager.
//!
//! These are ports of about fifty lines each. Existing libraries reject versions that the managers accept, or have many dependencies. Tests
//! compare the results with those of the managers.

pub mod alpine;
pub mod debian;
pub mod pacman;
pub mod rpm;

use std::cmp::Ordering;

/// Compares two strings of digits as numbers of any size.
fn compare_digits(a: &[u8], b: &[u8]) -> Ordering {
    let (a, b) = (without_zeros(a), without_zeros(b));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

fn without_zeros(digits: &[u8]) -> &[u8] {
    split_while(digits, |&digit| digit == b'0').1
}

/// Splits off the longest prefix of matching bytes.
fn split_while(text: &[u8], belongs: impl Fn(&u8) -> bool) -> (&[u8], &[u8]) {
    let length = text.iter().take_while(|byte| belongs(byte)).count();
    text.split_at(length)
}

/// Splits off the epoch, which is the number before the first colon: `2:1.0` has the epoch 2.
fn split_epoch(version: &str) -> (Option<&str>, &str) {
    match version.split_once(':') {
        Some((epoch, rest)) if epoch.bytes().all(|byte| byte.is_ascii_digit()) => (Some(epoch), rest),
        _ => (None, version),
    }
}

/// Splits off the release, which is the part after the last hyphen.
fn split_release(version: &str) -> (&str, Option<&str>) {
    version.rsplit_once('-').map_or((version, None), |(version, release)| (version, Some(release)))
}
