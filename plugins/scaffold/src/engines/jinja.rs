//! The language Jinja, which is also that of templates in facts and data.

use crate::engines::{Engine, Form};
use crate::template_context::{Dot, Render, TemplateContext, TemplateContextError};
use holo_plugin::Host;
use holo_plugin::facts::{FunctionError, LocatedError, Templates};
use holo_plugin::provider::Provider;
use serde_json::Value;
use std::io;
use std::sync::Arc;

/// Jinja.
pub(super) struct Jinja;

const SUFFIXES: [&str; 2] = [".jinja", ".j2"];

impl Provider for Jinja {
    fn name(&self) -> &'static str {
        "jinja"
    }

    fn rank(&self, _: &Host) -> Option<u8> {
        Some(1)
    }
}

impl Engine for Jinja {
    fn suffixes(&self) -> &'static [&'static str] {
        &SUFFIXES
    }

    fn has_blocks(&self) -> bool {
        true
    }

    fn renderer(&self, context: Arc<TemplateContext>, form: &Form) -> Result<Box<dyn Render>, LocatedError> {
        let mut templates = context.knowledge().templates();
        if let Some([open, close]) = &form.delimiters {
            templates = templates.with_delimiters(open, close)?;
        }
        templates = templates.with_trimmed_blocks(form.trim_blocks, form.lstrip_blocks)?;
        // The templates already provide facts and data.
        for name in TemplateContext::GLOBALS.into_iter().filter(|name| !["facts", "data"].contains(name)) {
            let context = Arc::clone(&context);
            templates = templates.with_value(name, move || Ok(context.global(name)?.cloned().unwrap_or_default()));
        }
        for (name, call) in FUNCTIONS {
            let (context, form) = (Arc::clone(&context), form.clone());
            templates = templates.with_function(name, move |by, arguments| call(&context, &form, by, arguments));
        }
        Ok(Box::new(templates.with_partials(move |name| context.partial(name, &SUFFIXES).map_err(io::Error::other))))
    }
}

type Call = fn(&Arc<TemplateContext>, &Form, &str, &[Value]) -> Result<Value, FunctionError>;

const FUNCTIONS: [(&str, Call); 6] = [
    ("lookup", |context, _, _, arguments| match arguments {
        [Value::String(key)] => context.lookup(key, None).map_err(words),
        [Value::String(key), default] => context.lookup(key, Some(default.clone())).map_err(words),
        _ => Err("a key is wanted, and what counts if there is nothing".into()),
    }),
    ("readFile", read_file),
    ("file", read_file),
    ("render", |context, form, _, arguments| {
        let (path, dot) = match arguments {
            [Value::String(path)] => (path, Dot::All),
            [Value::String(path), values] => (path, Dot::Value(values)),
            _ => return Err("a path is wanted, and values for it".into()),
        };
        let engine = Jinja.renderer(Arc::clone(context), form).map_err(|error| FunctionError(error.to_string()))?;
        Ok(context.render_file(&*engine, path, dot).map_err(words)?.into())
    }),
    ("write", |context, _, by, arguments| match arguments {
        [Value::String(path), Value::String(content)] => {
            context.write(by, path, content).map_err(words)?;
            Ok("".into())
        }
        _ => Err("a path and its content are wanted".into()),
    }),
    ("template", |context, _, _, arguments| match arguments {
        [Value::String(text)] => Ok(context.render_in("go", None, text).map_err(words)?.into()),
        _ => Err("a text or the name of a file is wanted".into()),
    }),
];

fn read_file(context: &Arc<TemplateContext>, _: &Form, _: &str, arguments: &[Value]) -> Result<Value, FunctionError> {
    match arguments {
        [Value::String(path)] => Ok(context.read_file(path).map_err(words)?.into()),
        _ => Err("a path is wanted".into()),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "this is for map_err")]
fn words(error: TemplateContextError) -> FunctionError {
    FunctionError(error.to_string())
}

impl Render for Templates {
    fn render(&self, name: &str, text: &str, dot: Dot<'_>) -> Result<String, LocatedError> {
        match dot {
            Dot::Value(Value::Object(table)) => Templates::render(self, name, text, table),
            Dot::Value(_) => Err(LocatedError::new(name, "the values for a template are a table")),
            Dot::All => Templates::render(self, name, text, &serde_json::Map::new()),
        }
    }
}
