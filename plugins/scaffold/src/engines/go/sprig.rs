//! The functions of Sprig, version 3, among them those for lists, tables and defaults.

mod numbers;
mod strings;

use super::{limits, values};
use gotmpl::{TemplateError, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The result of a function, or of reading one of its arguments.
type Result<T = Value> = std::result::Result<T, TemplateError>;

/// A function.
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) call: fn(&Arguments<'_>) -> Result,
    /// A warning if the function is unsuitable for files that should not change with each apply.
    pub(super) warning: Option<&'static str>,
}

/// Returns a function without a warning.
const fn function(name: &'static str, call: fn(&Arguments<'_>) -> Result) -> Function {
    Function { name, call, warning: None }
}

/// The functions that change their first argument.
pub(super) const CHANGING: [&str; 3] = ["set", "unset", "merge"];

const GROUPS: [&[Function]; 7] =
    [strings::ALL, ALL, TABLES, numbers::ALL, strings::ENCODINGS, numbers::TIMES, numbers::VERSIONS];

/// The functions of Sprig that are not supported.
const UNSUPPORTED: &str = "abbrev abbrevboth adler32sum addf add1 add1f ago all any base b32dec b32enc bcrypt biggest \
    buildCustomCert camelcase chunk clean compact concat date_in_zone dateModify date_modify decryptAES deepCopy deepEqual \
    derivePassword dig dir divf duration durationRound encryptAES expandenv ext genCA genCAWithKey genPrivateKey \
    genSelfSignedCert genSelfSignedCertWithKey genSignedCert genSignedCertWithKey getHostByName hello htmlDate htmlDateInZone \
    htpasswd initials isAbs kebabcase maxf mergeOverwrite minf mulf mustAppend mustChunk mustCompact mustDateModify mustDeepCopy \
    mustFirst mustFromJson mustHas mustInitial mustLast mustMerge mustMergeOverwrite mustPrepend mustPush mustRegexFind \
    mustRegexFindAll mustRegexMatch mustRegexReplaceAll mustRegexReplaceAllLiteral mustRegexSplit mustRest mustReverse mustSlice \
    mustToDate mustToJson mustToPrettyJson mustToRawJson mustUniq mustWithout must_date_modify nospace omit osBase osClean osDir \
    osExt osIsAbs pick plural push randAlpha randAlphaNum randAscii randBytes randInt randNumeric regexFindAll regexQuoteMeta \
    regexReplaceAllLiteral regexSplit sha1sum shuffle snakecase splitn subf substring swapcase toDate toDecimal \
    toStrings trimall tuple typeIs typeIsLike untilStep untitle urlJoin urlParse uuidv4 wrap wrapWith";

/// Returns all supported functions.
pub(super) fn all() -> impl Iterator<Item = &'static Function> {
    GROUPS.iter().copied().flatten()
}

/// Returns the function of this name.
pub(super) fn find(name: &str) -> Option<&'static Function> {
    all().find(|function| function.name == name)
}

/// Returns true if this is a function of Sprig that is not supported.
pub(super) fn is_unsupported(name: &str) -> bool {
    UNSUPPORTED.split_whitespace().any(|unsupported| unsupported == name)
}

/// The arguments of a function.
pub(super) struct Arguments<'a> {
    pub(super) name: &'static str,
    pub(super) values: &'a [Value],
}

impl<'a> Arguments<'a> {
    pub(super) fn error(&self, problem: &str) -> TemplateError {
        TemplateError::Exec(format!("{} {problem}", self.name))
    }

    pub(super) fn exactly(&self, count: usize) -> Result<()> {
        self.between(count, count)
    }

    pub(super) fn between(&self, least: usize, most: usize) -> Result<()> {
        let count = self.values.len();
        if (least..=most).contains(&count) {
            return Ok(());
        }
        let wanted = if least == most { least.to_string() } else { format!("{least} to {most}") };
        Err(self.error(&format!("wants {wanted} arguments, and is given {count}")))
    }

    pub(super) fn at_least(&self, count: usize) -> Result<()> {
        self.between(count, usize::MAX).map_err(|_| self.error(&format!("wants {count} arguments at least")))
    }

