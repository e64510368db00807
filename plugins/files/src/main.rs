//! The `files` plugin: configuration files, made from what packages bring and what resource files lay over it.

mod change;
mod desired;
mod distribution;
mod entity;
mod files;
mod layout;
mod provision;
mod recovery;
mod scan;
mod scrub;
mod stock;
mod workshop;

fn main() -> std::process::ExitCode {
    holo_plugin::serve(&files::Files)
}
