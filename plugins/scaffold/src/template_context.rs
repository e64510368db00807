//! The values and files that templates can access, in all languages.

use crate::source::{Files, Partial};
use holo_plugin::facts::key::{self, KeyError};
use holo_plugin::facts::{Knowledge, LocatedError};
use holo_plugin::origins::TemplateText;
use holo_plugin::reason;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Maximum number of templates that render each other.
const MAX_CHAIN: usize = 10;

/// A function that returns a renderer for the language of this name, or `None` if there is no such language.
pub(crate) type FindRenderer =
    fn(&str, Arc<TemplateContext>, Option<&[String; 2]>) -> Option<Result<Box<dyn Render>, LocatedError>>;

/// The facts, data, environment and files that the templates of one scaffold can access, and the files that they write.
pub(crate) struct TemplateContext {
    knowledge: Knowledge,
    files: Files,
    renderers: FindRenderer,
    environment: OnceLock<Value>,
    /// All data, with the encrypted values opened.
    data: OnceLock<Result<Value, LocatedError>>,
    /// The templates that are being rendered by other templates, the outermost first.
    chain: Mutex<Vec<String>>,
    written: Mutex<BTreeMap<PathBuf, Written>>,
    /// The files that templates have included.
    included: Mutex<Vec<TemplateText>>,
    warnings: Mutex<Vec<String>>,
}

/// A file that a template writes.
#[derive(Debug)]
pub(crate) struct Written {
    /// The name of the template.
    pub(crate) by: String,
    /// The content of the file.
    pub(crate) content: String,
}

/// The reason why a request of a template fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TemplateContextError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Located(#[from] LocatedError),
    #[error("there is nothing at {}", key::shown(.0))]
    Missing(String),
    #[error("lookup {0:?}: queries and modifiers are not supported, only keys, numbers, and # for how many there are")]
    Query(String),
    #[error("{0}: {reason}", reason = reason(.1))]
    File(String, io::Error),
    #[error("there is no file {0}")]
    NoFile(String),
    #[error("templates render each other more than {MAX_CHAIN} times: {0}")]
    TooDeep(String),
    #[error("write {0:?}: this is not a path below the target")]
    Outside(String),
    #[error("{0} and {1} both write {2}")]
    WrittenTwice(String, String, String),
    #[error("registrations takes cluster, protocol, service and address, each a name or \"*\"")]
    Registrations,
    #[error("there is no language {0}")]
    NoLanguage(String),
}

impl TemplateContext {
    pub(crate) fn new(knowledge: Knowledge, files: Files, renderers: FindRenderer) -> TemplateContext {
        TemplateContext {
            knowledge,
            files,
            renderers,
            environment: OnceLock::new(),
            data: OnceLock::new(),
            chain: Mutex::default(),
            written: Mutex::default(),
            included: Mutex::default(),
            warnings: Mutex::default(),
        }
    }

    pub(crate) fn knowledge(&self) -> &Knowledge {
        &self.knowledge
    }

    /// Returns the predefined variable of this name, if there is one.
    pub(crate) fn global(&self, name: &str) -> Result<Option<&Value>, LocatedError> {
        Ok(match name {
            "facts" | "Facts" => Some(self.knowledge.facts().value()),
            "data" | "Data" => Some(self.data()?),
            "environ" | "Environ" => {
                self.knowledge.note_use();
                Some(self.environment.get_or_init(environment))
            }
            _ => None,
        })
    }

