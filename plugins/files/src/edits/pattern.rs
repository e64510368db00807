//! Regular expressions for lines, and the literals by which matching lines can be looked up.

use crate::edits::text::{is_lead, uncommented};
use holo_plugin::definitions::Invalid;
use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::{Extractor, Literal};
use regex_syntax::hir::{Class, Hir, HirKind, Look};
use std::slice;

/// A regular expression for lines.
#[derive(Debug)]
pub(super) struct Pattern {
    regex: Regex,
    prefixes: Option<Vec<Vec<u8>>>,
}

impl Pattern {
    /// Compiles the value of a key.
    ///
    /// # Errors
    /// If it is not a regular expression.
    pub(super) fn new(key: &'static str, pattern: &str) -> Result<Pattern, Invalid> {
        Ok(Pattern { regex: compile(key, pattern)?, prefixes: prefixes(pattern) })
    }

    pub(super) fn is_match(&self, line: &[u8]) -> bool {
        self.regex.is_match(line)
    }

    /// Returns prefixes such that every matching line, [uncommented], has one of them; `None` if there are none, or too many.
    pub(super) fn prefixes(&self) -> Option<&[Vec<u8>]> {
        self.prefixes.as_deref()
    }
}

fn prefixes(pattern: &str) -> Option<Vec<Vec<u8>>> {
    let parsed = ParserBuilder::new().utf8(false).build().parse(pattern).ok()?;
    if !parsed.properties().look_set_prefix().contains(Look::Start) {
        return None;
    }
    let parts = match parsed.kind() {
        HirKind::Concat(parts) => parts.as_slice(),
        _ => slice::from_ref(&parsed),
    };
    let rest: Vec<Hir> = parts.iter().skip_while(|part| is_lead_only(part)).cloned().collect();
    let literals = Extractor::new().extract(&Hir::concat(rest));
    let prefix = |literal: &Literal| {
        // A literal may end within a character.
        let text = literal.as_bytes().utf8_chunks().next().map(|chunk| uncommented(chunk.valid().as_bytes()).to_vec());
        text.filter(|text| !text.is_empty())
    };
    literals.literals()?.iter().map(prefix).collect()
}

/// Returns true if a part of a pattern only matches what [`uncommented`] removes from the beginning of a line.
fn is_lead_only(part: &Hir) -> bool {
    match part.kind() {
        HirKind::Empty | HirKind::Look(Look::Start) => true,
        HirKind::Repetition(repetition) => is_lead_only(&repetition.sub),
        HirKind::Capture(capture) => is_lead_only(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().all(is_lead_only),
        HirKind::Class(Class::Unicode(class)) => class.iter().all(|range| (range.start()..=range.end()).all(is_lead)),
        HirKind::Class(Class::Bytes(class)) => {
            class.iter().all(|range| (range.start()..=range.end()).all(|byte| byte.is_ascii() && is_lead(byte.into())))
        }
        HirKind::Literal(literal) => str::from_utf8(&literal.0).is_ok_and(|text| text.chars().all(is_lead)),
        HirKind::Look(_) => false,
    }
}

/// Returns a regular expression for lines.
///
/// # Errors
/// If it is not one.
pub(super) fn compile(key: &'static str, pattern: &str) -> Result<Regex, Invalid> {
    let words = |error: &regex::Error| match error {
        regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
        // The first lines show where.
        error => error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    };
    let compiled = RegexBuilder::new(pattern).build();
    compiled.map_err(|error| Invalid::new(key, format!("{pattern:?} is not a regular expression: {}", words(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_and_large_patterns_are_named_with_the_reason() {
        for (pattern, reason) in [("(", "unclosed group"), (r"\w{999}{999}", "it is too large")] {
            let invalid = format!("{:?}", compile("pattern", pattern).unwrap_err());
            assert!(invalid.contains(reason), "{invalid}");
        }
    }
}
