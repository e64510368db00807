//! The origins of the lines of a rendered template.

use super::Traced;
use crate::Origin;
use bstr::ByteSlice;
use std::path::{Path, PathBuf};

/// The delimiters of expressions in the supported template languages.
const DELIMITERS: [(&str, &str); 3] = [("{{", "}}"), ("{%", "%}"), ("{#", "#}")];

/// A template, or an included one.
#[derive(Clone, Debug)]
pub struct TemplateText {
    /// Its path, as displayed to the user.
    pub path: PathBuf,
    /// Its text.
    pub text: Vec<u8>,
}

impl TemplateText {
    /// Traces the lines of a rendered template. A line that occurs literally in the template or an included one
    /// originates from there. A line with substitutions originates from the template, and its line if that can be
    /// determined. `delimiters` are additional ones.
    #[must_use]
    pub fn trace(&self, included: &[TemplateText], delimiters: Option<(&str, &str)>, rendered: Vec<u8>) -> Traced {
        let own = Lines::new(self, delimiters);
        let included: Vec<Lines<'_>> = included.iter().map(|other| Lines::new(other, delimiters)).collect();
        let all = || std::iter::once(&own).chain(&included);
        Traced::resource(self.text.clone(), &self.path).become_text(rendered, |_, line| {
            let literal = all().find_map(|lines| Some((lines.path, lines.literal(line)?)));
            if let Some((path, number)) = literal {
                return Origin::Resource { path: path.to_owned(), line: number };
            }
            // Of several candidates, the one with the most literal text is used.
            let made = all().filter_map(|lines| Some((lines.path, lines.filled_in(line)?)));
            match made.max_by_key(|(_, (length, number))| (*length, std::cmp::Reverse(*number))) {
                Some((path, (_, number))) => Origin::Other(format!("template {}:{number}", path.display()).into()),
                None => Origin::Other(format!("template {}", self.path.display()).into()),
            }
        })
    }
}

/// The lines of a template.
struct Lines<'t> {
    path: &'t Path,
    /// The literal parts of each line, between the expressions.
    parts: Vec<Vec<&'t [u8]>>,
}

impl<'t> Lines<'t> {
    fn new(template: &'t TemplateText, delimiters: Option<(&str, &str)>) -> Lines<'t> {
        let parts = |line| parts(without_newline(line), delimiters);
        Lines { path: &template.path, parts: template.text.lines_with_terminator().map(parts).collect() }
    }

    /// Returns the number of the line with this literal content.
    fn literal(&self, line: &[u8]) -> Option<usize> {
        let line = without_newline(line);
        self.parts.iter().position(|parts| matches!(parts[..], [only] if only == line)).map(|index| index + 1)
    }

    /// Returns the line that this may be rendered from: the length of its literal text, and its number.
    fn filled_in(&self, line: &[u8]) -> Option<(usize, usize)> {
        let line = without_newline(line);
        let length = |parts: &Vec<&[u8]>| parts.iter().map(|part| part.len()).sum::<usize>();
        let found = self.parts.iter().zip(1..).filter(|(parts, _)| parts.len() > 1 && fits(parts, line));
        let found =
            found.map(|(parts, number)| (length(parts), number)).filter(|(length, _)| *length > 0 || !line.is_empty());
        found.max_by_key(|(length, number)| (*length, std::cmp::Reverse(*number)))
    }
}

fn without_newline(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// Splits a line at its expressions.
fn parts<'t>(line: &'t [u8], delimiters: Option<(&str, &str)>) -> Vec<&'t [u8]> {
    let mut parts = Vec::new();
    let mut rest = line;
    while let Some((at, open, close)) =
        DELIMITERS.into_iter().chain(delimiters).filter_map(|(open, close)| Some((rest.find(open)?, open, close))).min()
    {
        let (before, inside) = rest.split_at(at);
        parts.push(before);
        let inside = inside.get(open.len()..).unwrap_or_default();
        // The expression may continue on the next line.
        let end = inside.find(close).map_or(inside.len(), |end| end + close.len());
        rest = inside.get(end..).unwrap_or_default();
    }
    parts.push(rest);
    parts
}

/// Returns true if a line consists of these parts with arbitrary text in between.
fn fits(parts: &[&[u8]], line: &[u8]) -> bool {
    let (Some((first, others)), Some(last)) = (parts.split_first(), parts.last()) else { return false };
    let Some(mut rest) = line.strip_prefix(*first) else { return false };
    let between = others.split_last().map(|(_, between)| between).unwrap_or_default();
    for part in between {
        let Some(at) = rest.find(part) else { return false };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(template: &str, included: &[&str], rendered: &str) -> Vec<String> {
        let text = |name: String, text: &str| TemplateText { path: name.into(), text: text.into() };
        let included: Vec<TemplateText> =
            included.iter().enumerate().map(|(index, other)| text(format!("i{index}"), other)).collect();
        let traced = text("t".into(), template).trace(&included, Some(("<<", ">>")), rendered.into());
        (0..rendered.lines().count()).map(|index| traced.origin(index).unwrap().to_text().to_string()).collect()
    }

    #[test]
    fn lines_are_from_where_they_stand() {
        assert_eq!(origins("a\nb\nc\n", &[], "a\nc\n"), ["resource t:1", "resource t:3"]);
        assert_eq!(
            origins("a\n{% include 'i' %}\n", &["x\ny\n"], "a\nx\ny\n"),
            ["resource t:1", "resource i0:1", "resource i0:2"]
        );
    }

    #[test]
    fn what_was_filled_in_is_from_the_line_that_fits_best() {
        assert_eq!(
            origins("port = {{ port }}\n{{ all }}\n", &[], "port = 22\nany\n"),
            ["template t:1", "template t:2"]
        );
        let each = "{% for x in xs %}\nuser {{ x }};\nend\n{% endfor %}\n";
        let made = origins(each, &[], "user a;\nend\nuser b;\nend\n");
        assert_eq!(made, ["template t:2", "resource t:3", "template t:2", "resource t:3"]);
        assert_eq!(origins("x <<.y>> z\n", &["k={{ v }}\n"], "x 1 z\nk=1\n"), ["template t:1", "template i0:1"]);
        assert_eq!(origins("a{{ b }}c\n", &[], "other\n"), ["template t"]);
    }
}