    /// The names of all predefined variables.
    pub(crate) const GLOBALS: [&'static str; 6] = ["facts", "Facts", "data", "Data", "environ", "Environ"];

    /// Returns the value at a key that begins with `facts`, `data` or `environ`; any other key is one of the data. The
    /// default is used if there is no such value.
    pub(crate) fn lookup(&self, key: &str, default: Option<Value>) -> Result<Value, TemplateContextError> {
        self.find(key)?.or(default).ok_or_else(|| TemplateContextError::Missing(key.to_owned()))
    }

    fn find(&self, key: &str) -> Result<Option<Value>, TemplateContextError> {
        let (key, counts) = match key.strip_suffix(".#") {
            Some(key) => (key, true),
            None => (key, false),
        };
        if is_query(key) {
            return Err(TemplateContextError::Query(key.to_owned()));
        }
        let (first, rest) = key.split_once('.').unwrap_or((key, ""));
        if matches!(first, "data" | "Data") && !rest.is_empty() {
            return self.find_data(rest, counts);
        }
        let found = match self.global(first)? {
            Some(value) if rest.is_empty() => Some(value),
            Some(value) => key::find(value, rest)?,
            None => return self.find_data(key, counts),
        };
        Ok(counted(found, counts))
    }

    /// Returns the value at a key of the data. Encrypted values at other keys are not opened.
    fn find_data(&self, key: &str, counts: bool) -> Result<Option<Value>, TemplateContextError> {
        let data = self.knowledge.data()?;
        let found = key::find(data.sealed(), key)?.map(|value| data.open(key, value)).transpose()?;
        Ok(counted(found.as_ref(), counts))
    }

    fn data(&self) -> Result<&Value, LocatedError> {
        let open = || {
            let data = self.knowledge.data()?;
            data.open("", data.sealed())
        };
        self.data.get_or_init(open).as_ref().map_err(Clone::clone)
    }

    /// Returns the services in the registry of the fleet with these values of cluster, protocol, service and address.
    pub(crate) fn registrations(&self, wanted: &[&str]) -> Result<Value, TemplateContextError> {
        if wanted.len() > 4 {
            return Err(TemplateContextError::Registrations);
        }
        Ok(Value::Array(self.knowledge.registrations(wanted)?))
    }

    /// Returns the text of a file below the source directory, or at an absolute path.
    pub(crate) fn read_file(&self, path: &str) -> Result<String, TemplateContextError> {
        if Path::new(path).is_absolute() {
            // The witnesses are only those of the source.
            self.knowledge.note_use();
        }
        let read = self.files.read(path).map_err(|error| TemplateContextError::File(path.to_owned(), error))?;
        read.map(|partial| self.take_in(partial)).ok_or_else(|| TemplateContextError::NoFile(path.to_owned()))
    }

    /// Returns the text of a template that other templates include by name.
    pub(crate) fn partial(&self, name: &str, suffixes: &[&str]) -> Result<Option<String>, TemplateContextError> {
        let found =
            self.files.partial(name, suffixes).map_err(|error| TemplateContextError::File(name.to_owned(), error))?;
        Ok(found.map(|partial| self.take_in(partial)))
    }

    fn take_in(&self, Partial { shown, text }: Partial) -> String {
        let mut included = lock(&self.included);
        if included.iter().all(|known| known.path != shown) {
            included.push(TemplateText { path: shown, text: text.clone().into() });
        }
        text
    }

    /// Returns the files that templates have included since the last call.
    pub(crate) fn take_included(&self) -> Vec<TemplateText> {
        std::mem::take(&mut *lock(&self.included))
    }

    /// Renders a file of the source directory.
    pub(crate) fn render_file(
        &self,
        engine: &dyn Render,
        path: &str,
        dot: Dot<'_>,
    ) -> Result<String, TemplateContextError> {
        let text = self.read_file(path)?;
        self.render_text(engine, path, &text, dot)
    }

    /// Renders a text, on behalf of another template.
    pub(crate) fn render_text(
        &self,
        engine: &dyn Render,
        name: &str,
        text: &str,
        dot: Dot<'_>,
    ) -> Result<String, TemplateContextError> {
        {
            let mut chain = lock(&self.chain);
            if chain.len() == MAX_CHAIN {
                return Err(TemplateContextError::TooDeep(chain.join(", ")));
            }
            chain.push(name.to_owned());
        }
        let rendered = engine.render(name, text, dot);
        lock(&self.chain).pop();
        Ok(rendered?)
    }

    /// Renders a text in a language. If the text is the name of a template file, that file is rendered.
    pub(crate) fn render_in(
        self: &Arc<TemplateContext>,
        language: &str,
        delimiters: Option<&[String; 2]>,
        text: &str,
    ) -> Result<String, TemplateContextError> {
        let (language, named) = match text.rsplit_once('.') {
            Some((_, "jet")) => ("jet", true),
            Some((_, "templ")) => (language, true),
            _ => (language, false),
        };
        let engine = (self.renderers)(language, Arc::clone(self), delimiters);
        let engine = engine.ok_or_else(|| TemplateContextError::NoLanguage(language.to_owned()))??;
        if named && !text.contains('\n') {
            return self.render_file(&*engine, text, Dot::All);
        }
        self.render_text(&*engine, &format!("a text for {language}"), text, Dot::All)
    }

    /// Adds a file to the target.
    pub(crate) fn write(&self, by: &str, path: &str, content: &str) -> Result<(), TemplateContextError> {
        let name = Path::new(path);
        if path.is_empty()
            || path.contains(char::is_control)
            || !name.components().all(|part| matches!(part, Component::Normal(_)))
        {
            return Err(TemplateContextError::Outside(path.to_owned()));
        }
        let name: PathBuf = name.components().collect();
        let mut written = lock(&self.written);
        if let Some(other) = written.get(&name) {
            return Err(TemplateContextError::WrittenTwice(other.by.clone(), by.to_owned(), path.to_owned()));
        }
        written.insert(name, Written { by: by.to_owned(), content: content.to_owned() });
        Ok(())
    }

    /// Returns the files that templates have written since the last call, by their paths below the target.
    pub(crate) fn take_written(&self) -> BTreeMap<PathBuf, Written> {
        std::mem::take(&mut *lock(&self.written))
    }

    /// Adds a warning, unless it was added before.
    pub(crate) fn warn(&self, text: String) {
        let mut warnings = lock(&self.warnings);
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// Returns the warnings since the last call.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.warnings))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a value, or its number of items if that is requested.
fn counted(found: Option<&Value>, counts: bool) -> Option<Value> {
    match found {
        Some(Value::Array(list)) if counts => Some(list.len().into()),
        Some(_) if counts => None,
        found => found.cloned(),
    }
}

/// Returns the environment without the variables of this run, whose values differ between runs.
fn environment() -> Value {
    let variables = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let variables = variables.filter(|(name, _)| !name.starts_with("HOLO_"));
    variables.map(|(name, value)| (name, Value::from(value.to_string_lossy()))).collect::<Map<_, _>>().into()
}

/// Returns true if a key contains unquoted query characters of the path language of the similar program, which select
/// more than one value.
fn is_query(key: &str) -> bool {
    let mut quoted = false;
    let mut letters = key.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => quoted = !quoted,
            '\\' if quoted => drop(letters.next()),
            '*' | '?' | '|' | '#' | '(' | ')' | '[' | ']' | '{' | '}' | '@' | '!' | '\\' if !quoted => return true,
            _ => {}
        }
    }
    false
}

/// The delimiters of expressions.
pub(crate) const DELIMITERS: [(&str, &str); 2] = [("{{", "}}"), ("${", "}")];

/// Renders templates.
pub(crate) trait Render {
    /// Renders a template once. The name is for error messages.
    ///
    /// # Errors
    /// The mistake, with the name of the template and its line.
    fn render(&self, name: &str, text: &str, dot: Dot<'_>) -> Result<String, LocatedError>;
}

/// The value of `.` in a template.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Dot<'a> {
    /// All values: facts, data and environment.
    All,
    /// The value that is passed by another template.
    Value(&'a Value),
}
