//! The functions of Sprig, version 3.

mod encodings;
mod lists;
mod numbers;
mod strings;
mod tables;
mod times;
mod versions;

use super::values;
use gotmpl::{TemplateError, Value};

/// A function.
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) call: fn(&Arguments<'_>) -> Result<Value, TemplateError>,
    /// A warning if the function is unsuitable for files that should not change with each apply.
    pub(super) warning: Option<&'static str>,
}

/// The functions that change their first argument.
pub(super) const CHANGING: [&str; 3] = ["set", "unset", "merge"];

/// Maximum number of items, or of bytes, that a function may create.
const MAX_SIZE: usize = 16 << 20;

const GROUPS: [&[Function]; 7] =
    [strings::ALL, lists::ALL, tables::ALL, numbers::ALL, encodings::ALL, times::ALL, versions::ALL];

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

    pub(super) fn exactly(&self, count: usize) -> Result<(), TemplateError> {
        self.between(count, count)
    }

    pub(super) fn between(&self, least: usize, most: usize) -> Result<(), TemplateError> {
        let count = self.values.len();
        if (least..=most).contains(&count) {
            return Ok(());
        }
        let wanted = if least == most { least.to_string() } else { format!("{least} to {most}") };
        Err(self.error(&format!("wants {wanted} arguments, and is given {count}")))
    }

    pub(super) fn at_least(&self, count: usize) -> Result<(), TemplateError> {
        self.between(count, usize::MAX).map_err(|_| self.error(&format!("wants {count} arguments at least")))
    }

    pub(super) fn value(&self, index: usize) -> Result<&'a Value, TemplateError> {
        self.values.get(index).ok_or_else(|| self.error(&format!("wants {} arguments at least", index + 1)))
    }

    /// Returns a string argument. Any other type is an error, as in Go, where the parameter is typed.
    pub(super) fn text(&self, index: usize) -> Result<&'a str, TemplateError> {
        match self.value(index)? {
            Value::String(text) => Ok(text),
            other => Err(self.error(&format!("wants a string, and is given {}", other.type_name()))),
        }
    }

    /// Returns an integer argument. Any other type is an error, as in Go, where the parameter is typed.
    pub(super) fn integer(&self, index: usize) -> Result<i64, TemplateError> {
        match self.value(index)? {
            Value::Int(number) => Ok(*number),
            other => Err(self.error(&format!("wants a whole number, and is given {}", other.type_name()))),
        }
    }

    pub(super) fn list(&self, index: usize) -> Result<&'a [Value], TemplateError> {
        match self.value(index)? {
            Value::List(list) => Ok(list),
            other => Err(self.error(&format!("wants a list, and is given {}", other.type_name()))),
        }
    }

    pub(super) fn table(&self, index: usize) -> Result<&'a tables::Table, TemplateError> {
        match self.value(index)? {
            Value::Map(table) => Ok(table),
            other => Err(self.error(&format!("wants a dict, and is given {}", other.type_name()))),
        }
    }

    /// Returns a size, or an error if it exceeds the limit.
    fn size(&self, size: usize) -> Result<usize, TemplateError> {
        if size > MAX_SIZE { Err(self.error(&format!("would make more than {MAX_SIZE}"))) } else { Ok(size) }
    }
}

/// Returns the text of a value.
fn text_of(value: &Value) -> String {
    values::text(value)
}

fn text(text: impl AsRef<str>) -> Result<Value, TemplateError> {
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
