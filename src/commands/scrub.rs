//! `holo scrub`: an apply as if no resource file existed.

use super::{Context, apply};
use crate::cli::{Apply, Output, Scrub};
use crate::error::FatalError;
use crate::host::cache::CacheDirectory;
use crate::host::config;
use crate::host::root::Root;
use std::fs;
use std::path::PathBuf;

pub(super) fn run(arguments: &Scrub, context: &mut Context<'_>) -> Result<u8, FatalError> {
    // Must outlive the use of its inputs.
    let cache = CacheDirectory::create(&context.settings.temporary_directory)?;
    context.settings.root = without_definitions(&context.settings.root, cache.path().join("inputs"))?;
    let &Scrub { all: _, force, dry_run, diff, output: Output { json } } = arguments;
    apply::run(&Apply { force, dry_run, diff, output: Output { json }, ..Apply::default() }, context)
}

/// Returns the same root with inputs that define no entity, for all plugins that are configured today.
fn without_definitions(root: &Root, inputs: PathBuf) -> Result<Root, FatalError> {
    let plugins = config::read(&root.today())?.plugins;
    let root = root.today().with_inputs(inputs, None);
    let resources = plugins.iter().map(|plugin| root.resources().join(&plugin.id));
    for directory in resources.chain([root.holorc_snippets()]) {
        fs::create_dir_all(&directory).map_err(|error| FatalError::io("mkdir", &directory, error))?;
    }
    // Plugins with a directory are added to this configuration.
    fs::write(root.holorc(), "").map_err(|error| FatalError::io("write", &root.holorc(), error))?;
    Ok(root)
}
