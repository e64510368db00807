//! The `scaffold` plugin: directories of templates, rendered into directories.

mod blame;
mod change;
mod circumstances;
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
mod reach;
mod record;
mod render;
mod renderer;
mod scaffolds;
mod source;
mod together;

/// Runs the plugin: what it does stands in the arguments and the environment.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&scaffolds::Scaffolds::default())
}
