//! The `ssh-keys` plugin: public keys that give access to accounts, kept in files that belong to users who are not trusted.

mod account;
mod adoption;
mod blob;
#[cfg(test)]
mod cases;
mod home;
mod key_line;
mod keyset;
mod name;
mod operations;
mod record;
mod scan;
mod section;
mod source;
mod unmarked;

/// Runs the plugin: what it does stands in the arguments and the environment.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&scan::SshKeys)
}
