//! Random cases: after arbitrary changes of the inputs, a rollback gives the same system as a first apply of the old
//! inputs.

use holo_testing::random::{self, Random};
use holo_testing::{ScratchRoot, binaries::built};
use libtest_mimic::Trial;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const CASES: u64 = 24;
const NAMES: [&str; 4] = ["motd", "issue", "hosts", "profile"];

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![rollback_equals_a_fresh_start]
}

/// Inputs: contents by path, including executable ones.
type Inputs = BTreeMap<String, String>;

fn system() -> ScratchRoot {
    let mut root = ScratchRoot::in_memory()
        .binary(built("holo"))
        .env("HOLO_HISTORY", "1")
        .plugin("files")
        .plugin("scaffold")
        .file("etc/os-release", "ID=debian\n");
    for name in NAMES {
        root = root.file(format!("etc/{name}"), format!("stock {name}\nmore\n"));
    }
    root
}

fn vary(inputs: &mut Inputs, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let name = *random.pick(&NAMES);
        let number = random.below(100);
        let (path, content) = match random.below(6) {
            0 => (format!("usr/share/holo/files/10-x/etc/{name}"), format!("plain {number}\n")),
            1 => {
                let script = format!("#!/bin/sh\nsed 's/more/more {number}/'\n");
                (format!("usr/share/holo/files/20-x/etc/{name}.holoscript"), script)
            }
            2 => {
                let mut declared = String::new();
                for name in ["made", "other"].iter().take(random.below(3)) {
                    let _ = write!(declared, "[[file]]\npath = \"/etc/{name}\"\ncontent = \"{name} {number}\\n\"\n");
                }
                ("usr/share/holo/files/declared.toml".to_owned(), declared)
            }
            3 => ("etc/holo/data/common.toml".to_owned(), format!("number = {number}\n")),
            4 => (format!("etc/holo/resources/files/10-x/etc/{name}"), format!("own {number}\n")),
            _ => {
                let path = format!("usr/share/holo/scaffold/web/{name}.jinja");
                inputs.insert(
                    "usr/share/holo/scaffold/web.toml".to_owned(),
                    "[[scaffold]]\ntarget = \"/etc/web\"\nsource = \"web\"\npurge = true\n".to_owned(),
                );
                (path, format!("{number} of {{{{ data.number | default(0) }}}}\n"))
            }
        };
        if random.chance(30) {
            inputs.remove(&path);
        } else {
            inputs.insert(path, content);
        }
    }
    // A scaffold without a source, or a source without a scaffold, is an error.
    if !inputs.keys().any(|path| path.starts_with("usr/share/holo/scaffold/web/")) {
        inputs.remove("usr/share/holo/scaffold/web.toml");
    }
}

fn put(root: &ScratchRoot, inputs: &Inputs) {
    for directory in ["usr/share/holo/files", "usr/share/holo/scaffold", "etc/holo"] {
        let _ = std::fs::remove_dir_all(root.join(directory));
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    for (path, content) in inputs {
        if path.ends_with(".holoscript") {
            root.write_script(path, content);
        } else {
            root.write(path, content);
        }
    }
}

/// Returns the contents of `etc`, without inputs.
fn state(root: &ScratchRoot) -> String {
    let dump = root.dump().to_string();
    let separator = format!("{}\n", "-".repeat(40));
    let is_state = |section: &&str| {
        let path = section.split("./").nth(1).unwrap_or_default();
        path.starts_with("etc/") && !path.starts_with("etc/holo")
    };
    dump.split(&separator).filter(is_state).collect::<Vec<_>>().join(&separator)
}

fn rollback_equals_a_fresh_start() {
    random::cases(CASES, |random| {
        let root = system();
        let mut inputs = Inputs::new();
        let mut kept: BTreeMap<u32, Inputs> = BTreeMap::new();
        for _ in 0..2 + random.below(4) {
            vary(&mut inputs, random);
            put(&root, &inputs);
            let run = root.holo(&["apply"]);
            assert!(run.success(), "{run}");
            if let Some(&number) = super::numbers(&root).last() {
                // A run without changes has recorded no generation.
                if root.holo(&["generations", "diff", &number.to_string()]).stdout.is_empty() {
                    kept.insert(number, inputs.clone());
                }
            }
        }
        for _ in 0..2 {
            let Some((&number, then)) = kept.iter().nth(random.below(kept.len())) else { return };
            let run = root.holo(&["rollback", &number.to_string()]);
            assert!(run.success(), "{run}");
            let fresh = system();
            put(&fresh, then);
            let run_of_fresh = fresh.holo(&["apply"]);
            assert!(run_of_fresh.success(), "{run_of_fresh}");
            assert_eq!(state(&root), state(&fresh), "generation {number}\n{run}");
            let check = root.holo(&["check"]);
            assert!(check.success(), "{check}");
            if random.chance(50) {
                assert!(root.holo(&["rollback", "--release"]).success());
                let run = root.holo(&["apply"]);
                assert!(run.success(), "{run}");
            }
        }
    });
}
