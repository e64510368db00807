//! Runs the commands of the manual page.

use crate::desk::{SSH, desk};
use holo_testing::trial_of;
use libtest_mimic::Trial;
use std::fs;
use std::path::Path;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial_of("the_examples_of_the_man_page_are_true", &SSH, the_examples_are_true)]
}

fn the_examples_are_true() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../man/holo-fleet.8")).unwrap();
    let commands: Vec<String> =
        page.lines().filter_map(|line| line.strip_prefix("$ ")).map(|line| line.replace("\\e", "\\")).collect();
    assert_eq!(commands.len(), 8);
    let desk = desk().dir("home/.ssh").dir("etc/holo").holorc("plugin files\n");
    fs::remove_dir_all(desk.join("web")).unwrap();
    let made = desk.run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", "home/.ssh/id_ed25519"]);
    assert!(made.success(), "{made}");
    // Its own /etc is below the root.
    let script = commands.join("\n").replace("/etc/holo/allowed", "etc/holo/allowed");
    desk.write("script", format!("set -e\nHOME=$PWD/home\n{script}\n"));
    let run = desk.run("sh", &["script"]);
    assert!(run.success(), "{run}");
    assert!(run.stdout_lossy().contains("installed: web 1.0, signed by anna, sha256:"), "{run}");
    assert_eq!(desk.read("etc/motd"), "web");
}
