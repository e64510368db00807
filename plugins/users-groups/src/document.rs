//! Definition files and images: TOML, parsed with line numbers for messages.

#[cfg(test)]
mod schema;
#[cfg(test)]
mod tests;

use crate::account::{AccountId, Kind, NameError, check_name};
use crate::definition::{Definition, Membership};
use holo_plugin::definitions::reading::{self, ValueError, kind, read_value};
use holo_plugin::definitions::{
    Candidate, CommonKeys, Filled, Hindrance, Keys, NothingReceived, ReceiveError, Received, did_you_mean, fill_with,
};
use std::borrow::Cow;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A parsed file.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// Groups first, then users, each in file order.
    pub(crate) entries: Vec<Entry>,
    /// Unknown keys with their lines.
    pub(crate) unknown_keys: Vec<UnknownKey>,
    /// True if the set of accounts that the file defines cannot be determined.
    pub(crate) is_unknowable: bool,
}

/// One entry of a file.
#[derive(Debug)]
pub(crate) enum Entry {
    Definition(Box<ParsedDefinition>),
    /// An invalid definition: the account, if it is known, and the problems.
    Broken(Option<AccountId>, Vec<String>),
}

/// A definition as written in one place.
#[derive(Debug)]
pub(crate) struct ParsedDefinition {
    pub(crate) definition: Definition,
    /// The keys that all definitions support.
    pub(crate) common: CommonKeys,
    /// The location, such as `line 7: users[0]`.
    pub(crate) place: String,
    /// Keys in `receive` that have no value, or an unsuitable one.
    pub(crate) hindrances: Vec<Hindrance>,
}

/// An unknown key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownKey {
    pub(crate) line: usize,
    pub(crate) key: String,
    /// The location, such as `users[0]`, or empty at the top level.
    pub(crate) of: String,
    /// A question whether a similar key was meant.
    pub(crate) hint: Option<String>,
}

/// Parses a definition file.
pub(crate) fn parse(text: &[u8], received: &dyn Received) -> Document {
    read(text, Some(received))
}

/// Parses an image. Its values come from the system, so the restrictions for definitions do not apply.
pub(crate) fn parse_image(text: &[u8]) -> Document {
    read(text, None)
}

/// An error or warning about definitions that are not installed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionFinding {
    /// The line, counted from 1.
    pub line: Option<usize>,
    /// True if a definition is invalid; false if a key is unknown.
    pub is_error: bool,
    /// The message without the line.
    pub text: String,
}

/// Checks the definitions in a TOML text, which may contain other tables.
#[must_use]
pub fn check_definitions(text: &str) -> Vec<DefinitionFinding> {
    let document = parse(text.as_bytes(), &NothingReceived);
    let broken = document.entries.into_iter().flat_map(|entry| match entry {
        Entry::Broken(_, problems) => problems,
        Entry::Definition(_) => Vec::new(),
    });
    let errors = broken.map(|problem| {
        let located = problem.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
        let located = located.and_then(|(line, text)| Some((line.parse().ok()?, text.to_owned())));
        let (line, text) = located.map_or((None, problem), |(line, text)| (Some(line), text));
        DefinitionFinding { line, is_error: true, text }
    });
    let unknown = document.unknown_keys.into_iter().filter(|unknown| !unknown.of.is_empty());
    let warnings = unknown.map(|UnknownKey { line, key, of, hint }| {
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        let text = format!("unknown key {key:?} of {of} is ignored{hint}");
        DefinitionFinding { line: Some(line), is_error: false, text }
    });
    errors.chain(warnings).collect()
}

/// Returns true if definitions in this table, `user` or `group`, have this key.
#[must_use]
pub fn has_key(table: &str, key: &str) -> bool {
    is_common(key) || Kind::ALL.into_iter().any(|kind| kind.word() == table && key_of(kind, key).is_some())
}

fn read(text: &[u8], received: Option<&dyn Received>) -> Document {
    let mut reader = Reader { text, received, document: Document::default() };
    match std::str::from_utf8(text) {
        Ok(text) => match DeTable::parse(text) {
            Ok(table) => reader.document(table.get_ref()),
            Err(error) => {
                let (reason, offset) = reading::syntax(text, &error);
                let line = reader.line(&(offset..offset));
                reader.unknowable(format!("line {line}: {reason}"));
            }
        },
        Err(error) => {
            let line = reader.line(&(error.valid_up_to()..0));
            reader.unknowable(format!("line {line}: not UTF-8"));
        }
    }
    reader.document
}

