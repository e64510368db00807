//! The program of the package `holo-bridges`: the plugins that run modules of other systems.

use holo_process::streams::complain;
use std::process::ExitCode;

fn main() -> ExitCode {
    let applets: &[holo_bundle::Applet] =
        &[("holo-ansible", holo_ansible::run), ("holo-promises", holo_promises::run), ("holo-ral", holo_ral::run)];
    holo_bundle::run(applets, || {
        complain("!! call this program by the name of a plugin: holo-ansible, holo-promises or holo-ral");
        ExitCode::from(2)
    })
}
