//! The language of Go's `text/template`, implemented by the crate gotmpl, with functions of Sprig and the functions
//! that all engines provide.
//!
//! [`values`] prints values, and [`tree`] prepares the parsed templates: it records the lines for error messages, and
//! reports unknown functions early. A template never renders to a different text than in Go; an unsupported one is an
//! error. `tests/it/go.rs` compares both.

mod functions;
mod limits;
mod sprig;
mod tree;
mod values;

use crate::engines::{Engine, Form};
use crate::template_context::{Dot, Render, TemplateContext};
use gotmpl::{MissingKey, Template, TemplateError, Value};
use holo_plugin::Host;
use holo_plugin::facts::LocatedError;
use holo_plugin::provider::Provider;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Go's `text/template`.
pub(super) struct Go;

impl Provider for Go {
    fn name(&self) -> &'static str {
        "go"
    }

    fn rank(&self, _: &Host) -> Option<u8> {
        Some(1)
    }
}

const SUFFIXES: [&str; 2] = [".tmpl", ".gotmpl"];

impl Engine for Go {
    fn suffixes(&self) -> &'static [&'static str] {
        &SUFFIXES
    }

    fn renderer(&self, context: Arc<TemplateContext>, form: &Form) -> Result<Box<dyn Render>, LocatedError> {
        let own = || ["{{".to_owned(), "}}".to_owned()];
        let all = Arc::default();
        Ok(Box::new(Templates { context, delimiters: form.delimiters.clone().unwrap_or_else(own), all }))
    }
}

/// Renders templates.
#[derive(Clone)]
struct Templates {
    context: Arc<TemplateContext>,
    delimiters: [String; 2],
    /// All values, once they have been requested.
    all: Arc<OnceLock<Value>>,
}

/// The template and line of the action that is being rendered.
type Place = Arc<Mutex<(Arc<str>, usize)>>;

impl Render for Templates {
    fn render(&self, name: &str, text: &str, dot: Dot<'_>) -> Result<String, LocatedError> {
        let [open, close] = &self.delimiters;
        if !text.contains(open.as_str()) {
            return Ok(text.to_owned());
        }
        let dot = match dot {
            Dot::All => self.all()?,
            Dot::Value(value) => values::of_json(value),
        };
        let place: Place = Arc::new(Mutex::new((name.into(), 1)));
        let functions = functions::all(self, name, &place);
        let mut template = Template::new(name).delims(open, close).missing_key(MissingKey::Error).funcs(functions);
        for (of, tree) in tree::all(self, name, text)? {
            template = template.add_parse_tree(&of, tree);
        }
        let mut rendered = limits::Rendered::default();
        template.execute_template_fmt(&mut rendered, name, &dot).map_err(|error| {
            let (name, line) = place.lock().unwrap_or_else(PoisonError::into_inner).clone();
            LocatedError::new(name, words(&error)).at(Some(line))
        })?;
        Ok(rendered.text())
    }
}

impl Templates {
    fn all(&self) -> Result<Value, LocatedError> {
        if let Some(all) = self.all.get() {
            return Ok(all.clone());
        }
        let mut globals = std::collections::BTreeMap::new();
        for name in TemplateContext::GLOBALS {
            if let Some(value) = self.context.global(name)? {
                globals.insert(Arc::from(name), values::of_json(value));
            }
        }
        Ok(self.all.get_or_init(|| Value::Map(Arc::new(globals))).clone())
    }
}

/// Returns the text of an error without its position, which is reported separately.
fn words(error: &TemplateError) -> String {
    match error {
        TemplateError::Parse { message, .. } | TemplateError::Lex { message, .. } | TemplateError::Exec(message) => {
            message.clone()
        }
        TemplateError::Write => super::result_too_large(),
        TemplateError::MissingKey { key } => format!("there is no {key}"),
        other => other.to_string(),
    }
}
