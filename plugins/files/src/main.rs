//! The `files` plugin: configuration files, made from what packages bring and what resource files lay over it.

mod change;
mod check;
mod desired;
mod distribution;
mod entity;
mod files;
mod layout;
mod provision;
mod record;
mod recovery;
mod scan;
mod scrub;
mod stock;
mod workshop;

fn main() -> std::process::ExitCode {
    let asked_for = std::env::var_os("HOLO_FILES_RECORD").is_some_and(|value| value == "1");
    holo_plugin::serve(&files::Files { records_in_test_mode: asked_for })
}
