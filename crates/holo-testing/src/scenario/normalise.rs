//! Makes the output of two runs comparable.

/// The path of a run's cache: a number follows.
const CACHE: &[u8] = b"target/tmp/holo.";

/// Strips colours and folds the names of cache directories.
pub(super) fn normalise(output: &[u8]) -> Vec<u8> {
    without_cache_number(&without_colours(output))
}

/// Removes the ANSI sequences that set colours (`ESC [ … m`), and nothing else.
fn without_colours(mut text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    while let [byte, rest @ ..] = text {
        if let Some(after) = text.strip_prefix(b"\x1b[") {
            let (_, after) = split_while(after, |byte| byte.is_ascii_digit() || byte == b';');
            if let [b'm', after @ ..] = after {
                text = after;
                continue;
            }
        }
        plain.push(*byte);
        text = rest;
    }
    plain
}

/// Turns `target/tmp/holo.123` into `target/tmp/holo`.
fn without_cache_number(mut text: &[u8]) -> Vec<u8> {
    let mut folded = Vec::with_capacity(text.len());
    while let [byte, rest @ ..] = text {
        if let Some(after) = text.strip_prefix(CACHE) {
            let (number, after) = split_while(after, |byte| byte.is_ascii_digit());
            if !number.is_empty() {
                folded.extend_from_slice(CACHE.strip_suffix(b".").unwrap_or(CACHE));
                text = after;
                continue;
            }
        }
        folded.push(*byte);
        text = rest;
    }
    folded
}

/// Splits where the condition first fails.
fn split_while(text: &[u8], condition: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let end = text.iter().position(|&byte| !condition(byte));
    text.split_at(end.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_stripped_and_other_bytes_kept() {
        assert_eq!(normalise(b"\x1b[1;31m!! \xff\x1b[0m\x1b[m\0 \x1b[2K\x1b["), b"!! \xff\0 \x1b[2K\x1b[");
    }

    #[test]
    fn cache_directories_lose_their_number() {
        assert_eq!(
            normalise(b"a target/tmp/holo.\x1b[1m12345\x1b[0m/x target/tmp/holo.0 target/tmp/holo.d"),
            b"a target/tmp/holo/x target/tmp/holo target/tmp/holo.d"
        );
    }
}