    pub(super) fn value(&self, index: usize) -> Result<&'a Value> {
        self.values.get(index).ok_or_else(|| self.error(&format!("wants {} arguments at least", index + 1)))
    }

    /// Returns a string argument. Any other type is an error, as in Go, where the parameter is typed.
    pub(super) fn text(&self, index: usize) -> Result<&'a str> {
        match self.value(index)? {
            Value::String(text) => Ok(text),
            other => Err(self.error(&format!("wants a string, and is given {}", other.type_name()))),
        }
    }

    /// Returns an integer argument. Any other type is an error, as in Go, where the parameter is typed.
    pub(super) fn integer(&self, index: usize) -> Result<i64> {
        match self.value(index)? {
            Value::Int(number) => Ok(*number),
            other => Err(self.error(&format!("wants a whole number, and is given {}", other.type_name()))),
        }
    }

    pub(super) fn list(&self, index: usize) -> Result<&'a [Value]> {
        match self.value(index)? {
            Value::List(list) => Ok(list),
            other => Err(self.error(&format!("wants a list, and is given {}", other.type_name()))),
        }
    }

    pub(super) fn table(&self, index: usize) -> Result<&'a Table> {
        match self.value(index)? {
            Value::Map(table) => Ok(table),
            other => Err(self.error(&format!("wants a dict, and is given {}", other.type_name()))),
        }
    }

    /// Returns a size, or an error if it exceeds the limit.
    fn size(&self, size: usize) -> Result<usize> {
        limits::within(size).map(|()| size)
    }
}

/// Returns the text of a value.
fn text_of(value: &Value) -> String {
    values::text(value)
}

fn text(text: impl AsRef<str>) -> Result {
    Ok(Value::String(text.as_ref().into()))
}

/// Returns the texts of a list's items, or of a single value. Only nil is omitted.
fn texts_of(value: &Value) -> Vec<String> {
    match value {
        Value::List(list) => list.iter().filter(|item| !matches!(item, Value::Nil)).map(text_of).collect(),
        Value::Nil => Vec::new(),
        other => vec![text_of(other)],
    }
}

const ALL: &[Function] = &[
    function("list", |a| Ok(list(a.values.iter().cloned()))),
    function("first", |a| Ok(single(a)?.first().cloned().unwrap_or(Value::Nil))),
    function("last", |a| Ok(single(a)?.last().cloned().unwrap_or(Value::Nil))),
    function("rest", |a| Ok(list(single(a)?.iter().skip(1).cloned()))),
    function("initial", |a| Ok(list(single(a)?.split_last().map_or(&[][..], |(_, rest)| rest).iter().cloned()))),
    function("append", |a| {
        a.exactly(2)?;
        Ok(list(a.list(0)?.iter().chain([a.value(1)?]).cloned()))
    }),
    function("prepend", |a| {
        a.exactly(2)?;
        Ok(list([a.value(1)?].into_iter().chain(a.list(0)?).cloned()))
    }),
    function("uniq", |a| {
        let mut unique: Vec<Value> = Vec::new();
        for value in single(a)? {
            if !unique.contains(value) {
                unique.push(value.clone());
            }
        }
        Ok(list(unique))
    }),
    function("sortAlpha", |a| {
        a.exactly(1)?;
        let mut texts = texts_of(a.value(0)?);
        texts.sort();
        Ok(list(texts.into_iter().map(|text| Value::String(text.into()))))
    }),
    function("reverse", |a| Ok(list(single(a)?.iter().rev().cloned()))),
    function("has", |a| {
        a.exactly(2)?;
        if matches!(a.value(1)?, Value::Nil) {
            return Ok(Value::Bool(false));
        }
        Ok(Value::Bool(a.list(1)?.contains(a.value(0)?)))
    }),
    function("without", |a| {
        a.at_least(1)?;
        let omitted = a.values.get(1..).unwrap_or_default();
        Ok(list(a.list(0)?.iter().filter(|value| !omitted.contains(value)).cloned()))
    }),
    function("default", |a| {
        a.at_least(1)?;
        let given = a.values.get(1).filter(|given| given.is_truthy());
        Ok(given.unwrap_or(a.value(0)?).clone())
    }),
    function("coalesce", |a| Ok(a.values.iter().find(|value| value.is_truthy()).cloned().unwrap_or(Value::Nil))),
    function("empty", |a| {
        a.exactly(1)?;
        Ok(Value::Bool(!a.value(0)?.is_truthy()))
    }),
    function("ternary", |a| {
        a.exactly(3)?;
        match a.value(2)? {
            Value::Bool(condition) => Ok(a.value(usize::from(!condition))?.clone()),
            other => Err(a.error(&format!("wants a truth value last, and is given {}", other.type_name()))),
        }
    }),
    function("fail", |a| {
        a.exactly(1)?;
        Err(TemplateError::Exec(a.text(0)?.to_owned()))
    }),
    function("required", |a| {
        a.exactly(2)?;
        let value = a.value(1)?;
        let missing = matches!(value, Value::Nil) || value.as_str().is_some_and(str::is_empty);
        if missing { Err(TemplateError::Exec(a.text(0)?.to_owned())) } else { Ok(value.clone()) }
    }),
    function("kindOf", |a| {
        a.exactly(1)?;
        text(kind(a, 0)?)
    }),
    function("kindIs", |a| {
        a.exactly(2)?;
        Ok(Value::Bool(a.text(0)? == kind(a, 1)?))
    }),
    function("typeOf", |a| {
        a.exactly(1)?;
        text(match kind(a, 0)? {
            "map" => "map[string]interface {}",
            "slice" => "[]interface {}",
            "invalid" => "<nil>",
            kind => kind,
        })
    }),
];

