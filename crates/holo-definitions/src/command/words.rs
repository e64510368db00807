//! Commands in a shell's syntax.

/// Splits a command according to a shell's rules. Returns `None` if a quote is not closed.
#[must_use]
pub(super) fn words_of(text: &str) -> Option<Vec<String>> {
    shlex::split(&for_the_library(text))
}

/// Words that only have a meaning in a shell, if they stand alone.
const OF_A_SHELL: [&str; 14] = ["|", "||", "|&", "&", "&&", ";", ">", ">>", "<", "<<", "2>", "2>>", "2>&1", "&>"];

/// Returns a word that only has a meaning in a shell, and that seems to be meant that way: it stands alone and
/// unquoted.
#[must_use]
pub(super) fn meant_for_a_shell(text: &str) -> Option<&'static str> {
    let words = words_of(text)?;
    let is_find = words.first().is_some_and(|program| program.rsplit('/').next() == Some("find"));
    let stands_alone =
        |sign: &str| words.iter().any(|word| word == sign) && text.split_whitespace().any(|part| part == sign);
    // `find` takes a semicolon as an argument.
    OF_A_SHELL.into_iter().filter(|sign| !(is_find && *sign == ";")).find(|sign| stands_alone(sign))
}

/// Removes backslashes at the ends of lines, which join two lines except within single quotes. shlex would parse one
/// that stands alone as a word, and the text after a `#` at the start of a word as a comment, which only a script has.
fn for_the_library(text: &str) -> String {
    let mut joined = String::new();
    let (mut in_single, mut in_double) = (false, false);
    let mut is_between_words = true;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if !in_single => match letters.next() {
                Some('\n') => {}
                escaped => {
                    is_between_words = false;
                    joined.extend([Some(letter), escaped].into_iter().flatten());
                }
            },
            '#' if is_between_words => {
                is_between_words = false;
                joined.push_str("\\#");
            }
            _ => {
                in_single ^= letter == '\'' && !in_double;
                in_double ^= letter == '"' && !in_single;
                is_between_words = !in_single && !in_double && letter.is_ascii_whitespace();
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
    fn words_for_a_shell_are_found() {
        for (text, sign) in [
            ("a | b", Some("|")),
            ("a && b", Some("&&")),
            ("a || true", Some("||")),
            ("echo x > /etc/y", Some(">")),
            ("a 2>&1", Some("2>&1")),
            ("sleep 5 &", Some("&")),
            ("cd /x ; make", Some(";")),
            ("grep '|' x", None),
            ("grep \\| x", None),
            ("echo 'a | b'", None),
            ("sh -c 'a && b'", None),
            ("find / -exec rm {} ;", None),
            ("/usr/bin/find / -name x | sort", Some("|")),
            ("test a = b", None),
            ("a|b", None),
            ("don't", None),
        ] {
            assert_eq!(meant_for_a_shell(text), sign, "{text}");
        }
    }

    #[test]
    fn commands_are_split_as_a_shell_would() {
        for (text, words) in [
            ("hello", &["hello"][..]),
            ("hello   goodbye", &["hello", "goodbye"]),
            ("glob* test? $HOME", &["glob*", "test?", "$HOME"]),
            (r"don\'t you know the decimal system\?", &["don't", "you", "know", "the", "decimal", "system?"]),
            (r"'don'\''t you know?'", &["don't you know?"]),
            ("one '' two", &["one", "", "two"]),
            ("x # foo", &["x", "#", "foo"]),
            ("#x '#' \"a #b\" c#d\n#e 'f'#g \\#h", &["#x", "#", "a #b", "c#d", "#e", "f#g", "#h"]),
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
