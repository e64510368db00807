//! Commands that are written as a shell would read them.

/// Splits a command by the rules of a shell; nothing if a quote is not closed.
#[must_use]
pub fn words_of(text: &str) -> Option<Vec<String>> {
    shlex::split(&without_line_breaks(text))
}

/// The text without backslashes at the ends of lines, which join two lines everywhere but in single quotes. To the library, one that
/// stands by itself would be a word.
fn without_line_breaks(text: &str) -> String {
    let mut joined = String::new();
    let (mut in_single, mut in_double) = (false, false);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if !in_single => match letters.next() {
                Some('\n') => {}
                escaped => joined.extend([Some(letter), escaped].into_iter().flatten()),
            },
            _ => {
                in_single ^= letter == '\'' && !in_double;
                in_double ^= letter == '"' && !in_single;
                joined.push(letter);
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_split_as_a_shell_would() {
        for (text, words) in [
            ("hello", &["hello"][..]),
            ("hello   goodbye", &["hello", "goodbye"]),
            ("glob* test? $HOME", &["glob*", "test?", "$HOME"]),
            (r"don\'t you know the decimal system\?", &["don't", "you", "know", "the", "decimal", "system?"]),
            (r"'don'\''t you know?'", &["don't you know?"]),
            ("one '' two", &["one", "", "two"]),
            ("text with\\\na backslash-escaped newline", &["text", "witha", "backslash-escaped", "newline"]),
            ("text \"with\na\" quoted newline", &["text", "with\na", "quoted", "newline"]),
            ("\"quoted\\d\\\\\\\" text with\\\na newline\"", &["quoted\\d\\\" text witha newline"]),
            ("text with an escaped \\\n newline", &["text", "with", "an", "escaped", "newline"]),
            ("'single\\\nquotes' \"it's\\\n\" end", &["single\\\nquotes", "it's", "end"]),
            ("foo\"bar\"baz", &["foobarbaz"]),
            ("/bin/sh -c 'echo hello | cat'", &["/bin/sh", "-c", "echo hello | cat"]),
            ("", &[]),
        ] {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            assert_eq!(words_of(text), Some(words), "{text:?}");
        }
        for text in ["don't worry", r"'test'\''ing", "\"foo'bar", "foo\\", "/bin/echo 'unterminated"] {
            assert_eq!(words_of(text), None, "{text:?}");
        }
    }
}
