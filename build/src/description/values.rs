//! The rules for single values of a description.

use crate::format::Format;
use crate::package::Owner;
use crate::pacman;
use crate::tables::AccountValue;
use holo_definitions::values;
use std::fmt::Display;

/// The maximum length of the name of a file.
const NAME_MAX: usize = 255;

/// The maximum length of a path or the target of a symlink, for the system and thus for every package manager.
const PATH_MAX: usize = 4095;

/// The maximum length of the path of a trigger, and of the pattern for it, as dpkg and pacman read no longer lines.
const DEBIAN_TRIGGER_MAX: usize = 237;
const PACMAN_TARGET_MAX: usize = 4000;

/// An invalid value; the text follows "KEY: ".
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ValueError(String);

impl From<String> for ValueError {
    fn from(text: String) -> ValueError {
        ValueError(text)
    }
}

fn invalid<T>(text: impl Display) -> Result<T, ValueError> {
    Err(ValueError(text.to_string()))
}

/// Checks the path of a file, and returns it without the leading slash.
pub(super) fn path(text: &str) -> Result<String, ValueError> {
    if text.split('/').any(|part| part.len() > NAME_MAX) {
        return invalid(format!("{text:?} contains a name of more than {NAME_MAX} bytes"));
    }
    if text.len() > PATH_MAX {
        return invalid(format!("has {} bytes; at most {PATH_MAX} are possible", text.len()));
    }
    let error = values::target("path", text).err();
    match error.map(|error| error.to_string()) {
        Some(error) => invalid(error.strip_prefix("path: ").unwrap_or(&error)),
        None => Ok(text.trim_start_matches('/').to_owned()),
    }
}

/// Checks the path of a trigger, in addition to [`path`].
pub(super) fn trigger(path: &str, format: Format) -> Result<(), ValueError> {
    let (length, max) = match format {
        Format::Debian if path.contains(|letter: char| !letter.is_ascii_graphic()) => {
            return invalid("dpkg knows no triggers whose paths contain blanks or characters that are not ASCII");
        }
        Format::Debian => (path.len(), DEBIAN_TRIGGER_MAX),
        Format::Pacman => (pacman::target(path).len(), PACMAN_TARGET_MAX),
        Format::Rpm => return Ok(()),
    };
    let reader = if format == Format::Debian { "dpkg" } else { "pacman" };
    if length > max {
        invalid(format!("is too long for a trigger: {reader} reads at most {max} bytes"))
    } else {
        Ok(())
    }
}

/// Checks the target of a symlink.
pub(super) fn symlink_target(text: &str) -> Result<String, ValueError> {
    match text {
        "" => invalid("is empty"),
        _ if text.len() > PATH_MAX => invalid(format!("has {} bytes; at most {PATH_MAX} are possible", text.len())),
        _ if text.contains(char::is_control) => invalid(format!("{text:?} contains control characters")),
        _ => Ok(text.to_owned()),
    }
}

/// Checks a version: numbers joined by dots, without leading zeros.
pub(super) fn version(text: &str) -> Result<(), ValueError> {
    let is_number = |part: &str| {
        let has_digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        has_digits && (part == "0" || !part.starts_with('0'))
    };
    if text.split('.').all(is_number) {
        return Ok(());
    }
    invalid(format!("{text:?} is not a version: expected numbers without leading zeros, joined by dots, such as 1.2.0"))
}

/// Checks an author: `Name <address>`.
pub(super) fn author(text: &str) -> Result<(), ValueError> {
    let parts = text.strip_suffix('>').and_then(|text| text.split_once(" <"));
    let is_valid = parts.is_some_and(|(name, address)| {
        let is_address = !address.is_empty() && !address.contains(char::is_whitespace);
        !name.trim().is_empty() && is_address && !format!("{name}{address}").contains(['<', '>'])
    });
    if is_valid && !text.contains(char::is_control) {
        return Ok(());
    }
    invalid(format!("{text:?} does not have the form \"Jane Doe <jane.doe@example.org>\""))
}

/// Returns a description in one line.
pub(super) fn description(text: &str) -> Result<String, ValueError> {
    let text = text.trim().lines().map(str::trim).collect::<Vec<_>>().join(" ");
    if text.contains(char::is_control) { invalid("contains control characters") } else { Ok(text) }
}

/// Returns a text of one or more lines without its indentation.
pub(super) fn text(text: &str) -> Result<String, ValueError> {
    let lines: Vec<_> = without_indentation(text).lines().map(|line| line.trim_end().to_owned()).collect();
    let text = lines.join("\n");
    match text.trim_matches('\n') {
        "" => invalid("is empty"),
        text if text.contains(|letter: char| letter.is_control() && letter != '\n') => {
            invalid("contains control characters")
        }
        text => Ok(text.to_owned()),
    }
}

