//! Renders a directory of templates into a tree of files in memory.

use crate::definition::ScaffoldDefinition;
use crate::engines;
use crate::error::{Result, ScaffoldError};
use crate::expressions;
use crate::source::{Entry, Item, Source};
use crate::template_context::{Dot, Render, TemplateContext};
use bstr::ByteSlice;
use holo_plugin::Host;
use holo_plugin::facts::{self, Knowledge};
use holo_plugin::origins::{TemplateText, Traced};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The rendered items by their paths below the target, without the target itself.
pub(crate) type Rendered = BTreeMap<PathBuf, Item>;

/// Renders all templates in memory. Returns the items and the warnings.
pub(crate) fn render(definition: &ScaffoldDefinition, file: &Path, host: &Host) -> Result<(Rendered, Vec<String>)> {
    let rendered = render_with(host.knowledge(), definition, (file, host), &mut |_, _| {});
    let Some(disguised) = host.knowledge().disguised() else {
        return rendered.map(|(rendered, context)| (rendered, context.take_warnings()));
    };
    let others = render_with(disguised, definition, (file, host), &mut |_, _| {});
    match (rendered, others) {
        (Ok((mut rendered, context)), Err(_)) => {
            hide(&mut rendered, |_, _| true);
            Ok((rendered, context.take_warnings()))
        }
        (Ok((mut rendered, context)), Ok((others, _))) => {
            if rendered.keys().ne(others.keys()) {
                let problem = "the names of its files depend on a value that is encrypted in data, and would be shown";
                return Err(ScaffoldError::Never(problem.to_owned()));
            }
            hide(
                &mut rendered,
                |path, bytes| !matches!(others.get(path), Some(Item::File { bytes: other, .. }) if other == bytes),
            );
            Ok((rendered, context.take_warnings()))
        }
        (Err(error), Err(other)) if error == other => Err(error),
        (Err(_), _) => {
            let problem = "the templates cannot be rendered; the reason is about a value that is encrypted in data";
            Err(ScaffoldError::Never(problem.to_owned()))
        }
    }
}

/// Marks files whose content must not be displayed.
fn hide(rendered: &mut Rendered, is_meant: impl Fn(&Path, &[u8]) -> bool) {
    for (path, item) in rendered {
        if let Item::File { bytes, sensitive, .. } = item {
            *sensitive = is_meant(path, bytes);
        }
    }
}

/// Renders all templates, and traces the lines of the file at a path below the target to their origins. Returns `None`
/// if there is no such file.
pub(crate) fn trace(
    definition: &ScaffoldDefinition,
    (file, host): (&Path, &Host),
    wanted: &Path,
) -> Result<Option<Traced>> {
    let mut template = None;
    let (rendered, context) = render_with(host.knowledge(), definition, (file, host), &mut |path, entry| {
        if path == wanted
            && let Item::File { bytes, .. } = &entry.item
        {
            template = Some(TemplateText { path: entry.shown.clone(), text: bytes.clone() });
        }
    })?;
    let (Some(template), Some(Item::File { bytes, .. })) = (template, rendered.get(wanted)) else { return Ok(None) };
    if render(definition, file, host)?.0.get(wanted).is_none_or(Item::is_sensitive) {
        return Ok(None);
    }
    let delimiters = definition.delimiters.as_ref().map(|[open, close]| (open.as_str(), close.as_str()));
    Ok(Some(template.trace(&context.take_included(), delimiters, bytes.clone())))
}

/// Renders all templates. Calls `observe` for each entry of the source with its path below the target, before its
/// content is rendered.
fn render_with(
    knowledge: &Knowledge,
    definition: &ScaffoldDefinition,
    (file, host): (&Path, &Host),
    observe: &mut dyn FnMut(&Path, &Entry),
) -> Result<(Rendered, Arc<TemplateContext>)> {
    let source = Source::open(definition.source(), definition.ignore.as_deref(), host)?;
    let context = context(knowledge, definition, file, &source, host)?;
    let engine = definition.engine.0.renderer(Arc::clone(&context), &definition.form())?;
    let mut rendered = Vec::new();
    let is_opened = || context.knowledge().take_unopened().map_or(Ok(()), Err);
    // The paths of the source's directories in the target, or `None` if the directory is omitted.
    let mut directories = BTreeMap::from([(PathBuf::new(), Some(PathBuf::new()))]);
    let mut made_of: HashMap<PathBuf, PathBuf> = HashMap::new();
    for entry in source.entries(host.jobs())? {
        let parent = entry.path.parent().unwrap_or(Path::new(""));
        let Some(Some(folder)) = directories.get(parent) else { continue };
        let path = name(&entry, definition, &*engine);
        is_opened()?;
        let path = path?.map(|name| folder.join(name));
        if matches!(entry.item, Item::Directory) {
            directories.insert(entry.path.clone(), path.clone());
        }
        let Some(path) = path else { continue };
        observe(&path, &entry);
        let item = content(entry.item, &entry.shown, definition, &*engine);
        is_opened()?;
        let Some(item) = item? else { continue };
        if let Some(other) = made_of.insert(path.clone(), entry.shown.clone()) {
            let (one, other) = (entry.shown.display(), other.display());
            return Err(ScaffoldError::Never(format!("{other} and {one} both become {}", path.display())));
        }
        rendered.push((path, item));
    }
    // They are nearly always sorted already.
    let mut rendered = Rendered::from_iter(rendered);
    add_written(&mut rendered, &made_of, &context)?;
    if definition.skip_empty {
        leave_out_empty_directories(&mut rendered);
    }
    Ok((rendered, context))
}

