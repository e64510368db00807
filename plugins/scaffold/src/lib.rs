//! The `scaffold` plugin, which renders directories of templates into directories.

mod definition;
mod difference;
mod engines;
mod entity;
mod error;
mod executor;
mod expressions;
mod plan;
mod post;
mod preview;
mod record;
mod render;
mod scaffolds;
mod source;
mod template_context;
mod together;
mod witnesses;

/// Runs the plugin, as specified by the arguments and the environment.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&scaffolds::Scaffolds::default())
}
