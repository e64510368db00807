//! Versions, compared as each package manager compares them.
//!
//! These are ports of some fifty lines each: the libraries there are refuse versions that the managers accept, or bring their own world,
//! and every answer here is compared with the manager's own in the tests.

pub mod alpine;
pub mod debian;
pub mod pacman;
pub mod rpm;

use std::cmp::Ordering;

/// Compares two runs of digits as numbers of any size.
fn compare_digits(a: &[u8], b: &[u8]) -> Ordering {
    let (a, b) = (without_zeros(a), without_zeros(b));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

fn without_zeros(digits: &[u8]) -> &[u8] {
    split_while(digits, |&digit| digit == b'0').1
}

/// Splits off what a slice begins with.
fn split_while(text: &[u8], belongs: impl Fn(&u8) -> bool) -> (&[u8], &[u8]) {
    let length = text.iter().take_while(|byte| belongs(byte)).count();
    text.split_at(length)
}

/// An epoch, if there is one, and the rest: `2:1.0` has 2, which stands before the first colon.
fn split_epoch(version: &str) -> (Option<&str>, &str) {
    match version.split_once(':') {
        Some((epoch, rest)) if epoch.bytes().all(|byte| byte.is_ascii_digit()) => (Some(epoch), rest),
        _ => (None, version),
    }
}

/// The part before the last hyphen, and the one after it, if there is one.
fn split_release(version: &str) -> (&str, Option<&str>) {
    version.rsplit_once('-').map_or((version, None), |(version, release)| (version, Some(release)))
}
