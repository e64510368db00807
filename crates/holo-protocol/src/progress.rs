//! Progress of an operation, as reported by plugins.

use std::fmt;

/// `DONE/TOTAL TEXT`, in units that the plugin chooses, or only `TEXT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The amounts done and in total; the total is not 0.
    pub done_of: Option<(u64, u64)>,
    /// A description of the current step.
    pub text: &'a str,
}

impl<'a> Progress<'a> {
    /// Parses a plugin's message. Every text is valid.
    #[must_use]
    pub fn parse(said: &'a str) -> Progress<'a> {
        let (first, rest) = said.split_once(' ').unwrap_or((said, ""));
        let numbers = first.split_once('/').and_then(|(done, total)| Some((done.parse().ok()?, total.parse().ok()?)));
        match numbers {
            Some((done, total)) if total > 0 => Progress { done_of: Some((done, total)), text: rest.trim_start() },
            _ => Progress { done_of: None, text: said },
        }
    }
}

impl fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((done, total)) = self.done_of {
            write!(f, "{done}/{total} ")?;
        }
        f.write_str(self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_text() {
        for (said, done_of, text) in [
            ("3/8 unpacking", Some((3, 8)), "unpacking"),
            ("9/8", Some((9, 8)), ""),
            ("0/1  x", Some((0, 1)), "x"),
            ("unpacking 3/8", None, "unpacking 3/8"),
            ("3/0 x", None, "3/0 x"),
            ("-1/8 x", None, "-1/8 x"),
            ("1/99999999999999999999 x", None, "1/99999999999999999999 x"),
            ("", None, ""),
        ] {
            assert_eq!(Progress::parse(said), Progress { done_of, text }, "{said}");
        }
        let said = "3/8 unpacking";
        assert_eq!(Progress::parse(said).to_string(), said);
    }
}
