//! Expressions in TOML strings of a template: their values are escaped, so that they always stay in the string.

use minijinja::{Error, ErrorKind, Value};

/// The filters that are added to expressions in strings in double and in single quotes.
pub(super) const FILTERS: [&str; 2] = ["toml_basic", "toml_literal"];

/// The position in a TOML document.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Outside,
    Comment,
    /// In a string with this delimiter.
    Within(&'static str),
}

const DELIMITERS: [&str; 4] = ["\"\"\"", "'''", "\"", "'"];

/// Returns the source of a template for TOML in which all expressions in strings have a filter. Lines stay the same.
pub(crate) fn escape_in_strings(source: &str) -> String {
    let mut escaped = String::with_capacity(source.len());
    let mut position = Position::Outside;
    let mut rest = source;
    while let Some(letter) = rest.chars().next() {
        let skipped = match () {
            () if rest.starts_with("{#") => end_of(rest, "#}"),
            () if rest.starts_with("{%") => end_of_block(rest),
            () if rest.starts_with("{{") => {
                let length = end_of_expression(rest);
                if let (Position::Within(delimiter), Some(inner)) =
                    (position, rest.get(2..length.saturating_sub(2)).filter(|_| length >= 4))
                {
                    let [basic, literal] = FILTERS;
                    let filter = match delimiter {
                        "'" => literal.to_owned(),
                        "'''" => format!("{literal}(true)"),
                        _ => basic.to_owned(),
                    };
                    let (start, inner) = split_control(inner);
                    let trimmed = inner.strip_suffix(['-', '+']).unwrap_or(inner);
                    let end = inner.get(trimmed.len()..).unwrap_or_default();
                    escaped.push_str(&format!("{{{{{start}({trimmed}) | {filter}{end}}}}}"));
                    rest = rest.get(length..).unwrap_or_default();
                    continue;
                }
                length
            }
            () => {
                let length = position.advance(rest, letter);
                escaped.push_str(rest.get(..length).unwrap_or_default());
                rest = rest.get(length..).unwrap_or_default();
                continue;
            }
        };
        escaped.push_str(rest.get(..skipped).unwrap_or(rest));
        rest = rest.get(skipped..).unwrap_or_default();
    }
    escaped
}

fn split_control(inner: &str) -> (&str, &str) {
    let rest = inner.strip_prefix(['-', '+']).unwrap_or(inner);
    (inner.get(..inner.len() - rest.len()).unwrap_or_default(), rest)
}

impl Position {
    /// Moves over the next letter, delimiter or escape sequence, and returns its length.
    fn advance(&mut self, rest: &str, letter: char) -> usize {
        let one = letter.len_utf8();
        match *self {
            Position::Outside => {
                if letter == '#' {
                    *self = Position::Comment;
                } else if let Some(delimiter) = DELIMITERS.into_iter().find(|delimiter| rest.starts_with(delimiter)) {
                    *self = Position::Within(delimiter);
                    return delimiter.len();
                }
                one
            }
            Position::Comment => {
                if letter == '\n' {
                    *self = Position::Outside;
                }
                one
            }
            Position::Within(delimiter) => {
                if letter == '\\' && delimiter.starts_with('"') {
                    return one + rest.chars().nth(1).map_or(0, char::len_utf8);
                }
                if rest.starts_with(delimiter) {
                    *self = Position::Outside;
                    return delimiter.len();
                }
                if letter == '\n' && delimiter.len() == 1 {
                    // An unterminated string is an error of the TOML parser.
                    *self = Position::Outside;
                }
                one
            }
        }
    }
}

fn end_of(rest: &str, end: &str) -> usize {
    rest.find(end).map_or(rest.len(), |at| at + end.len())
}

/// Returns the length of a block tag, or of a whole raw block.
fn end_of_block(rest: &str) -> usize {
    let length = end_of(rest, "%}");
    let tag = rest.get(2..length).unwrap_or_default().trim_start_matches(['-', '+']).trim_start();
    if !tag.starts_with("raw") {
        return length;
    }
    let end = rest.find("endraw").unwrap_or(length);
    end + end_of(rest.get(end..).unwrap_or_default(), "%}")
}

/// Returns the length of an expression with its delimiters, which may contain strings and tables.
fn end_of_expression(rest: &str) -> usize {
    let (mut quote, mut depth) = (None, 0_usize);
    let mut letters = rest.char_indices().skip(2).peekable();
    while let Some((at, letter)) = letters.next() {
        match (quote, letter) {
            (Some(_), '\\') => drop(letters.next()),
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '{') => depth += 1,
            (None, '}') if depth > 0 => depth -= 1,
            (None, '}') if letters.peek().is_some_and(|(_, next)| *next == '}') => return at + 2,
            (None, _) => {}
        }
    }
    rest.len()
}

/// Escapes a value for a string in double quotes.
pub(super) fn basic(shown: &str) -> String {
    let mut escaped = String::new();
    for letter in shown.chars() {
        match letter {
            '"' | '\\' => escaped.extend(['\\', letter]),
            '\n' => escaped.push_str("\\n"),
            letter if letter.is_control() => escaped.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// Checks a value for a string in one or three single quotes, which has no escape sequences.
pub(super) fn literal(value: Value, has_lines: Option<bool>) -> Result<Value, Error> {
    let has_lines = has_lines.unwrap_or_default();
    let ends = |text: &str| match has_lines {
        true => text.contains("'''") || text.ends_with('\''),
        false => text.contains(['\'', '\n']),
    };
    let is_control = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    if value.as_str().is_some_and(|text| ends(text) || text.contains(is_control)) {
        let problem = "a value with a quote or control character needs a string in double quotes";
        return Err(Error::new(ErrorKind::InvalidOperation, problem));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_expressions_in_strings_are_escaped() {
        for (source, expected) in [
            ("a = {{ x }}", "a = {{ x }}"),
            ("a = \"{{ x }}\"", "a = \"{{( x ) | toml_basic}}\""),
            ("a = '{{ x }}'", "a = '{{( x ) | toml_literal}}'"),
            ("a = \"{{- x -}}\"", "a = \"{{-( x ) | toml_basic-}}\""),
            ("a = \"\\\"{{ {'b': '}}'} }}\"", "a = \"\\\"{{( {'b': '}}'} ) | toml_basic}}\""),
            (
                "# it's {{ x }}\na = \"\"\"\n\"{{ x }}\"\"\"\"",
                "# it's {{ x }}\na = \"\"\"\n\"{{( x ) | toml_basic}}\"\"\"\"",
            ),
            ("{% if x == \"a %}\n{{ x }}", "{% if x == \"a %}\n{{ x }}"),
            ("{# don't #}{{ x }}", "{# don't #}{{ x }}"),
            (
                "a = \"{% raw %}{{ x }}{% endraw %}{{ y }}\"",
                "a = \"{% raw %}{{ x }}{% endraw %}{{( y ) | toml_basic}}\"",
            ),
            ("a = \"open\n{{ x }}", "a = \"open\n{{ x }}"),
        ] {
            assert_eq!(escape_in_strings(source), expected, "{source}");
        }
    }

    #[test]
    fn values_cannot_leave_their_string() {
        assert_eq!(basic("a\"b\\c\nd\u{7}"), "a\\\"b\\\\c\\nd\\u0007");
        for (text, has_lines, fits) in [
            ("it's", false, false),
            ("a\nb", false, false),
            ("plain", false, true),
            ("it's\nall", true, true),
            ("a'''b", true, false),
        ] {
            assert_eq!(literal(Value::from(text), Some(has_lines)).is_ok(), fits, "{text}");
        }
    }
}
