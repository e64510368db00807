//! The `ssh-keys` plugin executable.

fn main() -> std::process::ExitCode {
    holo_ssh_keys::run()
}
