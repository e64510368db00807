//! Versions of Alpine Linux, `NUMBERS[LETTER][_SUFFIX[NUMBER]…][-rREVISION]`, ordered as in apk-package(5).

use super::{compare_digits, split_while};
use std::cmp::Ordering;

/// Suffixes that sort before the version without a suffix, and those that sort after it, in order.
const BEFORE: [&str; 4] = ["alpha", "beta", "pre", "rc"];
const AFTER: [&str; 5] = ["cvs", "svn", "git", "hg", "p"];

/// The parts of a version.
#[derive(Debug, Default)]
struct Parts<'a> {
    numbers: Vec<&'a [u8]>,
    letter: Option<u8>,
    suffixes: Vec<(i8, &'a [u8])>,
    revision: &'a [u8],
}

/// Compares like `apk version -t`. The hash of a commit, `~HASH`, is ignored.
pub fn compare(a: &str, b: &str) -> Ordering {
    let (a, b) = (parts(a), parts(b));
    let numbers = compare_numbers(&a.numbers, &b.numbers);
    numbers
        .then_with(|| a.letter.cmp(&b.letter))
        .then_with(|| compare_suffixes(&a.suffixes, &b.suffixes))
        .then_with(|| compare_digits(a.revision, b.revision))
}

fn parts(version: &str) -> Parts<'_> {
    let mut parts = Parts::default();
    let (version, revision) = match version.rsplit_once("-r") {
        Some((version, revision)) if revision.bytes().all(|byte| byte.is_ascii_digit()) => (version, revision),
        _ => (version, ""),
    };
    parts.revision = revision.as_bytes();
    let version = version.split_once('~').map_or(version, |(version, _)| version);
    let mut words = version.split('_');
    let mut rest = words.next().unwrap_or_default().as_bytes();
    loop {
        let (number, after) = split_while(rest, u8::is_ascii_digit);
        parts.numbers.push(number);
        match after {
            [b'.', more @ ..] => rest = more,
            [letter, ..] => {
                parts.letter = Some(*letter);
                break;
            }
            [] => break,
        }
    }
    for word in words {
        let (name, number) = split_while(word.as_bytes(), u8::is_ascii_alphabetic);
        parts.suffixes.push((rank(name), number));
    }
    parts
}

/// Returns a negative rank for suffixes that sort before the version without a suffix, and a positive one for others.
fn rank(suffix: &[u8]) -> i8 {
    let place = |list: &[&str]| list.iter().position(|name| name.as_bytes() == suffix);
    let as_rank = |place: usize| i8::try_from(place).unwrap_or(i8::MAX);
    match (place(&BEFORE), place(&AFTER)) {
        (Some(place), _) => as_rank(place) - 4,
        (_, Some(place)) => as_rank(place) + 1,
        _ => i8::MAX,
    }
}

/// Compares lists of numbers. Except for the first one, numbers with a leading zero compare like digits after a decimal point.
fn compare_numbers(a: &[&[u8]], b: &[&[u8]]) -> Ordering {
    for (place, (a, b)) in a.iter().zip(b).enumerate() {
        let is_fraction = place > 0 && [a, b].iter().any(|number| number.starts_with(b"0"));
        let order = if is_fraction { a.cmp(b) } else { compare_digits(a, b) };
        if order.is_ne() {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

fn compare_suffixes(a: &[(i8, &[u8])], b: &[(i8, &[u8])]) -> Ordering {
    let none: (i8, &[u8]) = (0, b"");
    for place in 0..a.len().max(b.len()) {
        let ((a, a_number), (b, b_number)) = (a.get(place).unwrap_or(&none), b.get(place).unwrap_or(&none));
        let order = a.cmp(b).then_with(|| compare_digits(a_number, b_number));
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}
