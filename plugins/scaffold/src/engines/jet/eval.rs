//! Renders a parsed template.

use super::values::{self, Expression, Names, Node, Operator};
use super::{EvalError, Jets, SUFFIXES, TemplateError};
use crate::engines::{MAX_RESULT, MAX_STEPS, result_too_large, too_many_steps};
use crate::template_context::{Dot, TemplateContextError};
use holo_plugin::facts::prometheus_file_sd;
use serde_json::Value;
use std::borrow::Cow;

/// Maximum depth of templates that include each other.
const MAX_INCLUDES: usize = 8;

/// A value, or all values. The latter are only assembled when they are needed.
#[derive(Clone, Debug)]
enum Item<'a> {
    Root,
    Value(Cow<'a, Value>),
}

impl Item<'_> {
    fn owned(value: Value) -> Self {
        Item::Value(Cow::Owned(value))
    }
}

/// Renders a template.
pub(super) fn render(jets: &Jets, name: &str, nodes: &[Node], dot: Dot<'_>) -> Result<String, TemplateError> {
    let mut rendering =
        Rendering { jets, name, variables: Vec::new(), text: String::new(), includes: 0, steps: 0, line: 1 };
    let dot = match dot {
        Dot::All => Item::Root,
        Dot::Value(value) => Item::owned(value.clone()),
    };
    rendering.all(nodes, &dot)?;
    Ok(rendering.text)
}

/// Returns the value of a single expression.
pub(super) fn value(jets: &Jets, expression: &Expression) -> Result<Value, EvalError> {
    let rendering =
        Rendering { jets, name: "", variables: Vec::new(), text: String::new(), includes: 0, steps: 0, line: 1 };
    Ok(rendering.value(expression, &Item::Root)?.into_owned())
}

struct Rendering<'a> {
    jets: &'a Jets,
    /// The name of the template, for error messages.
    name: &'a str,
    variables: Vec<(String, Item<'a>)>,
    text: String,
    includes: usize,
    /// The number of rendered nodes.
    steps: u64,
    /// The line of the last node that has one.
    line: usize,
}

impl<'a> Rendering<'a> {
    /// Renders nodes. Variables that the nodes declare are dropped afterwards.
    fn all(&mut self, nodes: &[Node], dot: &Item<'a>) -> Result<(), TemplateError> {
        let known = self.variables.len();
        nodes.iter().try_for_each(|node| self.one(node, dot))?;
        self.variables.truncate(known);
        Ok(())
    }

