//! The output of a plugin's `info` operation.

use crate::environment::API_VERSION_4;
use crate::sent::is_name;
use crate::session::Operation;
use bstr::{BStr, BString, ByteSlice};
use std::collections::BTreeSet;

/// The versions that a plugin supports, and its capabilities beyond version 3.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The oldest interface version that the plugin supports.
    pub min_api_version: u32,
    /// The newest interface version that the plugin supports.
    pub max_api_version: u32,
    /// True if one process can serve a whole run (`SESSION=1`, version 4).
    pub session: bool,
    /// The [optional](Operation::OPTIONAL) operations that it supports (`PREVIEW=1` and so on, version 4).
    pub operations: BTreeSet<Operation>,
    /// True if a scan in a session can be limited to the neighbours of an entity (`NEIGHBOURS=1`, version 4).
    pub finds_neighbours: bool,
    /// True if a scan in a session can be limited to the owners of assets, so that others may leave them out (`OWNERS=1`,
    /// version 4).
    pub finds_owners: bool,
    /// True if it supports the operation `watch` (`WATCH=1`, version 4).
    pub watches: bool,
    /// True if it reports the witnesses of its answers on request (`WITNESSES=1`, version 4).
    pub witnesses: bool,
    /// True if it reports the parts of entities on request (`PARTS=1`, version 4).
    pub parts: bool,
    /// True if a change of one of its entities may undo another one, so that a run looks at all of them again at its end
    /// (`INTERFERES=1`, version 4).
    pub interferes: bool,
    /// The values that every entity of a type can send, as pairs of type and name (`SENDS=TYPE#NAME TYPE#NAME…`,
    /// version 4).
    pub sends: Vec<(String, String)>,
    /// The maximum number of entities worked on concurrently (`CONCURRENCY=N`, version 4); `None` if only
    /// [`JOBS`](crate::environment::JOBS) limits it.
    pub concurrency: Option<u32>,
    /// Shell patterns of the resource files that the plugin reads, relative to its resource directory
    /// (`READS=PATTERN PATTERN…`, version 4). A pattern after `x:` only matches executable files. Empty if unknown.
    pub reads: Vec<String>,
}

/// The reason why the output of `info` is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InfoError {
    /// A required key is missing.
    #[error("info does not say {0}=N")]
    Missing(&'static str),
    /// The list of values that entities can send has another form than `TYPE#NAME`.
    #[error("info says SENDS={0}, where TYPE#NAME is needed, with a name of letters, digits and _")]
    NotSent(BString),
    /// A value is not a positive integer.
    #[error("info says {key}={value}, where a positive integer is needed")]
    NotANumber {
        /// The key.
        key: &'static str,
        /// The value.
        value: BString,
    },
}

const MIN_API_VERSION: &str = "MIN_API_VERSION";
const MAX_API_VERSION: &str = "MAX_API_VERSION";
const SESSION: &str = "SESSION";
const NEIGHBOURS: &str = "NEIGHBOURS";
const OWNERS: &str = "OWNERS";
const WATCH: &str = "WATCH";
const WITNESSES: &str = "WITNESSES";
const PARTS: &str = "PARTS";
const INTERFERES: &str = "INTERFERES";
const SENDS: &str = "SENDS";
const CONCURRENCY: &str = "CONCURRENCY";
const READS: &str = "READS";

impl Info {
    /// Parses `KEY=VALUE` lines. Unknown keys and lines of any other form are ignored, as in version 3.
    ///
    /// # Errors
    /// If a version is missing, or a number is not a positive integer.
    pub fn parse(output: &[u8]) -> Result<Info, InfoError> {
        let value = |key: &str| {
            output.lines().find_map(|line| {
                let (name, value) = line.split_once_str("=")?;
                (name.trim() == key.as_bytes()).then(|| value.trim().as_bstr())
            })
        };
        let number = |key: &'static str| -> Result<Option<u32>, InfoError> {
            let Some(given): Option<&BStr> = value(key) else { return Ok(None) };
            let number = given.to_str().ok().and_then(|digits| digits.parse().ok()).filter(|&number| number > 0);
            number.map(Some).ok_or_else(|| InfoError::NotANumber { key, value: given.to_owned() })
        };
        let version = |key: &'static str| number(key)?.ok_or(InfoError::Missing(key));
        let max_api_version = version(MAX_API_VERSION);
        // A plugin that only supports version 3 may use these keys for its own purposes, and they are ignored.
        let may_say_more = max_api_version.as_ref().is_ok_and(|&version| version >= API_VERSION_4);
        let flag = |key: &str| may_say_more && value(key).is_some_and(|given| given == "1");
        Ok(Info {
            min_api_version: version(MIN_API_VERSION)?,
            max_api_version: max_api_version?,
            session: value(SESSION).is_some_and(|given| given == "1"),
            operations: Operation::OPTIONAL.into_iter().filter(|&operation| flag(&key(operation))).collect(),
            finds_neighbours: flag(NEIGHBOURS),
            finds_owners: flag(OWNERS),
            watches: flag(WATCH),
            witnesses: flag(WITNESSES),
            parts: flag(PARTS),
            interferes: flag(INTERFERES),
            sends: value(SENDS).filter(|_| may_say_more).map(sent).transpose()?.unwrap_or_default(),
            concurrency: if may_say_more { number(CONCURRENCY)? } else { None },
            reads: value(READS).filter(|_| may_say_more).map(words).unwrap_or_default(),
        })
    }

    /// Returns the text that a plugin prints for `info`.
    #[must_use]
    pub fn to_text(&self) -> String {
        let Info {
            min_api_version,
            max_api_version,
            session,
            ref operations,
            finds_neighbours,
            finds_owners,
            watches,
            witnesses,
            parts,
            interferes,
            ref sends,
            concurrency,
            ref reads,
        } = *self;
        let session = session.then(|| SESSION.to_owned());
        let operations = operations.iter().map(|&operation| key(operation));
        let others = [
            (finds_neighbours, NEIGHBOURS),
            (finds_owners, OWNERS),
            (watches, WATCH),
            (witnesses, WITNESSES),
            (parts, PARTS),
            (interferes, INTERFERES),
        ];
        let others = others.into_iter().filter(|(is_set, _)| *is_set).map(|(_, key)| key.to_owned());
        let flags = session.into_iter().chain(operations).chain(others);
        let flags: String = flags.map(|key| format!("{key}=1\n")).collect();
        let concurrency = concurrency.map(|number| format!("{CONCURRENCY}={number}\n")).unwrap_or_default();
        let sends: Vec<String> = sends.iter().map(|(of, name)| format!("{of}#{name}")).collect();
        let sends = if sends.is_empty() { String::new() } else { format!("{SENDS}={}\n", sends.join(" ")) };
        let reads = if reads.is_empty() { String::new() } else { format!("{READS}={}\n", reads.join(" ")) };
        let versions = format!("{MIN_API_VERSION}={min_api_version}\n{MAX_API_VERSION}={max_api_version}\n");
        [versions, flags, sends, concurrency, reads].concat()
    }

    /// Returns the highest version from `oldest` to `newest` that the plugin supports, if any.
    #[must_use]
    pub fn common_version(&self, oldest: u32, newest: u32) -> Option<u32> {
        let version = self.max_api_version.min(newest);
        (version >= self.min_api_version.max(oldest)).then_some(version)
    }
}