struct Reader<'a> {
    text: &'a [u8],
    /// The values that entities have sent, or `None` for an image.
    received: Option<&'a dyn Received>,
    document: Document,
}

/// A definition being parsed, and its problems.
struct Draft<'a> {
    definition: Definition,
    /// The location, such as `users[0]`.
    place: &'a str,
    is_image: bool,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn line(&self, span: &Range<usize>) -> usize {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }

    fn unknowable(&mut self, problem: String) {
        self.document.is_unknowable = true;
        self.document.entries.push(Entry::Broken(None, vec![problem]));
    }

    fn document(&mut self, table: &DeTable<'_>) {
        for kind in Kind::ALL {
            for (_, value) in table.iter().filter(|(key, _)| key.get_ref().eq_ignore_ascii_case(kind.word())) {
                self.list(kind, value);
            }
        }
        let known = Kind::ALL.map(Kind::word);
        self.note_unknown(table, "", &known, |key| known.iter().any(|known| known.eq_ignore_ascii_case(key)));
        // A table with a misspelt name may define accounts, which must not be deleted as orphans.
        self.document.is_unknowable |=
            self.document.unknown_keys.iter().any(|key| key.of.is_empty() && key.hint.is_some());
    }

    fn note_unknown(&mut self, table: &DeTable<'_>, of: &str, known: &[&str], is_known: impl Fn(&str) -> bool) {
        for (key, _) in table.iter().filter(|(key, _)| !is_known(key.get_ref())) {
            let unknown = UnknownKey {
                line: self.line(&key.span()),
                key: key.get_ref().to_string(),
                of: of.to_owned(),
                hint: did_you_mean(key.get_ref(), known.iter().copied()),
            };
            self.document.unknown_keys.push(unknown);
        }
        self.document.unknown_keys.sort_by_key(|unknown| unknown.line);
    }

    fn list(&mut self, of: Kind, value: &Spanned<DeValue<'_>>) {
        let DeValue::Array(list) = value.get_ref() else {
            let problem = format!(
                "line {}: expected [[{}]], found {}",
                self.line(&value.span()),
                of.word(),
                kind(value.get_ref())
            );
            return self.unknowable(problem);
        };
        for (index, element) in list.iter().enumerate() {
            let place = format!("{}s[{index}]", of.word());
            match element.get_ref() {
                DeValue::Table(table) => self.definition(of, table, self.line(&element.span()), &place),
                other => {
                    let line = self.line(&element.span());
                    self.unknowable(format!("line {line}: {place}: expected a table, found {}", kind(other)));
                }
            }
        }
    }

    fn definition(&mut self, of: Kind, table: &DeTable<'_>, line: usize, place: &str) {
        let known: Vec<&str> =
            keys(of).iter().copied().chain(CommonKeys::names().filter(|key| is_common(key))).collect();
        self.note_unknown(table, place, &known, |key| key_of(of, key).is_some() || is_common(key));
        let name = table.iter().find(|(key, _)| key.get_ref().eq_ignore_ascii_case("name")).map(|(_, value)| value);
        let name = match name.map(|value| (value, value.get_ref().as_str())) {
            None | Some((_, Some(""))) => {
                let problem = format!("{place} is missing required 'name' attribute");
                return self.document.entries.push(Entry::Broken(None, vec![problem]));
            }
            Some((value, None)) => {
                let (line, found) = (self.line(&value.span()), kind(value.get_ref()));
                let problem = format!("line {line}: name of {place}: expected a string, found {found}");
                return self.unknowable(problem);
            }
            Some((value, Some(name))) => match check_name(name) {
                Ok(()) => name,
                Err(reason) => {
                    let line = self.line(&value.span());
                    let problem = format!("line {line}: name {name:?} of {place} is not valid: {reason}");
                    return self.document.entries.push(Entry::Broken(None, vec![problem]));
                }
            },
        };
        let common = self.common(table);
        let receipts = common.as_ref().map(|common| common.receive.clone()).unwrap_or_default();
        let whole = Spanned::new(0..0, table.clone());
        let candidates = self.received.map(|received| Candidate::all(&receipts, &whole, received)).unwrap_or_default();
        let mut draft = Draft::new(AccountId { kind: of, name: name.to_owned() }, place, self.received.is_none());
        let Filled { table: filled, hindrances, .. } = self.fill(of, whole.clone(), &candidates, &mut draft);
        for (key, value) in in_order(filled.get_ref()) {
            if let Some(known) = key_of(of, key.get_ref())
                && let Err(error) = draft.set(known, value)
            {
                let (line, within) = (self.line(&value.span()), error.within());
                let problem = format!("line {line}: {}{within} of {}: {error}", key.get_ref(), draft.place);
                draft.problems.push(problem);
            }
        }
        let Draft { mut definition, mut problems, .. } = draft;
        if table.keys().any(|key| is_of_version_4(of, key.get_ref())) {
            definition.membership = definition.membership.max(Membership::Ours);
        }
        let common = common.map_err(|wrong| {
            let line = wrong.span().map(|span| format!("line {}: ", self.line(&span))).unwrap_or_default();
            problems.push(format!("{line}{} of {place}: {}", wrong.key(), wrong.message()));
        });
        self.document.entries.push(match common {
            Ok(common) if problems.is_empty() => {
                let place = format!("line {line}: {place}");
                Entry::Definition(Box::new(ParsedDefinition { definition, common, place, hindrances }))
            }
            _ => Entry::Broken(Some(definition.account.id), problems),
        });
    }

    /// Reads the keys that all definitions support. Images have none.
    fn common(&self, table: &DeTable<'_>) -> Result<CommonKeys, ValueError> {
        let keys = table.iter().filter(|(key, _)| self.received.is_some() && is_common(key.get_ref()));
        let keys: DeTable<'_> = keys.map(|(key, value)| (key.clone(), value.clone())).collect();
        let mut common = CommonKeys::read(keys.clone())?;
        common.locate(&keys, |span| self.line(span).to_string());
        Ok(common)
    }
}

