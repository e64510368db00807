//! Debian versions, `[EPOCH:]UPSTREAM[-REVISION]`, ordered as in deb-version(7).

use super::{compare_digits, split_epoch, split_release, split_while};
use std::cmp::Ordering;

/// Compares like `dpkg --compare-versions`.
pub fn compare(a: &str, b: &str) -> Ordering {
    let ((a_epoch, a), (b_epoch, b)) = (split_epoch(a), split_epoch(b));
    let ((a, a_revision), (b, b_revision)) = (split_release(a), split_release(b));
    compare_digits(a_epoch.unwrap_or_default().as_bytes(), b_epoch.unwrap_or_default().as_bytes())
        .then_with(|| compare_part(a, b))
        // A missing revision equals revision 0.
        .then_with(|| compare_part(a_revision.unwrap_or_default(), b_revision.unwrap_or_default()))
}

/// Compares parts without digits by character and parts of digits by value, alternately.
fn compare_part(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    while !a.is_empty() || !b.is_empty() {
        let ((a_letters, a_rest), (b_letters, b_rest)) = (letters(a), letters(b));
        let ((a_digits, a_rest), (b_digits, b_rest)) = (digits(a_rest), digits(b_rest));
        let order = compare_letters(a_letters, b_letters).then_with(|| compare_digits(a_digits, b_digits));
        if order.is_ne() {
            return order;
        }
        (a, b) = (a_rest, b_rest);
    }
    Ordering::Equal
}

fn letters(text: &[u8]) -> (&[u8], &[u8]) {
    split_while(text, |byte| !byte.is_ascii_digit())
}

fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    split_while(text, u8::is_ascii_digit)
}

fn compare_letters(a: &[u8], b: &[u8]) -> Ordering {
    let weights = (0..a.len().max(b.len())).map(|place| (weight(a.get(place)), weight(b.get(place))));
    weights.map(|(a, b)| a.cmp(&b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Returns the sort weight of a character. A tilde sorts before the end, the end before letters, and letters before all others.
fn weight(byte: Option<&u8>) -> i32 {
    match byte {
        Some(b'~') => -1,
        None => 0,
        Some(letter) if letter.is_ascii_alphabetic() => i32::from(*letter),
        Some(other) => i32::from(*other) + 256,
    }
}
