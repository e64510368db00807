//! The program of the package `holo`: the dispatcher and its plugins.

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    let applets: &[holo_bundle::Applet] = &[
        ("holo-archives", holo_archives::run),
        ("holo-exec", holo_exec::run),
        ("holo-files", holo_files::run),
        ("holo-packages", holo_packages::run),
        ("holo-probe", || holo_probe::run(env::args_os())),
        ("holo-run-scripts", holo_run_scripts::run),
        ("holo-scaffold", holo_scaffold::run),
        ("holo-services", holo_services::run),
        ("holo-ssh-keys", holo_ssh_keys::run),
        ("holo-users-groups", holo_users_groups::run),
    ];
    holo_bundle::run(applets, || holo::run(env::args_os()))
}
