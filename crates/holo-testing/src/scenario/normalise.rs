//! Makes the output of two runs comparable.

/// The path of a run's cache, followed by a number.
const CACHE: &[u8] = b"target/tmp/holo.";

/// The fields of JSON Lines that differ in every run.
const FIELDS: [&[u8]; 3] = [b"\"run\":", b"\"time\":", b"\"duration\":"];

/// Removes colours, the numbers in names of cache directories, and the fields of JSON Lines that differ in every run.
pub(super) fn normalise(output: &[u8]) -> Vec<u8> {
    let folded = without_cache_number(&without_colours(output));
    folded.split_inclusive(|&byte| byte == b'\n').flat_map(without_times).collect()
}

/// Removes the fields of a JSON line that differ in every run, with their commas.
fn without_times(line: &[u8]) -> Vec<u8> {
    if !line.starts_with(b"{\"version\":") {
        return line.to_vec();
    }
    let mut kept = Vec::with_capacity(line.len());
    let mut text = line;
    while let [byte, rest @ ..] = text {
        let field = FIELDS.iter().find_map(|field| text.strip_prefix(*field)).filter(|_| kept.ends_with(b","));
        if let Some(value) = field {
            // None of these values contains a comma or is the last one.
            let (_, after) = split_while(value, |byte| byte != b',');
            text = after.strip_prefix(b",").unwrap_or(after);
            continue;
        }
        kept.push(*byte);
        text = rest;
    }
    kept
}

/// Removes only the ANSI sequences that set colours (`ESC [ … m`).
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

/// Replaces `target/tmp/holo.123` with `target/tmp/holo`.
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

/// Splits a text at the first byte for which the condition is false.
fn split_while(text: &[u8], condition: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let end = text.iter().position(|&byte| !condition(byte));
    text.split_at(end.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_removed_from_json_alone() {
        let line = br#"{"version":1,"event":"summary","run":"2026-x","time":"09:14Z","duration":1.5,"exit_code":0}"#;
        assert_eq!(normalise(line), br#"{"version":1,"event":"summary","exit_code":0}"#);
        let other = br#"x {"run":"a","time":1}"#;
        assert_eq!(normalise(other), other);
    }

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
