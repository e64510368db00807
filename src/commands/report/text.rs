//! Makes arbitrary bytes displayable on a page.

use bstr::ByteSlice;

/// Decodes bytes, and replaces invalid text and characters that a browser would interpret: control characters, and
/// those that change the text direction.
pub(super) fn safe(bytes: &[u8]) -> String {
    bytes
        .to_str_lossy()
        .chars()
        .map(|letter| if is_safe(letter) { letter } else { char::REPLACEMENT_CHARACTER })
        .collect()
}

fn is_safe(letter: char) -> bool {
    match letter {
        '\n' | '\t' => true,
        // Noncharacters of Unicode, which documents must not contain.
        '\u{fdd0}'..='\u{fdef}' => false,
        '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => false,
        letter => !letter.is_control() && u32::from(letter) & 0xfffe != 0xfffe,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_text_is_replaced() {
        assert_eq!(safe(b"a\tb\nc<d>&\"'"), "a\tb\nc<d>&\"'");
        assert_eq!(safe("grün אב".as_bytes()), "grün אב");
        for text in ["\0", "\x1b", "\r", "\u{85}", "\u{202e}", "\u{2066}", "\u{ffff}", "\u{1fffe}", "\u{fdd0}"] {
            assert_eq!(safe(text.as_bytes()), "\u{fffd}", "{text:?}");
        }
        assert_eq!(safe(b"a\xffb"), "a\u{fffd}b");
    }
}
