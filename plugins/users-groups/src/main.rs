//! The `users-groups` plugin executable.

fn main() -> std::process::ExitCode {
    holo_users_groups::run()
}