/// Returns a text of one line.
pub(super) fn line(text: &str) -> Result<String, ValueError> {
    match text.trim() {
        "" => invalid("is empty"),
        text if text.contains(['\n', '\r']) => invalid("has several lines"),
        text if text.contains(char::is_control) => invalid("contains control characters"),
        text => Ok(text.to_owned()),
    }
}

/// Returns the address of a web site.
pub(super) fn homepage(text: &str) -> Result<String, ValueError> {
    let text = line(text)?;
    let is_valid = text.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty());
    if is_valid && !text.contains(char::is_whitespace) {
        return Ok(text);
    }
    invalid(format!("{text:?} is not an address such as \"https://example.org\""))
}

/// Returns a script that ends with a newline; `None` if it is empty.
pub(super) fn script(text: &str) -> Result<Option<String>, ValueError> {
    if text.contains('\0') {
        return invalid("contains a NUL byte");
    }
    let text = text.trim();
    Ok((!text.is_empty()).then(|| format!("{text}\n")))
}

/// Checks an owner or group.
pub(super) fn account(key: &'static str, value: &AccountValue) -> Result<Owner, ValueError> {
    match value {
        AccountValue::Id(id) => match u32::try_from(*id) {
            Ok(id) if id != u32::MAX => Ok(Owner::Id(id)),
            _ => invalid(format!("{id} is not a number from 0 to {}", u32::MAX - 1)),
        },
        AccountValue::Name(name) if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) => {
            invalid(format!("{name:?} is a string; write the number without quotes"))
        }
        AccountValue::Name(name) => {
            let checked = values::account(key, name).map_err(|error| error.to_string());
            let prefix = format!("{key}: ");
            checked.map(|()| Owner::Name(name.clone())).or_else(|error| invalid(error.trim_start_matches(&prefix)))
        }
        AccountValue::Other => invalid("expected a name or a number"),
    }
}

/// Removes the common indentation of all lines, and the last line if it is blank.
pub(super) fn without_indentation(text: &str) -> String {
    let mut lines: Vec<&str> = text.split('\n').collect();
    if let Some(last) = lines.last_mut().filter(|last| last.trim().is_empty()) {
        *last = "";
    }
    let indentation = |line: &&str| {
        let rest = line.trim_start_matches([' ', '\t']);
        line.get(..line.len() - rest.len()).unwrap_or_default().to_owned()
    };
    let indentations = lines.iter().filter(|line| !line.trim().is_empty()).map(indentation);
    let common = indentations.reduce(|one, other| {
        let shared = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
        one.get(..shared).unwrap_or_default().to_owned()
    });
    let common = common.unwrap_or_default();
    // A blank line may be shorter.
    let stripped = lines.into_iter().map(|line| line.strip_prefix(common.as_str()).unwrap_or_default());
    stripped.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_indentation_is_removed() {
        for (text, expected) in [
            ("a\n b\n", "a\n b\n"),
            ("  a\n    b\n  ", "a\n  b\n"),
            ("\ta\n\n\tb", "a\n\nb"),
            ("  a\n \n  b\n", "a\n\nb\n"),
            ("  a\n    \n  b\n", "a\n  \nb\n"),
            ("\t a\n  b\n", "\t a\n  b\n"),
            ("  one", "one"),
            ("  \n", "  \n"),
        ] {
            assert_eq!(without_indentation(text), expected, "{text:?}");
        }
    }

    #[test]
    fn versions_are_numbers_joined_by_dots() {
        for (text, is_valid) in
            [("1", true), ("0", true), ("1.0.20", true), ("20151104", true), ("", false), ("1.", false), ("01", false)]
        {
            assert_eq!(version(text).is_ok(), is_valid, "{text}");
        }
        for text in ["1.00", ".1", "1..2", "1a", "1.0~rc1", "1 ", "-1", "٣"] {
            assert!(version(text).is_err(), "{text}");
        }
    }

    #[test]
    fn authors_have_a_name_and_an_address() {
        for text in ["Jane Doe <jane@example.org>", "J <j@x>", "Jane <root>"] {
            assert!(author(text).is_ok(), "{text}");
        }
        for text in ["", "Jane", "<j@x>", " <j@x>", "J <>", "J <j@x> ", "J\nK <j@x>", "J <j @x>", "J<j@x>", "J <<j@x>"]
        {
            assert!(author(text).is_err(), "{text}");
        }
    }
}
