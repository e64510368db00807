//! Versions of Arch Linux, `[EPOCH:]VERSION[-RELEASE]`, ordered as in vercmp(8).

use super::rpm::segment;
use super::{compare_digits, split_epoch, split_release, split_while};
use std::cmp::Ordering;

/// Compares like `vercmp`. The release counts only if both versions have one.
pub fn compare(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    let ((a_epoch, a), (b_epoch, b)) = (split_epoch(a), split_epoch(b));
    let ((a, a_release), (b, b_release)) = (split_release(a), split_release(b));
    compare_part(a_epoch.unwrap_or("0"), b_epoch.unwrap_or("0")).then_with(|| compare_part(a, b)).then_with(|| {
        let releases = a_release.zip(b_release);
        releases.map_or(Ordering::Equal, |(a, b)| compare_part(a, b))
    })
}

fn compare_part(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    while !a.is_empty() && !b.is_empty() {
        let ((a_separators, a_rest), (b_separators, b_rest)) = (separators(a), separators(b));
        (a, b) = (a_rest, b_rest);
        let (Some(first), Some(_)) = (a.first(), b.first()) else { break };
        // The version with more separators is newer.
        if a_separators.len() != b_separators.len() {
            return a_separators.len().cmp(&b_separators.len());
        }
        let is_number = first.is_ascii_digit();
        let ((a_segment, a_rest), (b_segment, b_rest)) = (segment(a, is_number), segment(b, is_number));
        let order = match (b_segment.is_empty(), is_number) {
            (true, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, true) => compare_digits(a_segment, b_segment),
            (false, false) => a_segment.cmp(b_segment),
        };
        if order.is_ne() {
            return order;
        }
        (a, b) = (a_rest, b_rest);
    }
    // Remaining letters mark a pre-release, as in 1.0rc. Other remaining characters mark a newer version.
    match (a.first(), b.first()) {
        (None, None) => Ordering::Equal,
        (Some(left), _) if left.is_ascii_alphabetic() => Ordering::Less,
        (None, Some(left)) if !left.is_ascii_alphabetic() => Ordering::Less,
        _ => Ordering::Greater,
    }
}

fn separators(text: &[u8]) -> (&[u8], &[u8]) {
    split_while(text, |byte| !byte.is_ascii_alphanumeric())
}