/// Returns the key for an optional operation.
fn key(operation: Operation) -> String {
    operation.word().to_ascii_uppercase()
}

fn words(given: &BStr) -> Vec<String> {
    given.fields().map(|word| word.to_str_lossy().into_owned()).collect()
}

/// Parses `TYPE#NAME TYPE#NAME…`.
fn sent(given: &BStr) -> Result<Vec<(String, String)>, InfoError> {
    let one = |text: &[u8]| {
        let (of, name) = text.split_once_str("#")?;
        let of = of.to_str().ok().filter(|of| !of.is_empty())?;
        is_name(name.as_bstr()).then(|| (of.to_owned(), name.to_str_lossy().into_owned()))
    };
    let all: Option<Vec<(String, String)>> = given.fields().map(one).collect();
    all.ok_or_else(|| InfoError::NotSent(given.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for (operations, concurrency) in
            [(&Operation::OPTIONAL[..], None), (&[Operation::Scan, Operation::Adopt], Some(1)), (&[], Some(4))]
        {
            let is_few = operations.len() < 3;
            let info = Info {
                min_api_version: 3,
                max_api_version: 4,
                session: true,
                operations: operations.iter().copied().collect(),
                finds_neighbours: is_few,
                finds_owners: !is_few,
                watches: !is_few,
                witnesses: is_few,
                parts: !is_few,
                interferes: is_few,
                sends: if is_few { vec![("a".into(), "b".into()), ("c".into(), "d_1".into())] } else { Vec::new() },
                concurrency,
                reads: if is_few { vec!["*.toml".into(), "x:*".into()] } else { Vec::new() },
            };
            assert_eq!(Info::parse(info.to_text().as_bytes()), Ok(info));
        }
    }

    #[test]
    fn ignores_other_keys_and_lines() {
        let info = Info::parse(
            b"# hello\n\nFOO=1\n MAX_API_VERSION = 3 \nMIN_API_VERSION=2\nCONCURRENCY=all\nSCAN=1\nDOCTOR=1\nADOPT=1\n",
        );
        let old = Info { min_api_version: 2, max_api_version: 3, ..Info::default() };
        assert_eq!(info, Ok(old));
    }

    #[test]
    fn names_what_is_missing_or_wrong() {
        let message = |output: &[u8]| Info::parse(output).unwrap_err().to_string();
        assert_eq!(message(b""), "info does not say MIN_API_VERSION=N");
        assert_eq!(message(b"MIN_API_VERSION=3\n"), "info does not say MAX_API_VERSION=N");
        assert_eq!(
            message(b"MIN_API_VERSION=three\nMAX_API_VERSION=3"),
            "info says MIN_API_VERSION=three, where a positive integer is needed"
        );
        assert_eq!(
            message(b"MIN_API_VERSION=3\nMAX_API_VERSION=4\nCONCURRENCY=0\n"),
            "info says CONCURRENCY=0, where a positive integer is needed"
        );
        assert!(message(b"MIN_API_VERSION=3\nMAX_API_VERSION=4\nSENDS=a b").starts_with("info says SENDS=a b, where"));
        assert!(Info::parse(b"MIN_API_VERSION=0\nMAX_API_VERSION=3").is_err());
        assert!(Info::parse(b"MIN_API_VERSION=\xff\nMAX_API_VERSION=3").is_err());
    }

    #[test]
    fn chooses_the_highest_common_version() {
        let common = |min, max| {
            let info = Info { min_api_version: min, max_api_version: max, ..Info::default() };
            info.common_version(3, 4)
        };
        assert_eq!(common(3, 3), Some(3));
        assert_eq!(common(1, 9), Some(4));
        assert_eq!(common(4, 4), Some(4));
        assert_eq!(common(1, 2), None);
        assert_eq!(common(5, 9), None);
    }
}
