//! The `ssh-keys` plugin: public keys for logins to accounts, in files that belong to untrusted users.

mod adoption;
mod blob;
mod home;
mod key_line;
mod keyset;
mod operations;
mod record;
mod scan;
mod section;

/// Runs the plugin according to the arguments and the environment of the process.
#[must_use]
pub fn run() -> std::process::ExitCode {
    holo_plugin::serve(&scan::SshKeys)
}

#[cfg(test)]
mod tests;
