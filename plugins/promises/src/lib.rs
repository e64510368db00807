//! The plugin `promises`: custom promise types of CFEngine, whose modules are run as their authors ship them.
//!
//! `definition` is what people write. A promise is asked about in a conversation with its `module`, which has
//! introduced itself by a `header`, and whose `answer` decides how the entity ends.

mod answer;
mod context;
mod definition;
mod entity;
mod header;
mod level;
mod module;
mod names;
mod outcome;
mod promises;
mod record;
mod request;
mod subject;
mod talk;
mod voice;

/// Runs the plugin: what it does stands in the arguments and the environment.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&promises::Promises::default())
}
