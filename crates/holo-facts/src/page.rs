//! HTML pages that consist of a single file: their frame, their style sheet, and the escaping of what they show.

#[cfg(test)]
mod tests;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{AutoEscape, Environment, escape_formatter};
use serde::Serialize;

/// Has the blocks `title`, `header`, `main` and `footer`.
const FRAME: &str = include_str!("page/frame.html");
/// Macros.
const PARTS: &str = include_str!("page/parts.html");
const STYLE: &str = include_str!("page/page.css");

/// A page cannot be rendered.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the page: {0}")]
pub struct PageError(#[from] minijinja::Error);

/// Renders a page from a template, which extends `frame` and can import macros from `parts`.
///
/// All text is escaped, and characters that a browser would interpret are replaced like in [`safe`].
///
/// # Errors
/// If the template is invalid, or does not fit the contents.
pub fn render(template: &str, contents: &impl Serialize) -> Result<String, PageError> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_formatter(|output, state, value| {
        let is_unsafe = |text: &&str| !value.is_safe() && !text.chars().all(is_safe);
        match value.as_str().filter(is_unsafe) {
            Some(text) => escape_formatter(output, state, &Value::from(safe(text.as_bytes()))),
            None => escape_formatter(output, state, value),
        }
    });
    environment.add_template("frame", FRAME)?;
    environment.add_template("parts", PARTS)?;
    environment.add_template("page", template)?;
    environment.add_global("style", Value::from_safe_string(STYLE.to_owned()));
    environment.add_filter("number", number);
    Ok(environment.get_template("page")?.render(Value::from(Serde(contents)))?)
}

/// Formats a number in groups of three digits.
fn number(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Decodes bytes, and replaces invalid text and characters that a browser would interpret: control characters, and
/// those that change the text direction.
#[must_use]
pub fn safe(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
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
