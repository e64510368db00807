//! RPM versions, `[EPOCH:]VERSION[-RELEASE]`, ordered as in rpm-version(7).

use super::{compare_digits, split_epoch, split_release, split_while};
use std::cmp::Ordering;

/// Compares like `rpm`: epoch, version, release.
pub fn compare(a: &str, b: &str) -> Ordering {
    let ((a_epoch, a), (b_epoch, b)) = (split_epoch(a), split_epoch(b));
    let ((a, a_release), (b, b_release)) = (split_release(a), split_release(b));
    compare_digits(a_epoch.unwrap_or_default().as_bytes(), b_epoch.unwrap_or_default().as_bytes())
        .then_with(|| compare_part(a, b))
        .then_with(|| compare_part(a_release.unwrap_or_default(), b_release.unwrap_or_default()))
}

/// Returns true if a version is the requested one. An omitted epoch or release matches any.
pub fn matches(asked: &str, version: &str) -> bool {
    let ((asked_epoch, asked), (epoch, version)) = (split_epoch(asked), split_epoch(version));
    let ((asked, asked_release), (version, release)) = (split_release(asked), split_release(version));
    let epoch = epoch.unwrap_or_default().as_bytes();
    asked_epoch.is_none_or(|asked| compare_digits(asked.as_bytes(), epoch).is_eq())
        && compare_part(asked, version).is_eq()
        && asked_release.is_none_or(|asked| compare_part(asked, release.unwrap_or_default()).is_eq())
}

/// Compares segments of digits or letters. Other characters only separate segments.
pub(super) fn compare_part(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    loop {
        (a, b) = (without_separators(a), without_separators(b));
        match (a, b) {
            ([b'~', a_rest @ ..], [b'~', b_rest @ ..]) | ([b'^', a_rest @ ..], [b'^', b_rest @ ..]) => {
                (a, b) = (a_rest, b_rest);
            }
            // A tilde sorts before everything, even before the end.
            ([b'~', ..], _) => return Ordering::Less,
            (_, [b'~', ..]) => return Ordering::Greater,
            // A caret sorts after the end, and before everything else.
            ([b'^', ..], []) => return Ordering::Greater,
            ([], [b'^', ..]) => return Ordering::Less,
            ([b'^', ..], _) => return Ordering::Less,
            (_, [b'^', ..]) => return Ordering::Greater,
            ([], []) => return Ordering::Equal,
            ([], _) => return Ordering::Less,
            (_, []) => return Ordering::Greater,
            ([first, ..], _) => {
                let is_number = first.is_ascii_digit();
                let ((a_segment, a_rest), (b_segment, b_rest)) = (segment(a, is_number), segment(b, is_number));
                let order = match (b_segment.is_empty(), is_number) {
                    // Numbers sort after letters.
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
        }
    }
}

fn without_separators(text: &[u8]) -> &[u8] {
    split_while(text, |byte| !byte.is_ascii_alphanumeric() && !b"~^".contains(byte)).1
}

/// Splits off the leading digits or letters.
pub(super) fn segment(text: &[u8], is_number: bool) -> (&[u8], &[u8]) {
    split_while(text, |byte| if is_number { byte.is_ascii_digit() } else { byte.is_ascii_alphabetic() })
}
