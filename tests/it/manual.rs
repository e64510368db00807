//! The examples of `holo(8)` and of the pages of its commands, on a machine with one managed file.

use crate::transcript::{document, follow, install, steps};
use holo_testing::overlay::NEEDS;
use holo_testing::{Need, Overlay, trial_of};
use libtest_mimic::Trial;

/// The pages, each with the programs that its examples need.
const PAGES: [(&str, &[&str]); 13] = [
    ("holo.8", &[]),
    ("holo-adopt.8", &[]),
    ("holo-apply.8", &["jq"]),
    ("holo-check.8", &["patch"]),
    ("holo-doctor.8", &[]),
    ("holo-history.8", &[]),
    ("holo-json.7", &["jq"]),
    ("holo-plugin.8", &[]),
    ("holo-rollback.8", &[]),
    ("holo-scan.8", &[]),
    ("holo-state.8", &[]),
    ("holo-status.8", &[]),
    ("holo-watch.8", &[]),
];

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |&(page, programs): &(&'static str, &'static [&'static str])| {
        let needs: Vec<Need> = {
            let programs = programs.iter().chain(&["bash"]).map(|name| Need::Program(name));
            NEEDS.iter().copied().chain(programs).collect()
        };
        trial_of(&format!("examples of {page}"), &needs, move || examples_work(page))
    };
    PAGES.iter().map(trial).collect()
}

fn examples_work(page: &str) {
    let machine = Overlay::new();
    install(&machine, &["files"]);
    machine.write("/etc/motd", "Welcome!\n");
    machine.write("/usr/share/holo/files/10-base/etc/motd", "Welcome to our site!\n");
    machine.must("mkdir /srv/page");
    machine.write("/tmp/.transcript", "cd /srv/page\n");
    if page == "holo-plugin.8" {
        let interface = literal_blocks(&document("man/holo-plugin-interface.7"));
        machine.script("/srv/page/holo-motd", &interface[0]);
        machine.must("mkdir -p /srv/page/root/etc");
        machine.write("/srv/page/texts/10-welcome.txt", "Welcome to web1.\n");
        machine.write("/srv/page/texts/20-notice.txt", "Mind the gap.\n");
    }
    let page = format!("man/{page}");
    follow(&machine, &steps(&literal_blocks(&document(&page)).concat()), &page);
}

/// Returns the literal blocks in the section with examples.
fn literal_blocks(page: &str) -> Vec<String> {
    let section = page.split("\n.Sh EXAMPLES\n").nth(1).unwrap().split("\n.Sh ").next().unwrap();
    let blocks = section.split(".Bd -literal -offset indent\n").skip(1);
    blocks.map(|block| format!("{}\n", block.split("\n.Ed").next().unwrap().replace("\\e", "\\"))).collect()
}
