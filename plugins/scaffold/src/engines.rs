//! The interface to template languages, and the languages, one module each.

mod go;
pub(crate) mod jet;
mod jinja;
#[cfg(test)]
mod tests;

use crate::template_context::{Render, TemplateContext};
use holo_plugin::facts::LocatedError;
use holo_plugin::provider::{Provider, Providers};
use serde::de::{EnumAccess, Error, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::sync::{Arc, LazyLock};

/// Maximum size of the result of a template, in bytes. All limits are those of Jinja.
pub(crate) const MAX_RESULT: usize = 16 << 20;
/// Maximum size of a text, or of all texts in a list or table, in bytes.
pub(crate) const MAX_VALUE: usize = 8 << 20;
/// Maximum number of actions that are executed for a template.
pub(crate) const MAX_STEPS: u64 = if cfg!(test) { 100_000 } else { 5_000_000 };

/// Returns the message for a template that executes more than [`MAX_STEPS`].
pub(crate) fn too_many_steps() -> String {
    format!("it needs more than {MAX_STEPS} steps; is there an endless loop?")
}

/// Returns the message for a result of more than [`MAX_RESULT`].
pub(crate) fn result_too_large() -> String {
    format!("the result exceeds the limit of {} MiB", MAX_RESULT >> 20)
}

/// All languages, the default first.
static ALL: Providers<dyn Engine> = Providers::new(&[&jinja::Jinja, &go::Go, &jet::Jet]);

static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| ALL.iter().map(Provider::name).collect());

/// Returns a renderer for the language of this name, or `None` if there is no such language.
pub(crate) fn renderer(
    name: &str,
    context: Arc<TemplateContext>,
    delimiters: Option<&[String; 2]>,
) -> Option<Result<Box<dyn Render>, LocatedError>> {
    let form = Form { delimiters: delimiters.cloned(), ..Form::default() };
    Some(ALL.named(name).ok()?.renderer(context, &form))
}

/// The language that a definition names.
#[derive(Clone, Copy)]
pub(crate) struct Language(pub(crate) &'static dyn Engine);

impl Default for Language {
    fn default() -> Language {
        Language(&jinja::Jinja)
    }
}

impl fmt::Debug for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

impl<'de> Deserialize<'de> for Language {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Language, D::Error> {
        deserializer.deserialize_enum("Language", &NAMES, LanguageVisitor)
    }
}

struct LanguageVisitor;

impl<'de> Visitor<'de> for LanguageVisitor {
    type Value = Language;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of an engine")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Language, A::Error> {
        let (name, _) = data.variant::<String>()?;
        ALL.named(&name).map(Language).map_err(|_| A::Error::unknown_variant(&name, &NAMES))
    }
}

#[cfg(test)]
impl schemars::JsonSchema for Language {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Language".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "description": "The language of templates.", "enum": *NAMES })
    }
}

/// The syntax options of a scaffold's templates, as specified by its definition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Form {
    /// The delimiters of values, if they are not the default ones.
    pub(crate) delimiters: Option<[String; 2]>,
    /// True if the newline after a block is removed.
    pub(crate) trim_blocks: bool,
    /// True if the white space before a block at the start of a line is removed.
    pub(crate) lstrip_blocks: bool,
}

/// A template language.
pub(crate) trait Engine: Provider {
    /// Returns the suffixes that are removed from the names of templates.
    fn suffixes(&self) -> &'static [&'static str];

    /// Returns true if the language distinguishes blocks from values, so that the white space around blocks can be
    /// removed.
    fn has_blocks(&self) -> bool {
        false
    }

    /// Returns the renderer for the templates of one scaffold.
    ///
    /// # Errors
    /// If the delimiters are not valid.
    fn renderer(&self, context: Arc<TemplateContext>, form: &Form) -> Result<Box<dyn Render>, LocatedError>;
}
