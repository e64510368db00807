//! The plugin `ral`: resources that libral's providers manage, which are run as their authors ship them.
//!
//! `definition` is what people write. The `catalog` finds the `provider`s that there are, each with its `metadata`; a provider speaks
//! one of two `convention`s. `compare` tells a resource that is as desired from one that is not, and `apply` changes it.

mod apply;
mod attribute;
mod catalog;
mod compare;
mod convention;
mod definition;
mod diff;
mod entity;
mod exchange;
mod item;
mod known;
mod metadata;
mod notes;
mod operations;
mod provider;
mod ral;
mod record;
mod show;
mod toml;

/// Serves the plugin, or shows resources if the first argument is `show`.
pub fn run() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((verb, rest)) if verb == "show" => show::main(rest),
        _ => holo_plugin::serve(&ral::Ral),
    }
}
