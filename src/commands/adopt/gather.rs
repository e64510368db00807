//! Requests the resource files of an entity or path from plugins, and verifies adopted ones before they are written: the plugins scan and
//! check them.

use super::Request;
use crate::discovery::inventory::Inventory;
use crate::entities::node::PluginIndex;
use crate::error::FatalError;
use crate::host::interrupt::Interrupt;
use crate::plugin::{Adopted, OperationError, PluginError};
use crate::report::{Remarks, Reporter};
use bstr::{BString, ByteSlice};
use holo_process::Program;
use holo_protocol::Adoption;
use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// The answer to a request.
pub(super) enum Gathered {
    /// No plugin recognises it.
    Unknown,
    /// It has no manual changes.
    Unchanged,
    /// It cannot be adopted; the reason has been reported.
    Failed,
    Resources(Resources),
}

/// The resource files of an adopted entity.
pub(super) struct Resources {
    /// The ID of the plugin.
    pub(super) plugin: String,
    /// The definition; empty if there is none.
    pub(super) definition: BString,
    /// Files in the cache directory, with their paths relative to the resource directory.
    pub(super) files: Vec<(PathBuf, PathBuf)>,
}

/// What is adopted instead of the current state, and how conflicts are resolved.
#[derive(Clone, Copy)]
pub(super) struct Preferred<'a> {
    /// The editor for conflicts.
    pub(super) editor: Option<&'a str>,
    /// A file with the content to adopt.
    pub(super) resolved: Option<&'a Path>,
}

/// Asks the plugin that owns the entity if it is known, otherwise each plugin in turn.
pub(super) fn gather(
    request: &mut Request,
    inventory: &mut Inventory,
    preferred: Preferred<'_>,
    interrupt: &Interrupt,
    reporter: &mut dyn Reporter,
) -> Result<Gathered, FatalError> {
    let plugins: Vec<PluginIndex> = match request.plugin {
        Some(index) => vec![index],
        None => inventory.plugins.entries().filter(|(_, plugin)| plugin.adopts()).map(|(index, _)| index).collect(),
    };
    for index in plugins {
        match ask(request, (index, inventory), preferred, interrupt, reporter)? {
            Gathered::Unknown => {}
            answer => return Ok(answer),
        }
    }
    Ok(Gathered::Unknown)
}

fn ask(
    request: &mut Request,
    (index, inventory): (PluginIndex, &mut Inventory),
    preferred: Preferred<'_>,
    interrupt: &Interrupt,
    reporter: &mut dyn Reporter,
) -> Result<Gathered, FatalError> {
    let Preferred { editor, resolved } = preferred;
    let directory = fresh_directory(inventory.plugins[index].cache())?;
    let plugin = &mut inventory.plugins[index];
    if !plugin.adopts() {
        reporter.error(format!("cannot adopt {}: plugin {} does not know how", request.id, plugin.id));
        return Ok(Gathered::Failed);
    }
    let adoption = Adoption { id: request.id.as_bstr(), directory: &directory, resolved, with: &request.with };
    let answer = plugin.adopt(adoption, interrupt, &mut |stream, bytes| reporter.output(stream, bytes));
    let definition = match answer {
        Ok(Adopted::Unknown) => return Ok(Gathered::Unknown),
        // The name was a path or an alias. A plugin redirects once only.
        Ok(Adopted::Entity(id)) if request.id != id && request.plugin.is_none() => {
            request.id = id;
            request.plugin = Some(index);
            return ask(request, (index, inventory), preferred, interrupt, reporter);
        }
        Ok(Adopted::Entity(_)) => return Ok(Gathered::Unknown),
        Ok(Adopted::Unchanged) => return Ok(Gathered::Unchanged),
        Ok(Adopted::Done { definition }) => definition,
        Ok(Adopted::Conflict(path)) if resolved.is_none() && edit(editor, &path) => {
            return ask(
                request,
                (index, inventory),
                Preferred { editor: None, resolved: Some(&path) },
                interrupt,
                reporter,
            );
        }
        Ok(Adopted::Conflict(path)) => {
            reporter.error(format!("cannot adopt {}: a manual change conflicts with the resource files", request.id));
            let text = fs::read(&path).map_err(|error| FatalError::io("open", &path, error))?;
            reporter.explain(text.trim_end());
            return Ok(Gathered::Failed);
        }
        Err(OperationError::Fatal(fatal)) => return Err(fatal),
        // The plugin has reported the reason.
        Err(OperationError::Failed(PluginError::Operation)) => return Ok(Gathered::Failed),
        Err(OperationError::Failed(error)) => {
            reporter.error(format!("cannot adopt {}: {error}", request.id));
            return Ok(Gathered::Failed);
        }
    };
    let files = files_in(&directory)?;
    if files.is_empty() && definition.trim().is_empty() {
        reporter.error(format!("cannot adopt {}: plugin {} returned no definition", request.id, plugin.id));
        return Ok(Gathered::Failed);
    }
    request.plugin = Some(index);
    Ok(Gathered::Resources(Resources { plugin: plugin.id.clone(), definition, files }))
}

/// Opens a file in the user's editor. Returns false if there is no editor or no terminal, or if the editor fails.
fn edit(editor: Option<&str>, path: &Path) -> bool {
    let Some(editor) = editor else { return false };
    let terminal = || File::options().read(true).write(true).open("/dev/tty");
    let (Ok(input), Ok(output), Ok(errors)) = (terminal(), terminal(), terminal()) else { return false };
    // The variable may contain arguments.
    let mut program = Program::new("/bin/sh");
    program.arg("-c").arg(format!("{editor} \"$1\"")).arg("sh").arg(path).in_our_group();
    program.stdin_file(input).stdout_file(output).stderr_file(errors);
    program.run(|_, _| {}).is_ok_and(|ended| ended.failure().is_none())
}

/// Creates an empty directory in a cache directory.
pub(super) fn fresh_directory(cache: &Path) -> Result<PathBuf, FatalError> {
    let above = cache.join("adopted");
    let failed = |error| FatalError::io("mkdir", &above, error);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&above).map_err(failed)?;
    let taken = fs::read_dir(&above).map_err(failed)?.count();
    let directory = above.join(taken.to_string());
    fs::DirBuilder::new().mode(0o700).create(&directory).map_err(|error| FatalError::io("mkdir", &directory, error))?;
    Ok(directory)
}

/// Returns the files and symlinks below a directory, each with its relative path.
fn files_in(directory: &Path) -> Result<Vec<(PathBuf, PathBuf)>, FatalError> {
    let mut files = Vec::new();
    for entry in WalkDir::new(directory).sort_by_file_name() {
        let entry = entry.map_err(|error| FatalError::walk(directory, error))?;
        let kind = entry.file_type();
        if let Ok(below) = entry.path().strip_prefix(directory)
            && (kind.is_file() || kind.is_symlink())
        {
            files.push((below.to_owned(), entry.path().to_owned()));
        }
    }
    Ok(files)
}
