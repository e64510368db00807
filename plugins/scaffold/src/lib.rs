//! The `scaffold` plugin, which renders directories of templates into directories.

mod change;
mod definition;
mod difference;
mod engine;
mod engines;
mod entity;
mod error;
mod executor;
mod expressions;
mod known;
mod operations;
mod plan;
mod post;
mod preview;
mod purge;
mod record;
mod render;
mod renderer;
mod scaffolds;
mod source;
mod template_context;
mod together;

/// Runs the plugin, as specified by the arguments and the environment.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&scaffolds::Scaffolds::default())
}
