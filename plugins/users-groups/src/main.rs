//! The program of the plugin `users-groups`.

fn main() -> std::process::ExitCode {
    holo_users_groups::run()
}