    fn one(&mut self, node: &Node, dot: &Item<'a>) -> Result<(), TemplateError> {
        if let Node::Print { line, .. }
        | Node::Assign { line, .. }
        | Node::Range { line, .. }
        | Node::Include { line, .. } = node
        {
            self.line = *line;
        }
        if let Node::If { branches, .. } = node {
            self.line = branches.first().map_or(self.line, |branch| branch.line);
        }
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(TemplateError::new(self.line, too_many_steps()));
        }
        match node {
            Node::Text(text) => self.print(text)?,
            Node::Print { line, expression } => {
                let item = self.item(expression, dot).map_err(TemplateError::at(*line))?;
                let text = written(&item).map_err(|kind| {
                    TemplateError::new(*line, format!("{} is {kind}, which has no text of its own", expression.shown()))
                })?;
                self.print(&text)?;
            }
            Node::Assign { line, name, declare, expression } => {
                let item = self.item(expression, dot).map_err(TemplateError::at(*line))?;
                match self.variables.iter_mut().rev().find(|(known, _)| known == name) {
                    Some((_, known)) if !declare => *known = item,
                    _ if *declare => self.variables.push((name.clone(), item)),
                    _ => return Err(TemplateError::new(*line, format!("{name} is undefined; := makes it"))),
                }
            }
            Node::If { branches, otherwise } => {
                for branch in branches {
                    if is_true(&self.item(&branch.condition, dot).map_err(TemplateError::at(branch.line))?) {
                        return self.all(&branch.body, dot);
                    }
                }
                self.all(otherwise, dot)?;
            }
            Node::Range { line, names, over, body, otherwise } => {
                let item = self.item(over, dot).map_err(TemplateError::at(*line))?;
                self.range(*line, names, over, item, dot, (body, otherwise))?;
            }
            Node::Include { line, name, context } => self.include(*line, name, context.as_ref(), dot)?,
        }
        Ok(())
    }

    fn print(&mut self, text: &str) -> Result<(), TemplateError> {
        if self.text.len() + text.len() > MAX_RESULT {
            return Err(TemplateError::new(self.line, result_too_large()));
        }
        self.text.push_str(text);
        Ok(())
    }

    fn range(
        &mut self,
        line: usize,
        names: &Names,
        over: &Expression,
        item: Item<'a>,
        dot: &Item<'a>,
        (body, otherwise): (&[Node], &[Node]),
    ) -> Result<(), TemplateError> {
        let cannot =
            |kind: &str| TemplateError::new(line, format!("{} is {kind}; range wants a list or a table", over.shown()));
        let items: Vec<(Value, Item<'a>)> = match item {
            Item::Root => return Err(cannot("all values there are")),
            Item::Value(Cow::Borrowed(Value::Array(list))) => {
                (0_u64..).map(Value::from).zip(list.iter().map(|value| Item::Value(Cow::Borrowed(value)))).collect()
            }
            Item::Value(Cow::Borrowed(Value::Object(table))) => {
                let entries = table.iter();
                entries.map(|(key, value)| (Value::from(key.as_str()), Item::Value(Cow::Borrowed(value)))).collect()
            }
            Item::Value(value) => match value.into_owned() {
                Value::Array(list) => (0_u64..).map(Value::from).zip(list.into_iter().map(Item::owned)).collect(),
                Value::Object(table) => {
                    table.into_iter().map(|(key, value)| (key.into(), Item::owned(value))).collect()
                }
                Value::Null => Vec::new(),
                other => return Err(cannot(values::kind(&other))),
            },
        };
        if items.is_empty() {
            return self.all(otherwise, dot);
        }
        let known = self.variables.len();
        for (key, value) in items {
            self.variables.extend(names.key.iter().map(|name| (name.clone(), Item::owned(key.clone()))));
            self.variables.extend(names.value.iter().map(|name| (name.clone(), value.clone())));
            self.all(body, if names.dot { &value } else { dot })?;
            self.variables.truncate(known);
        }
        Ok(())
    }

    fn include(
        &mut self,
        line: usize,
        name: &Expression,
        context: Option<&Expression>,
        dot: &Item<'a>,
    ) -> Result<(), TemplateError> {
        let wrong = |text: String| TemplateError::new(line, text);
        let name = match self.item(name, dot).map_err(TemplateError::at(line))? {
            Item::Value(value) if value.is_string() => value.as_str().unwrap_or_default().to_owned(),
            _ => return Err(wrong("the name of a template is a string".to_owned())),
        };
        let context = match context {
            Some(context) => self.item(context, dot).map_err(TemplateError::at(line))?,
            None => dot.clone(),
        };
        if self.includes == MAX_INCLUDES {
            return Err(wrong(format!("templates include each other deeper than {MAX_INCLUDES}")));
        }
        let text = self.jets.context.partial(&name, &SUFFIXES).map_err(|error| wrong(error.to_string()))?;
        let text = text.ok_or_else(|| wrong(format!("there is no template {name:?} in _partials")))?;
        let within = |wrong: TemplateError| TemplateError {
            place: wrong.place.or_else(|| Some(format!("_partials/{name}"))),
            ..wrong
        };
        let nodes = self.jets.parse(&text).map_err(within)?;
        self.includes += 1;
        let rendered = self.all(&nodes, &context).map_err(within);
        self.includes -= 1;
        rendered
    }

    fn value(&self, expression: &Expression, dot: &Item<'a>) -> Result<Cow<'a, Value>, EvalError> {
        match self.item(expression, dot)? {
            Item::Value(value) => Ok(value),
            Item::Root => Err(EvalError(format!(
                "{} stands for all values there are, which only render takes as one",
                expression.shown()
            ))),
        }
    }

    fn item(&self, expression: &Expression, dot: &Item<'a>) -> Result<Item<'a>, EvalError> {
        let undefined = || EvalError(format!("{} is undefined", expression.shown()));
        Ok(match expression {
            Expression::Literal(value) => Item::owned(value.clone()),
            Expression::Dot => dot.clone(),
            Expression::Variable(name) => match self.variables.iter().rev().find(|(known, _)| known == name) {
                Some((_, item)) => item.clone(),
                None => Item::Value(Cow::Borrowed(self.global(name)?.ok_or_else(undefined)?)),
            },
            Expression::Field(of, name) => match self.item(of, dot)? {
                Item::Root => Item::Value(Cow::Borrowed(self.global(name)?.ok_or_else(undefined)?)),
                Item::Value(value) => match value.as_array().filter(|_| name == "prometheus_file_sd") {
                    Some(services) => Item::owned(prometheus_file_sd(services).into()),
                    None => Item::Value(child(value, |value| value.get(name)).ok_or_else(undefined)?),
                },
            },
            Expression::Index(of, index) => {
                let index = self.value(index, dot)?;
                match self.item(of, dot)? {
                    Item::Root => {
                        let name = index.as_str().ok_or_else(undefined)?;
                        Item::Value(Cow::Borrowed(self.global(name)?.ok_or_else(undefined)?))
                    }
                    Item::Value(value) => Item::Value(at(value, &index)?),
                }
            }
            Expression::Not(of) => Item::owned((!is_true(&self.item(of, dot)?)).into()),
            Expression::Minus(of) => {
                let value = self.value(of, dot)?;
                Item::owned(values::calculate(&Value::from(0), Operator::Minus, &value)?)
            }
            Expression::Binary(left, Operator::And, right) => {
                Item::owned((is_true(&self.item(left, dot)?) && is_true(&self.item(right, dot)?)).into())
            }
            Expression::Binary(left, Operator::Or, right) => {
                Item::owned((is_true(&self.item(left, dot)?) || is_true(&self.item(right, dot)?)).into())
            }
            Expression::Binary(left, operator, right) => {
                let (left, right) = (self.value(left, dot)?, self.value(right, dot)?);
                Item::owned(values::calculate(&left, *operator, &right)?)
            }
            Expression::Choice(parts) => {
                let [condition, yes, no] = &**parts;
                self.item(if is_true(&self.item(condition, dot)?) { yes } else { no }, dot)?
            }
            Expression::Call(name, arguments) => self.call(name, arguments, dot)?,
        })
    }

    fn call(&self, name: &str, arguments: &[Expression], dot: &Item<'a>) -> Result<Item<'a>, EvalError> {
        let context = &self.jets.context;
        match (name, arguments) {
            ("isset", _) => return self.is_set(arguments, dot),
            ("lookup", _) => return self.lookup(arguments, dot),
            ("render", [path, with @ ..]) if with.len() < 2 => {
                let path = self.text_of("the path", path, dot)?;
                let with = with.first().map(|with| self.item(with, dot)).transpose()?;
                let rendered = match with {
                    None | Some(Item::Root) => context.render_file(self.jets, &path, Dot::All)?,
                    Some(Item::Value(value)) => context.render_file(self.jets, &path, Dot::Value(&value))?,
                };
                return Ok(Item::owned(rendered.into()));
            }
            ("render", _) => return Err("render wants a path, and the values for it".into()),
            ("write", [path, content]) => {
                let (path, content) =
                    (self.text_of("the path", path, dot)?, self.text_of("the content", content, dot)?);
                context.write(self.name, &path, &content)?;
                return Ok(Item::owned("".into()));
            }
            ("write", _) => return Err("write wants a path and its content".into()),
            ("registrations", wanted) => {
                let wanted = wanted.iter().map(|wanted| self.text_of("a name", wanted, dot));
                let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
                let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
                return Ok(Item::owned(context.registrations(&wanted)?));
            }
            ("readFile" | "file", [path]) => {
                return Ok(Item::owned(context.read_file(&self.text_of("the path", path, dot)?)?.into()));
            }
            ("readFile" | "file", _) => return Err(EvalError(format!("{name} wants a path"))),
            ("template", [text]) => {
                let text = self.text_of("the template", text, dot)?;
                return Ok(Item::owned(context.render_in("go", None, &text)?.into()));
            }
            ("template", _) => return Err("template wants a text, or the name of a file".into()),
            _ => {}
        }
        let values = arguments.iter().map(|argument| self.value(argument, dot)).collect::<Result<Vec<_>, _>>()?;
        values::call_function(name, &values).map(Item::owned)
    }

    /// Returns true if all arguments are defined.
    fn is_set(&self, arguments: &[Expression], dot: &Item<'a>) -> Result<Item<'a>, EvalError> {
        for argument in arguments {
            let mut inner = argument;
            while let Expression::Field(of, _) | Expression::Index(of, _) = inner {
                inner = of;
            }
            match inner {
                // Data that cannot be read are an error, and not undefined.
                Expression::Variable(name) => drop(self.global(name)?),
                Expression::Dot => {}
                _ => return Err("isset wants names".into()),
            }
            if self.item(argument, dot).is_err() {
                return Ok(Item::owned(false.into()));
            }
        }
        Ok(Item::owned(true.into()))
    }

    /// Returns the value for a key of the data, or the default if there is no such key.
    fn lookup(&self, arguments: &[Expression], dot: &Item<'a>) -> Result<Item<'a>, EvalError> {
        let [wanted, default @ ..] = arguments else { return Err("lookup wants a key".into()) };
        if default.len() > 1 {
            return Err("lookup wants a key, and what counts if there is nothing".into());
        }
        let wanted = self.text_of("the key", wanted, dot)?;
        // The default is not evaluated unless it is needed.
        match (self.jets.context.lookup(&wanted, None), default.first()) {
            (Err(TemplateContextError::Missing(_)), Some(default)) => self.item(default, dot),
            (found, _) => Ok(Item::owned(found?)),
        }
    }

    fn text_of(&self, what: &str, expression: &Expression, dot: &Item<'a>) -> Result<String, EvalError> {
        let value = self.value(expression, dot)?;
        value
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| EvalError(format!("{what} is a string, and not {}", values::kind(&value))))
    }

    /// Returns a predefined variable.
    fn global(&self, name: &str) -> Result<Option<&'a Value>, EvalError> {
        Ok(self.jets.context.global(name)?)
    }
}

/// Returns a part of a value, borrowed if the value is.
fn child<'a>(value: Cow<'a, Value>, find: impl Fn(&Value) -> Option<&Value>) -> Option<Cow<'a, Value>> {
    match value {
        Cow::Borrowed(value) => find(value).map(Cow::Borrowed),
        Cow::Owned(value) => find(&value).cloned().map(Cow::Owned),
    }
}

