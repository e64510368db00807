//! The `scaffold` plugin: directories of templates, rendered into directories.

mod definition;
mod difference;
mod engine;
mod entity;
mod obstacle;
mod plan;
mod post;
mod purge;
mod record;
mod render;
mod scaffolds;
mod script;
mod source;
mod workshop;

fn main() -> std::process::ExitCode {
    holo_plugin::serve(&scaffolds::Scaffolds)
}
