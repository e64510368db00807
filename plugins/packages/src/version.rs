//! Compares versions by the rules of each package manager.
//!
//! These are ports of about fifty lines each. Existing libraries reject versions that the managers accept, or have many dependencies. Tests
//! compare the results with those of the managers.

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
pub fn compare_alpine(a: &str, b: &str) -> Ordering {
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

/// Compares like `dpkg --compare-versions`.
pub fn compare_debian(a: &str, b: &str) -> Ordering {
    let ((a_epoch, a), (b_epoch, b)) = (split_epoch(a), split_epoch(b));
    let ((a, a_revision), (b, b_revision)) = (split_release(a), split_release(b));
    compare_digits(a_epoch.unwrap_or_default().as_bytes(), b_epoch.unwrap_or_default().as_bytes())
        .then_with(|| compare_debian_part(a, b))
        // A missing revision equals revision 0.
        .then_with(|| compare_debian_part(a_revision.unwrap_or_default(), b_revision.unwrap_or_default()))
}

/// Compares parts without digits by character and parts of digits by value, alternately.
fn compare_debian_part(a: &str, b: &str) -> Ordering {
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

/// Compares like `vercmp`. The release counts only if both versions have one.
pub fn compare_pacman(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    let ((a_epoch, a), (b_epoch, b)) = (split_epoch(a), split_epoch(b));
    let ((a, a_release), (b, b_release)) = (split_release(a), split_release(b));
    compare_pacman_part(a_epoch.unwrap_or("0"), b_epoch.unwrap_or("0"))
        .then_with(|| compare_pacman_part(a, b))
        .then_with(|| {
            let releases = a_release.zip(b_release);
            releases.map_or(Ordering::Equal, |(a, b)| compare_pacman_part(a, b))
        })
}

fn compare_pacman_part(a: &str, b: &str) -> Ordering {
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
        let (order, a_rest, b_rest) = compare_segments(a, b, is_number);
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

/// Compares like `rpm`: epoch, version, release.
pub fn compare_rpm(a: &str, b: &str) -> Ordering {
    let ((a_epoch, a), (b_epoch, b)) = (split_epoch(a), split_epoch(b));
    let ((a, a_release), (b, b_release)) = (split_release(a), split_release(b));
    compare_digits(a_epoch.unwrap_or_default().as_bytes(), b_epoch.unwrap_or_default().as_bytes())
        .then_with(|| compare_rpm_part(a, b))
        .then_with(|| compare_rpm_part(a_release.unwrap_or_default(), b_release.unwrap_or_default()))
}

/// Returns true if a version is the requested one. An omitted epoch or release matches any.
pub fn matches_rpm(asked: &str, version: &str) -> bool {
    let ((asked_epoch, asked), (epoch, version)) = (split_epoch(asked), split_epoch(version));
    let ((asked, asked_release), (version, release)) = (split_release(asked), split_release(version));
    let epoch = epoch.unwrap_or_default().as_bytes();
    asked_epoch.is_none_or(|asked| compare_digits(asked.as_bytes(), epoch).is_eq())
        && compare_rpm_part(asked, version).is_eq()
        && asked_release.is_none_or(|asked| compare_rpm_part(asked, release.unwrap_or_default()).is_eq())
}

/// Compares segments of digits or letters. Other characters only separate segments.
fn compare_rpm_part(a: &str, b: &str) -> Ordering {
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
                let (order, a_rest, b_rest) = compare_segments(a, b, is_number);
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

/// Compares the digits or letters with which two versions begin, the first of which has some. Returns the rests of both,
/// too. Numbers sort after letters.
fn compare_segments<'v>(a: &'v [u8], b: &'v [u8], is_number: bool) -> (Ordering, &'v [u8], &'v [u8]) {
    let ((a_segment, a_rest), (b_segment, b_rest)) = (segment(a, is_number), segment(b, is_number));
    let order = match (b_segment.is_empty(), is_number) {
        (true, true) => Ordering::Greater,
        (true, false) => Ordering::Less,
        (false, true) => compare_digits(a_segment, b_segment),
        (false, false) => a_segment.cmp(b_segment),
    };
    (order, a_rest, b_rest)
}

/// Splits off the leading digits or letters.
fn segment(text: &[u8], is_number: bool) -> (&[u8], &[u8]) {
    split_while(text, |byte| if is_number { byte.is_ascii_digit() } else { byte.is_ascii_alphabetic() })
}
