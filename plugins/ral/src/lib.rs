//! The plugin `ral`: resources managed by libral's providers, which are run unmodified.
//!
//! `definition` contains the keys. The `catalog` finds the available `provider`s, each with its `metadata`; a provider
//! follows one of two `convention`s. `attribute` finds resources that are not in their desired states, and `apply`
//! changes them.

mod apply;
mod attribute;
mod catalog;
mod compare;
mod convention;
mod definition;
mod entity;
mod item;
mod known;
mod metadata;
mod provider;
mod ral;
mod show;

/// Serves the plugin, or shows resources if the first argument is `show`.
pub fn run() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((verb, rest)) if verb == "show" => show::main(rest),
        _ => holo_plugin::serve(&ral::Ral),
    }
}