/// Returns the list item at an index, or the table entry for a key.
fn at<'a>(value: Cow<'a, Value>, index: &Value) -> Result<Cow<'a, Value>, EvalError> {
    let kind = values::kind(&value);
    let found = match index {
        Value::String(key) if value.is_object() => child(value, |value| value.get(key)),
        Value::Number(number) if value.is_array() => {
            child(value, |value| number.as_u64().and_then(|index| value.get(usize::try_from(index).ok()?)))
        }
        _ => return Err(EvalError(format!("{kind} has nothing at {index}"))),
    };
    found.ok_or_else(|| EvalError(format!("{kind} has nothing at {index}")))
}

/// Returns true if the item is neither false, 0, empty nor null.
fn is_true(item: &Item<'_>) -> bool {
    match item {
        Item::Root => true,
        Item::Value(value) => match &**value {
            Value::Null => false,
            Value::Bool(truth) => *truth,
            Value::Number(number) => number.as_f64() != Some(0.0),
            Value::String(text) => !text.is_empty(),
            Value::Array(list) => !list.is_empty(),
            Value::Object(table) => !table.is_empty(),
        },
    }
}

/// Returns the text of a value, or the kind of a value that cannot be printed.
fn written(item: &Item<'_>) -> Result<String, &'static str> {
    match item {
        Item::Root => Err("all values there are"),
        Item::Value(value) => values::text(value),
    }
}
