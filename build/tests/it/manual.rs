//! The examples in the man page.

use crate::support::Desk;
use holo_testing::{ScratchRoot, binaries, trials};
use libtest_mimic::Trial;
use std::fs;
use std::path::Path;

pub(crate) fn trials() -> Vec<Trial> {
    trials![examples_work_in_sequence, every_option_is_described]
}

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../man/holo-build.8")).unwrap()
}

/// The literal blocks in the section with examples.
fn examples() -> Vec<String> {
    let page = page();
    let section = page.split("\n.Sh EXAMPLES\n").nth(1).unwrap().split("\n.Sh ").next().unwrap();
    let blocks = section.split(".Bd -literal -offset indent\n").skip(1);
    blocks.map(|block| block.split("\n.Ed").next().unwrap().to_owned() + "\n").collect()
}

fn examples_work_in_sequence() {
    let examples = examples();
    let [description, commands] = &examples[..] else { panic!("{examples:?}") };
    for name in ["holo-files", "holo-users-groups"] {
        let _ = binaries::built(name);
    }
    let programs = binaries::built("holo").parent().unwrap().display().to_string();
    let desk = Desk { root: ScratchRoot::new().env("PATH", format!("{programs}:/usr/bin:/bin")) };
    desk.root.write("site.toml", description);
    desk.root.write("etc/os-release", "ID=debian\n");
    let _ = binaries::built("holo-build");
    let mut expected = String::new();
    let mut script = String::new();
    for line in commands.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => script += &format!("{command}\n"),
            None => expected += &format!("{line}\n"),
        }
    }
    assert_eq!(desk.sh(&script), expected);
    assert!(desk.root.exists("site-config_1.0-1_all.deb") && desk.root.exists("site.rpm"));
    assert!(!desk.root.exists("site-config-1.0-1.noarch.rpm"));
}

fn every_option_is_described() {
    let help = Desk::new("").run(&["--help"]);
    let page = page();
    let options = help.stdout_lossy().into_owned();
    let options = options.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2);
    for option in options.filter(|option| !["--help", "--version"].contains(option)) {
        assert!(page.contains(&format!("Fl {}", &option[1..])), "{option}");
    }
}
