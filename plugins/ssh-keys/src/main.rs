//! The program of the plugin `ssh-keys`.

fn main() -> std::process::ExitCode {
    holo_ssh_keys::run()
}