/// Returns all keys of an account.
fn keys(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Group => &["name", "gid", "system"],
        Kind::User => &[
            "name",
            "comment",
            "uid",
            "system",
            "home",
            "group",
            "groups",
            "shell",
            "skipBaseGroups",
            "exact_groups",
            "create_home",
        ],
    }
}

/// Returns the attribute that a key names. As in version 3, case does not matter.
fn key_of(kind: Kind, key: &str) -> Option<&'static str> {
    keys(kind).iter().copied().find(|known| known.eq_ignore_ascii_case(key))
}

/// Returns true for keys that all definitions support, except `provider`, as there is only one.
fn is_common(key: &str) -> bool {
    CommonKeys::include(key) && key != "provider"
}

/// Returns true for keys that version 3 does not know.
fn is_of_version_4(kind: Kind, key: &str) -> bool {
    is_common(key) || matches!(key_of(kind, key), Some("create_home" | "exact_groups"))
}

/// Returns the entries of a table in the order of the file.
fn in_order<'t, 'd>(table: &'t DeTable<'d>) -> Vec<(&'t Spanned<Cow<'d, str>>, &'t Spanned<DeValue<'d>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

impl<'a> Draft<'a> {
    fn new(id: AccountId, place: &'a str, is_image: bool) -> Draft<'a> {
        Draft { definition: Definition::bare(id), place, is_image, problems: Vec::new() }
    }
}

impl Draft<'_> {
    fn set(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<(), AttributeError> {
        let is_image = self.is_image;
        let text = |value| text(value).and_then(|text| if is_image { Ok(text) } else { checked_text(text) });
        let group_name = |name| if is_image { Ok(name) } else { group_name(name) };
        let account = &mut self.definition.account;
        match key {
            // As in version 3, a definition with the GID 0 leaves the number open. UID 0 is a valid number.
            "gid" => account.number = Some(number(value)?).filter(|&gid| is_image || gid != 0),
            "uid" => account.number = Some(number(value)?),
            "system" => self.definition.system = read_value(value)?,
            "create_home" => self.definition.create_home = read_value(value)?,
            "exact_groups" if read_value(value)? => self.definition.membership = Membership::Exact,
            "skipBaseGroups" => self.definition.skip_base_groups = read_value(value)?,
            "comment" => account.comment = text(value)?,
            "home" => account.home = text(value)?,
            "shell" => account.shell = text(value)?,
            "group" => account.group = text(value)?.map(group_name).transpose()?,
            "groups" => {
                let names = read_value::<Vec<String>>(value)?.into_iter().filter(|name| !name.is_empty());
                account.groups = names.map(group_name).collect::<Result<_, _>>()?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// An invalid value of an attribute.
#[derive(Debug, thiserror::Error)]
enum AttributeError {
    #[error("{}", .0.message())]
    Value(#[from] ValueError),
    #[error("{0} is out of range")]
    OutOfRange(u32),
    #[error("must not contain colons or control characters")]
    SeveralFields,
    #[error("is not valid: {0}")]
    Name(NameError),
}

impl AttributeError {
    /// Returns the location within the value, such as `[0]`.
    fn within(&self) -> String {
        if let AttributeError::Value(error) = self { error.key() } else { String::new() }
    }
}

fn number(value: &Spanned<DeValue<'_>>) -> Result<u32, AttributeError> {
    match read_value(value)? {
        // (uid_t)-1 stands for "no ID" in system calls.
        u32::MAX => Err(AttributeError::OutOfRange(u32::MAX)),
        number => Ok(number),
    }
}

/// Returns a string, or `None` if it is empty.
fn text(value: &Spanned<DeValue<'_>>) -> Result<Option<String>, AttributeError> {
    Ok(Some(read_value::<String>(value)?).filter(|text| !text.is_empty()))
}

/// Checks that a string is valid as one field of a line.
fn checked_text(text: Option<String>) -> Result<Option<String>, AttributeError> {
    match text {
        Some(text) if !is_one_field(&text) => Err(AttributeError::SeveralFields),
        text => Ok(text),
    }
}

/// Returns true if a string is valid as one field of an account.
pub(crate) fn is_one_field(text: &str) -> bool {
    !text.contains(|letter: char| letter == ':' || letter.is_control())
}

fn group_name(name: String) -> Result<String, AttributeError> {
    check_name(&name).map(|()| name).map_err(AttributeError::Name)
}

/// The attributes of accounts of this kind.
struct Attributes(Kind);

impl Reader<'_> {
    /// Adds received values to the table of a definition. Conflicts with the definition are added to the problems of the draft.
    fn fill<'c>(
        &self,
        of: Kind,
        table: Spanned<DeTable<'c>>,
        candidates: &'c [Candidate<'_>],
        draft: &mut Draft<'_>,
    ) -> Filled<'c> {
        let mut wrong = Vec::new();
        let describe =
            |span: &Range<usize>, problem: &str| format!("line {}: {}: {problem}", self.line(span), draft.place);
        let filled = fill_with(table, candidates, &Attributes(of), &mut wrong, &describe);
        let wrong: Vec<String> = wrong.iter().map(|(span, problem)| describe(span, problem)).collect();
        draft.problems.extend(wrong);
        filled
    }
}

impl Keys for Attributes {
    fn check(&self, table: &Spanned<DeTable<'_>>, key: &str, _: &Range<usize>) -> Result<(), ReceiveError> {
        let Some(known) = key_of(self.0, key) else { return self.find(key) };
        let mut same = table.get_ref().iter().filter(|(other, _)| other.get_ref().eq_ignore_ascii_case(key));
        let (Some((_, value)), None) = (same.next(), same.next()) else {
            return Err(ReceiveError::new(format!("receive: {key} is also set in the definition")));
        };
        let id = AccountId { kind: self.0, name: String::new() };
        Draft::new(id, "", false).set(known, value).map_err(|error| ReceiveError::new(format!("{key}: {error}")))
    }

    fn find(&self, key: &str) -> Result<(), ReceiveError> {
        if key_of(self.0, key).is_some() {
            return Ok(());
        }
        let hint = did_you_mean(key, keys(self.0).iter().copied()).map(|hint| format!("; {hint}"));
        Err(ReceiveError::new(format!("receive: {key}: unknown key{}", hint.unwrap_or_default())))
    }
}
