//! The scan report: which entities there are, as lines `KEY: VALUE`.

use bstr::{BStr, BString, ByteSlice};
use std::fmt;

/// What a plugin reports of one entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityReport {
    /// The entity's ID, `TYPE:NAME`.
    pub id: BString,
    /// What applying the entity will do.
    pub action: Action,
    /// The resource files that define it: paths that select it, not shown otherwise.
    pub sources: Vec<BString>,
    /// What else there is to know of it, for people.
    pub information: Vec<Information>,
}

/// What applying an entity will do, in a word, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// A verb such as `Scrubbing`.
    pub verb: BString,
    /// Why it is not the usual action, if it isn't.
    pub reason: Option<BString>,
}

/// A line of a report that has a meaning for people only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Information {
    /// Such as `store at`.
    pub key: BString,
    /// Such as a path.
    pub value: BString,
}

/// A line that a scan report may not hold where it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct ReportError {
    /// Counts from 1.
    pub line: usize,
    /// What is wrong with it.
    pub kind: ReportErrorKind,
}

/// What is wrong with a line of a scan report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportErrorKind {
    /// The line has not the form `KEY: VALUE`.
    #[error("parse error (line was \"{0}\")")]
    Syntax(BString),
    /// The line belongs to an entity, but no entity was begun.
    #[error("expected entity ID, found attribute \"{0}\"")]
    OutsideEntity(BString),
}

const DEFAULT_VERB: &str = "Working on";
const ENTITY: &str = "ENTITY";
const ACTION: &str = "ACTION";
const SOURCE: &str = "SOURCE";

impl EntityReport {
    /// A report that says nothing but the ID.
    #[must_use]
    pub fn new(id: impl Into<BString>) -> EntityReport {
        EntityReport { id: id.into(), action: Action::default(), sources: Vec::new(), information: Vec::new() }
    }

    /// Reads a whole scan report.
    ///
    /// # Errors
    /// All lines that are wrong, in their order.
    pub fn parse_all(report: &[u8]) -> Result<Vec<EntityReport>, Vec<ReportError>> {
        let mut entities: Vec<EntityReport> = Vec::new();
        let mut errors = Vec::new();
        // Only a newline ends a line: a file name, and so an ID, may well end with a carriage return.
        for (index, line) in report.split_str("\n").enumerate() {
            if line.is_empty() {
                continue;
            }
            if let Err(kind) = add_line(&mut entities, line) {
                errors.push(ReportError { line: index + 1, kind });
            }
        }
        if errors.is_empty() { Ok(entities) } else { Err(errors) }
    }

    /// Appends the report's lines: the ID, the action unless it is the usual one, the sources, then the information.
    pub fn write(&self, text: &mut Vec<u8>) {
        let mut line = |key: &[u8], value: &[u8]| {
            for part in [key, b": ", value, b"\n"] {
                text.extend_from_slice(part);
            }
        };
        line(ENTITY.as_bytes(), &self.id);
        if self.action != Action::default() {
            line(ACTION.as_bytes(), self.action.to_string_lossless().as_bytes());
        }
        for source in &self.sources {
            line(SOURCE.as_bytes(), source);
        }
        for Information { key, value } in &self.information {
            line(key, value);
        }
    }

    /// Adds a line of information.
    pub fn inform(&mut self, key: impl Into<BString>, value: impl Into<BString>) {
        self.information.push(Information { key: key.into(), value: value.into() });
    }
}

fn add_line(entities: &mut Vec<EntityReport>, line: &[u8]) -> Result<(), ReportErrorKind> {
    let (key, value) = split_line(line).ok_or_else(|| ReportErrorKind::Syntax(line.into()))?;
    if key == ENTITY {
        entities.push(EntityReport::new(value));
        return Ok(());
    }
    let entity = entities.last_mut().ok_or_else(|| ReportErrorKind::OutsideEntity(line.into()))?;
    if key == SOURCE {
        entity.sources.push(value.into());
    } else if key == ACTION {
        entity.action = Action::parse(value);
    } else {
        entity.inform(key, value);
    }
    Ok(())
}

