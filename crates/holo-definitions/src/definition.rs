//! The types that definitions are read into.

use crate::naming::{NameError, NameKeys};
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::fmt::{self, Display};

/// A table of a definition. Unknown keys are refused if the type says `#[serde(deny_unknown_fields)]`, which it has to.
pub trait Definition: DeserializeOwned {
    /// The name of the tables: `package` for `[[package]]`.
    const TABLE: &'static str;
    /// The first part of its entities' IDs.
    const ENTITY_TYPE: &'static str = Self::TABLE;
    /// The key whose value is the entity's name.
    const KEY: &'static str = "name";
    /// Keys whose lists are united when a definition is stacked over several files, beside the common ones.
    const UNITED: &'static [&'static str] = &[];
    /// Keys whose values are never shown, so that they may be sensitive.
    const SECRETS: &'static [&'static str] = &[];

    /// True if folders in the resource directory are something else, whatever they are called.
    const HAS_FOLDERS: bool = false;

    /// Keys that concern nobody but the entity: a table that says nothing else need not be read to know that.
    const SELF_CONTAINED: &'static [&'static str] = &[];

    /// Returns the entity's name: what its ID has after the type.
    ///
    /// # Errors
    /// If the keys that it is made of are missing or cannot be a name.
    fn entity_name(keys: &NameKeys<'_, '_>) -> Result<String, NameError> {
        keys.required(Self::KEY).map(str::to_owned)
    }

    /// Returns what can be, but is hardly meant: the key, and the reason. It is said, and the definition counts.
    fn doubts(&self) -> Vec<Invalid> {
        Vec::new()
    }

    /// Looks for what no type can tell of a value, for each key by itself. It is called even if other keys cannot be read, so that everything
    /// that is wrong can be said at once; what the definition then has for those is of no account.
    fn invalid_values(&self) -> Vec<Invalid> {
        Vec::new()
    }

    /// Looks for what no type can tell of keys that do not go together.
    ///
    /// # Errors
    /// The key that is wrong, and why.
    fn validate(&self) -> Result<(), Invalid> {
        Ok(())
    }

    /// All that is wrong: with values, and with keys that do not go together.
    fn invalid(&self) -> Vec<Invalid> {
        let mut invalid = self.invalid_values();
        let together = self.validate().err();
        let together = together.filter(|problem| invalid.iter().all(|known| known.key != problem.key));
        invalid.extend(together);
        invalid
    }
}

/// A mistake in a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The key, or `KEY.KEY` for one of a table in the definition.
    pub key: Cow<'static, str>,
    problem: String,
}

impl Invalid {
    /// All that is wrong, of results that are about a key each.
    pub fn all(results: impl IntoIterator<Item = Result<(), Invalid>>) -> Vec<Invalid> {
        results.into_iter().filter_map(Result::err).collect()
    }

    /// A key whose value cannot be, and why, in words that read after "KEY: ".
    pub fn new(key: impl Into<Cow<'static, str>>, problem: impl Into<String>) -> Invalid {
        Invalid { key: key.into(), problem: problem.into() }
    }
}

impl Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

impl std::error::Error for Invalid {}