/// Returns the values and files that templates can access. The definition's own data have its file, as displayed to the
/// user, as their origin.
fn context(
    knowledge: &Knowledge,
    definition: &ScaffoldDefinition,
    file: &Path,
    source: &Source,
    host: &Host,
) -> Result<Arc<TemplateContext>> {
    let mut knowledge = knowledge.clone();
    if !definition.data.is_empty() {
        let shown = format!("{}: data", file.display());
        let own = facts::from_toml(&shown, definition.data.clone())?;
        let context = Arc::new(TemplateContext::new(knowledge.clone(), source.files(host)?, engines::renderer));
        let own = expressions::evaluate(&shown, own, &context)?;
        knowledge =
            if definition.data_merge { knowledge.with_layer(file, own) } else { knowledge.with_data(file, own) };
    }
    Ok(Arc::new(TemplateContext::new(knowledge, source.files(host)?, engines::renderer)))
}

/// Adds the files that templates have written, with their directories.
fn add_written(rendered: &mut Rendered, made_of: &HashMap<PathBuf, PathBuf>, context: &TemplateContext) -> Result<()> {
    for (path, written) in context.take_written() {
        if let Some(other) = made_of.get(&path) {
            let (other, path) = (other.display(), path.display());
            return Err(ScaffoldError::Never(format!("{} writes {path}, which {other} becomes", written.by)));
        }
        for directory in path.ancestors().skip(1).filter(|directory| !directory.as_os_str().is_empty()) {
            match rendered.entry(directory.to_owned()).or_insert(Item::Directory) {
                Item::Directory => {}
                _ => {
                    let (path, directory) = (path.display(), directory.display());
                    let problem = format!("{} writes {path}, and {directory} is not a directory", written.by);
                    return Err(ScaffoldError::Never(problem));
                }
            }
        }
        rendered.insert(path, Item::File { bytes: written.content.into_bytes(), executable: false, sensitive: false });
    }
    Ok(())
}

/// Returns the name of an entry in the target, or `None` if its name is rendered to an empty text.
fn name(entry: &Entry, definition: &ScaffoldDefinition, engine: &dyn Render) -> Result<Option<OsString>> {
    let raw = entry.path.file_name().unwrap_or_default();
    let suffixes = definition.engine.0.suffixes().iter().filter(|_| matches!(entry.item, Item::File { .. }));
    let without = |suffix: &&str| raw.as_bytes().strip_suffix(suffix.as_bytes()).filter(|name| !name.is_empty());
    let raw = suffixes.filter_map(without).next().map_or(raw, OsStr::from_bytes);
    // A name that is not valid UTF-8 is not a template.
    let Some(text) = raw.to_str() else { return Ok(Some(raw.to_owned())) };
    let rendered = engine.render(&format!("name of {}", entry.shown.display()), text, Dot::All)?;
    match rendered.as_str() {
        "" => Ok(None),
        "." | ".." => Err(wrong_name(entry, &rendered)),
        _ if rendered.contains(|letter: char| letter == '/' || letter.is_control()) => {
            Err(wrong_name(entry, &rendered))
        }
        _ => Ok(Some(OsString::from_vec(rendered.into_bytes()))),
    }
}

fn wrong_name(entry: &Entry, rendered: &str) -> ScaffoldError {
    ScaffoldError::Never(format!(
        "the name of {} becomes {rendered:?}, which is not a valid file name",
        entry.shown.display()
    ))
}

/// Renders an item. Returns `None` if it is omitted.
fn content(item: Item, shown: &Path, definition: &ScaffoldDefinition, engine: &dyn Render) -> Result<Option<Item>> {
    let Item::File { mut bytes, executable, sensitive } = item else { return Ok(Some(item)) };
    // A binary file is copied.
    if !bytes.contains(&0)
        && let Ok(text) = bytes.to_str()
    {
        bytes = engine.render(&shown.display().to_string(), text, Dot::All)?.into_bytes();
    }
    if definition.skip_empty && bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    Ok(Some(Item::File { bytes, executable, sensitive }))
}

fn leave_out_empty_directories(rendered: &mut Rendered) {
    let full: Vec<PathBuf> =
        rendered.iter().filter(|(_, item)| !matches!(item, Item::Directory)).map(|(path, _)| path.clone()).collect();
    rendered.retain(|path, item| {
        !matches!(item, Item::Directory) || {
            let after = full.partition_point(|other| other < path);
            full.get(after).is_some_and(|other| other.starts_with(path))
        }
    });
}