/// Splits a line as `^\s*([^:]+): (.+)\s*$` does, which is how version 3 defines it: a value keeps its trailing blanks.
fn split_line(line: &[u8]) -> Option<(&BStr, &BStr)> {
    let colon = line.find_byte(b':')?;
    let (key, rest) = line.split_at(colon);
    let value = rest.strip_prefix(b": ")?;
    let trimmed = key.trim_ascii_start();
    // A key of blanks only is still a key, of its last blank.
    let key = if trimmed.is_empty() { key.get(key.len().checked_sub(1)?..)? } else { trimmed };
    (!value.is_empty()).then(|| (key.as_bstr(), value.as_bstr()))
}

impl Action {
    /// A verb with a reason.
    #[must_use]
    pub fn because(verb: impl Into<BString>, reason: impl Into<BString>) -> Action {
        Action { verb: verb.into(), reason: Some(reason.into()) }
    }

    fn parse(value: &BStr) -> Action {
        let split = value.strip_suffix(b")").and_then(|inner| inner.split_once_str(" ("));
        match split {
            Some((verb, reason)) if !verb.is_empty() && !reason.is_empty() => Action::because(verb, reason),
            _ => Action { verb: value.into(), reason: None },
        }
    }

    fn to_string_lossless(&self) -> BString {
        let mut text = self.verb.clone();
        if let Some(reason) = &self.reason {
            for part in [&b" ("[..], reason, b")"] {
                text.extend_from_slice(part);
            }
        }
        text
    }
}

impl Default for Action {
    fn default() -> Self {
        Action { verb: DEFAULT_VERB.into(), reason: None }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.to_string_lossless(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(report: &str) -> Result<Vec<EntityReport>, Vec<String>> {
        EntityReport::parse_all(report.as_bytes()).map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn reads_what_it_writes() {
        let report = "ENTITY: file:/etc/motd\nACTION: Scrubbing (target was deleted)\nSOURCE: /a\nSOURCE: /b\ndelete: /c\n\
                      ENTITY: x\nACTION: Executing\n";
        let entities = parse(report).unwrap();
        let mut text = Vec::new();
        entities.iter().for_each(|entity| entity.write(&mut text));
        assert_eq!(text.as_bstr(), report);
    }

    #[test]
    fn understands_the_special_keys() {
        let entity =
            &parse("ENTITY: a:b\n  found in: x: y \nSOURCE: /s\nACTION: Removing (no (longer) wanted)\n").unwrap()[0];
        assert_eq!(entity.id, "a:b");
        assert_eq!(entity.sources, ["/s"]);
        assert_eq!(entity.action, Action::because("Removing", "no (longer) wanted"));
        assert_eq!(entity.information, [Information { key: "found in".into(), value: "x: y ".into() }]);
    }

    #[test]
    fn an_action_without_a_whole_parenthesis_is_a_verb() {
        for value in ["Executing", "Executing (now", "now)", "(now)", "Executing(now)"] {
            let entities = parse(&format!("ENTITY: a\nACTION: {value}\n")).unwrap();
            assert_eq!(entities[0].action, Action { verb: value.into(), reason: None });
        }
    }

    #[test]
    fn reports_every_bad_line() {
        assert_eq!(
            parse("\nfound in: x\nnonsense\nENTITY:x\nENTITY: \nENTITY: a\n: no key\n"),
            Err(vec![
                "line 2: expected entity ID, found attribute \"found in: x\"".into(),
                "line 3: parse error (line was \"nonsense\")".into(),
                "line 4: parse error (line was \"ENTITY:x\")".into(),
                "line 5: parse error (line was \"ENTITY: \")".into(),
                "line 7: parse error (line was \": no key\")".into(),
            ])
        );
    }

    #[test]
    fn an_empty_report_has_no_entities() {
        assert_eq!(parse(""), Ok(vec![]));
        assert_eq!(parse("\n\n"), Ok(vec![]));
    }

    #[test]
    fn ids_need_not_be_utf8() {
        let entities = EntityReport::parse_all(b"ENTITY: file:/caf\xe9\n").unwrap();
        assert_eq!(entities[0].id, &b"file:/caf\xe9"[..]);
    }
}