fn list(values: impl IntoIterator<Item = Value>) -> Value {
    Value::List(values.into_iter().collect())
}

fn single<'a>(a: &Arguments<'a>) -> Result<&'a [Value]> {
    a.exactly(1)?;
    a.list(0)
}

fn kind(a: &Arguments<'_>, index: usize) -> Result<&'static str> {
    Ok(match a.value(index)? {
        Value::Nil => "invalid",
        Value::List(_) => "slice",
        Value::Function(_) => return Err(a.error("knows no kind of functions and times")),
        Value::Uint(_) => "uint64",
        other => other.type_name(),
    })
}

type Table = BTreeMap<Arc<str>, Value>;

const TABLES: &[Function] = &[
    function("dict", |a| {
        let pairs = a.values.chunks(2).filter_map(<[Value]>::split_first);
        let value = |rest: &[Value]| rest.first().cloned().unwrap_or(Value::String("".into()));
        Ok(made(pairs.map(|(key, rest)| (text_of(key).into(), value(rest))).collect()))
    }),
    function("get", |a| {
        a.exactly(2)?;
        Ok(a.table(0)?.get(a.text(1)?).cloned().unwrap_or(Value::String("".into())))
    }),
    function("hasKey", |a| {
        a.exactly(2)?;
        Ok(Value::Bool(a.table(0)?.contains_key(a.text(1)?)))
    }),
    // The order of keys and values is undefined in Go. Here they are sorted by key.
    function("keys", |a| {
        let tables = tables(a, 0)?;
        Ok(Value::List(
            tables.iter().flat_map(|table| table.keys()).map(|key| Value::String(Arc::clone(key))).collect(),
        ))
    }),
    function("values", |a| {
        a.exactly(1)?;
        Ok(Value::List(a.table(0)?.values().cloned().collect()))
    }),
    function("pluck", |a| {
        let key = a.text(0)?;
        Ok(Value::List(tables(a, 1)?.iter().filter_map(|table| table.get(key)).cloned().collect()))
    }),
    function("set", |a| {
        a.exactly(3)?;
        let mut table = a.table(0)?.clone();
        table.insert(a.text(1)?.into(), a.value(2)?.clone());
        Ok(made(table))
    }),
    function("unset", |a| {
        a.exactly(2)?;
        let mut table = a.table(0)?.clone();
        table.remove(a.text(1)?);
        Ok(made(table))
    }),
    function("merge", |a| {
        let mut table = a.table(0)?.clone();
        tables(a, 1)?.into_iter().for_each(|other| merge(&mut table, other));
        Ok(made(table))
    }),
];

fn made(table: Table) -> Value {
    Value::Map(Arc::new(table))
}

fn tables<'a>(a: &Arguments<'a>, from: usize) -> std::result::Result<Vec<&'a Table>, TemplateError> {
    (from..a.values.len()).map(|index| a.table(index)).collect()
}

/// Merges two tables. Existing values that are not empty are kept.
fn merge(table: &mut Table, other: &Table) {
    for (key, value) in other {
        match (table.get_mut(key), value) {
            (Some(Value::Map(inner)), Value::Map(other)) if !inner.is_empty() => merge(Arc::make_mut(inner), other),
            (Some(present), _) if present.is_truthy() => {}
            _ => drop(table.insert(Arc::clone(key), value.clone())),
        }
    }
}
