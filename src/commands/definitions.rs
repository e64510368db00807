//! `holo definitions`: reads and checks the definitions of a plugin, for plugins that do not use our library.

use super::{Context, data};
use crate::cli::Definitions;
use crate::error::{FatalError, exit};
use crate::host::config;
use crate::host::settings::Settings;
use crate::report::{Event, Reporter, Severity};
use holo_definitions::{DefinitionError, Finding, ReceivedFile, ResourceDirs, UntypedDefinition, did_you_mean};
use std::path::{Path, PathBuf};

pub(super) fn run(arguments: &Definitions, context: &mut Context<'_>) -> Result<u8, FatalError> {
    let Context { settings, interrupt, reporter } = context;
    let knowledge = super::knowledge(settings, *reporter)?;
    let is_called_by_plugin = is_called_by(&arguments.plugin, settings);
    let directories = directories(&arguments.plugin, is_called_by_plugin, settings);
    if !is_called_by_plugin && !directories.iter().any(Path::is_dir) {
        refuse_unknown(&arguments.plugin, settings, *reporter)?;
    }
    let (mut definitions, findings) =
        UntypedDefinition::read_all(&directories, &knowledge.renderer(), &ReceivedFile::at(settings.sent.clone()));
    data::warn(&knowledge, *reporter);
    interrupt.check()?;
    let mut has_failed = false;
    for finding in findings {
        let (severity, text) = match finding {
            // The directory does not exist, so it contains no definitions.
            Finding::Error(DefinitionError::Unreadable { error, .. })
                if error.kind() == std::io::ErrorKind::NotFound =>
            {
                continue;
            }
            Finding::Error(error) => (Severity::Error, error.to_string()),
            Finding::Warning(warning) => (Severity::Warning, warning.to_string()),
            Finding::Unrendered(warning) => (Severity::Warning, warning.to_string()),
            Finding::Folder(_) => continue,
        };
        has_failed |= severity == Severity::Error;
        reporter.event(Event::Aside(severity, &text));
    }
    if !is_called_by_plugin && !arguments.show_secrets {
        definitions.iter_mut().for_each(UntypedDefinition::hide_secrets);
    }
    let lines: Vec<String> =
        definitions.iter().map(serde_json::to_string).collect::<Result<_, _>>().map_err(FatalError::could_not_run)?;
    let text = if lines.is_empty() { "[]\n".to_owned() } else { format!("[\n{}\n]\n", lines.join(",\n")) };
    reporter.event(Event::Text(text.as_bytes()));
    Ok(if has_failed { exit::FAILED } else { exit::DONE })
}

/// Refuses the ID of a plugin that is not configured.
fn refuse_unknown(plugin: &str, settings: &Settings, reporter: &mut dyn Reporter) -> Result<(), FatalError> {
    let configured = config::read(&settings.root)?.plugins;
    let known = || configured.iter().map(|line| line.id.as_str());
    if known().any(|id| id == plugin) {
        return Ok(());
    }
    let hint = did_you_mean(plugin, known()).map(|hint| format!(", {hint}")).unwrap_or_default();
    reporter.event(Event::Aside(Severity::Error, &format!("there is no plugin {plugin}{hint}")));
    Err(FatalError::Reported)
}

/// Returns true if the plugin itself calls us, with its own directories in the environment.
fn is_called_by(plugin: &str, settings: &Settings) -> bool {
    let is_of_plugin = |path: &PathBuf| path.file_name().is_some_and(|name| name == plugin);
    !settings.resource_dirs.is_empty() && settings.resource_dirs.iter().all(is_of_plugin)
}

/// Returns the resource directories of the plugin: those in the environment if it calls us, otherwise the existing
/// ones.
fn directories(plugin: &str, is_called_by_plugin: bool, settings: &Settings) -> ResourceDirs {
    let root = &settings.root;
    let given = if is_called_by_plugin {
        settings.resource_dirs.clone()
    } else {
        let own = root.own_resources().join(plugin);
        [own].into_iter().filter(|own| own.is_dir()).chain([root.resources().join(plugin)]).collect()
    };
    ResourceDirs::new(given).unwrap_or_else(|| Path::new("").to_owned().into())
}
