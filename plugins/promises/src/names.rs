//! Names and texts with a meaning in CFEngine.

use crate::module_log::LogLevel;
use holo_bridge::Attributes;

/// Attributes that CFEngine reserves, with the equivalent key of definitions, if any.
const RESERVED: [(&str, Option<&str>); 10] = [
    ("action", Some("action_policy")),
    ("classes", None),
    ("depends_on", Some("requires")),
    ("expireafter", Some("timeout")),
    ("if", Some("if")),
    ("ifvarclass", Some("if")),
    ("log_level", Some("log_level")),
    ("meta", None),
    ("unless", Some("unless")),
    ("with", None),
];

/// Returns true if a name is a valid identifier in any language.
pub(crate) fn is_identifier(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns the reason why an attribute name is invalid, worded to follow the name.
pub(crate) fn attribute_problem(name: &str) -> Option<String> {
    if !is_identifier(name) {
        return Some("is not a valid attribute name: letters, digits and underscores, and no digit first".to_owned());
    }
    let (_, key) = RESERVED.iter().find(|(reserved, _)| *reserved == name)?;
    Some(match key {
        Some(key) => format!("CFEngine keeps this to itself; use the key {key} of the promise"),
        None => "CFEngine keeps this to itself, and gives it to no module".to_owned(),
    })
}

/// Returns the error for a text that CFEngine would expand. If the text is sensitive, only the start of the variable is
/// shown.
pub(crate) fn expansion_problem(text: &str, is_sensitive: bool) -> Option<String> {
    let begins = ["$(", "${", "@(", "@{"].into_iter().filter_map(|opening| Some((text.find(opening)?, opening)));
    let (start, opening) = begins.min()?;
    let closing = if opening.ends_with('(') { ')' } else { '}' };
    let rest = text.get(start..).unwrap_or_default();
    let variable = rest.find(closing).and_then(|end| rest.get(..=end)).unwrap_or(rest);
    let shown = if is_sensitive { opening } else { variable };
    Some(format!("CFEngine would expand {shown:?}, and holo does not: use {{{{ … }}}} in a .toml.jinja"))
}

/// Returns a valid class name for a text, as CFEngine derives it: byte by byte.
pub(crate) fn class_name(text: &str) -> String {
    let letter = |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte) } else { '_' };
    let mut name: String = text.bytes().map(letter).collect();
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        name.insert(0, '_');
    }
    name
}

/// A promise, as sent to a module.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// The type of the promise.
    pub(crate) kind: String,
    pub(crate) promiser: String,
    pub(crate) attributes: Attributes,
    pub(crate) log_level: LogLevel,
    /// The absolute path of the definition.
    pub(crate) filename: String,
    pub(crate) line: usize,
}

impl Subject {
    /// Returns the promise for a dry run.
    pub(crate) fn for_dry_run(&self) -> Subject {
        let mut subject = self.clone();
        subject.attributes.insert("action_policy", "warn");
        subject
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_no_module_gets_are_told_from_others() {
        assert_eq!(attribute_problem("action_policy"), None);
        assert_eq!(attribute_problem("_a1"), None);
        assert_eq!(attribute_problem("comment"), None);
        assert_eq!(
            attribute_problem("depends_on").unwrap(),
            "CFEngine keeps this to itself; use the key requires of the promise"
        );
        assert_eq!(attribute_problem("meta").unwrap(), "CFEngine keeps this to itself, and gives it to no module");
        for name in ["", "1a", "a-b", "a b", "a$(id)", "ä"] {
            assert!(attribute_problem(name).unwrap().starts_with("is not a valid attribute name"), "{name}");
        }
    }

    #[test]
    fn what_cfengine_would_expand_is_shown() {
        let shown = |text: &str| {
            let problem = expansion_problem(text, false)?;
            Some(problem.split('"').nth(1).unwrap().to_owned())
        };
        assert_eq!(shown("a $(b.c) ${d}").as_deref(), Some("$(b.c)"));
        assert_eq!(shown("${d}").as_deref(), Some("${d}"));
        assert_eq!(shown("x @(list) y").as_deref(), Some("@(list)"));
        assert_eq!(shown("@{list").as_deref(), Some("@{list"));
        for text in ["$5", "a@b.c", "$", "(x)", "{}", "$ (x)"] {
            assert_eq!(shown(text), None, "{text}");
        }
        assert_eq!(
            expansion_problem("secret$(x)", true).unwrap(),
            "CFEngine would expand \"$(\", and holo does not: use {{ … }} in a .toml.jinja"
        );
    }

    #[test]
    fn classes_are_named_as_cfengine_names_them() {
        for (text, name) in [
            ("masterfiles_cloned", "masterfiles_cloned"),
            ("/scratch/gdst_cloned", "_scratch_gdst_cloned"),
            ("cls one", "cls_one"),
            ("1st", "_1st"),
            ("ä-b", "___b"),
        ] {
            assert_eq!(class_name(text), name);
        }
    }
}
