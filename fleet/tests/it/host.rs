//! Tests of bundles on a host: installation, upgrade, rollback, and what is refused.

use crate::desk::{SSH, desk, fail, key, succeed};
use holo_testing::{ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, case: fn()| trial_of(name, &SSH, case);
    vec![
        trial("an_upgrade_removes_what_is_gone_and_a_rollback_brings_it_back", upgrade_and_rollback),
        trial("a_signed_bundle_configures_a_host", a_signed_bundle_configures_a_host),
        trial("a_clash_refuses_the_bundle_as_a_whole", a_clash_refuses_the_bundle_as_a_whole),
        trial("what_a_person_has_changed_is_not_overwritten", what_a_person_has_changed_is_not_overwritten),
        trial("what_needs_a_newer_holo_is_refused", what_needs_a_newer_holo_is_refused),
        trial("a_damaged_copy_is_not_rolled_back_to", a_damaged_copy_is_not_rolled_back_to),
        trial("a_bundle_of_another_name_replaces_it", a_bundle_of_another_name_replaces_it),
    ]
}

/// Returns all files and symlinks of a host, except for the state database.
pub(crate) fn files(host: &ScratchRoot) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for entry in walkdir::WalkDir::new(host.path()) {
        let entry = entry.unwrap();
        let path = entry.path().strip_prefix(host.path()).unwrap().to_str().unwrap().to_owned();
        if entry.file_type().is_dir() || path.starts_with("var/lib/holo-fleet/state.db") || path.starts_with("tmp/") {
            continue;
        }
        let mode = entry.metadata().unwrap().mode() & 0o7777;
        let text = match fs::read_link(entry.path()) {
            Ok(target) => format!("-> {}", target.display()),
            Err(_) => format!("{mode:o} {}", String::from_utf8_lossy(&fs::read(entry.path()).unwrap())),
        };
        files.insert(path, text);
    }
    files
}

/// Writes a bundle with these files, and returns its path.
pub(crate) fn bundle(desk: &ScratchRoot, version: &str, files: &[(&str, &str)]) -> String {
    let _ = fs::remove_dir_all(desk.join("one"));
    desk.write("one/holo-bundle.toml", format!("name = \"one\"\nversion = \"{version}\"\n"));
    for (path, text) in files {
        match text.strip_prefix("-> ") {
            Some(target) => {
                let path = desk.join("one").join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::os::unix::fs::symlink(target, path).unwrap();
            }
            None => desk.write(format!("one/{path}"), text),
        }
    }
    succeed(desk, &["bundle", "build", "one"]);
    desk.join(format!("one-{version}.tar.zst")).display().to_string()
}

pub(crate) fn install(host: &ScratchRoot, file: &str) -> String {
    succeed(host, &["host", "install", "--allow-unsigned", file])
}

pub(crate) const FIRST: [(&str, &str); 4] = [
    ("etc/holo/data/common.toml", "x = 1\n"),
    ("etc/holo/data/gone/deep.toml", "x = 1\n"),
    ("etc/holo/data/turns", "one\n"),
    ("etc/holo/data/link", "-> common.toml"),
];
pub(crate) const SECOND: [(&str, &str); 4] = [
    ("etc/holo/data/common.toml", "x = 2\n"),
    ("etc/holo/data/new/deep.toml", "x = 2\n"),
    ("etc/holo/data/turns/inside", "two\n"),
    ("etc/holo/facts.d/site", "#!/bin/sh\n"),
];

fn data(host: &ScratchRoot) -> BTreeMap<String, String> {
    files(host).into_iter().filter(|(path, _)| !path.starts_with("var/")).collect()
}

fn expected(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    let shown = |text: &str| if text.starts_with("-> ") { text.to_owned() } else { format!("644 {text}") };
    files.iter().map(|(path, text)| ((*path).to_owned(), shown(text))).collect()
}

fn upgrade_and_rollback() {
    let (desk, host) = (desk(), ScratchRoot::in_memory());
    let (first, second) = (bundle(&desk, "1", &FIRST), bundle(&desk, "2", &SECOND));
    assert_eq!(succeed(&host, &["host", "show"]), "installed: none\nprevious:  none\n");
    assert_eq!(fail(&host, &["host", "rollback"]), "holo-fleet: no previous bundle is kept on this host\n");
    assert!(install(&host, &first).starts_with("installed: one 1, not signed, sha256:"));
    assert_eq!(data(&host), expected(&FIRST));
    // Again: nothing changes, and the previous bundle is not the same one.
    let before = files(&host);
    assert!(install(&host, &first).ends_with("\nprevious:  none\n"));
    assert_eq!(files(&host), before);
    install(&host, &second);
    assert_eq!(data(&host), expected(&SECOND));
    assert!(!host.exists("etc/holo/data/gone"));
    let json = succeed(&host, &["host", "show", "--json"]);
    assert!(json.starts_with("{\"installed\":{\"name\":\"one\",\"version\":\"2\",\"digest\":\""), "{json}");
    assert!(json.contains("\"previous\":{\"name\":\"one\",\"version\":\"1\",\"digest\":\""), "{json}");
    // Without a server, and without the file.
    fs::remove_file(&first).unwrap();
    assert!(succeed(&host, &["host", "rollback"]).starts_with("installed: one 1, "));
    assert_eq!(data(&host), expected(&FIRST));
    succeed(&host, &["host", "rollback"]);
    assert_eq!(data(&host), expected(&SECOND));
    // No more than two are kept.
    let third = bundle(&desk, "3", &FIRST);
    install(&host, &third);
    let kept = files(&host).into_keys().filter(|path| path.starts_with("var/lib/holo-fleet/bundles/")).count();
    assert_eq!(kept, 2);
    // What a person has removed comes back.
    fs::remove_file(host.join("etc/holo/data/link")).unwrap();
    install(&host, &third);
    assert_eq!(data(&host), expected(&FIRST));
}

fn a_signed_bundle_configures_a_host() {
    let desk = desk();
    succeed(&desk, &["bundle", "build", "web"]);
    let public = key(&desk, "anna");
    let file = desk.join("web-1.0.tar.zst").display().to_string();
    let host = ScratchRoot::in_memory().file("etc/holo/allowed_signers", format!("anna {public}"));
    assert!(fail(&host, &["host", "install", &file]).contains("it is not signed: there is no "));
    let signer = desk.join("anna").display().to_string();
    succeed(&desk, &["bundle", "sign", &file, "--key", &signer]);
    assert!(succeed(&host, &["host", "install", &file]).starts_with("installed: web 1.0, signed by anna, sha256:"));
    let host = host.holorc("plugin files\n");
    let applied = host.holo(&["apply", "file:/etc/nginx/conf.d/site.conf"]);
    // The owner is not us, unless root runs the tests; the definition itself was found.
    assert!(applied.stdout_lossy().contains("file:/etc/nginx/conf.d/site.conf"), "{applied}");
    // A signature of another key is refused even if no signature is needed.
    key(&desk, "eve");
    let signer = desk.join("eve").display().to_string();
    succeed(&desk, &["bundle", "sign", &file, "--key", &signer]);
    let said = fail(&host, &["host", "install", "--allow-unsigned", &file]);
    assert!(said.contains("its key is not in the list"), "{said}");
    // Where nobody may sign, there is nothing to compare it with.
    let other = ScratchRoot::in_memory();
    assert!(fail(&other, &["host", "install", &file]).contains("there is no such file; write the public keys"));
    assert!(install(&other, &file).starts_with("installed: web 1.0, not signed"));
}

fn a_clash_refuses_the_bundle_as_a_whole() {
    let (desk, host) = (desk(), ScratchRoot::in_memory());
    let (first, second) = (bundle(&desk, "1", &FIRST), bundle(&desk, "2", &SECOND));
    install(&host, &first);
    host.write("etc/holo/facts.d/site", "a person's\n");
    host.write("etc/holo/data/new", "a person's\n");
    let before = files(&host);
    let said = fail(&host, &["host", "install", "--allow-unsigned", &second]);
    let expected = "holo-fleet: /etc/holo/data/new, /etc/holo/facts.d/site exist already and not from a bundle; move \
                    what is there away, or leave it out of the bundle\n";
    assert_eq!(said, expected);
    assert_eq!(files(&host), before);
    fs::remove_file(host.join("etc/holo/data/new")).unwrap();
    fs::remove_file(host.join("etc/holo/facts.d/site")).unwrap();
    // A symlink of a person, even one to a directory.
    host.write("srv/data/x", "");
    fs::remove_dir(host.join("etc/holo/facts.d")).unwrap();
    std::os::unix::fs::symlink("/srv/data", host.join("etc/holo/facts.d")).unwrap();
    let said = fail(&host, &["host", "install", "--allow-unsigned", &second]);
    assert!(said.starts_with("holo-fleet: /etc/holo/facts.d exists already"), "{said}");
    fs::remove_file(host.join("etc/holo/facts.d")).unwrap();
    fs::remove_dir_all(host.join("srv")).unwrap();
    // A directory of a person.
    host.write("etc/holo/facts.d/site/x", "a person's\n");
    let before = files(&host);
    let said = fail(&host, &["host", "install", "--allow-unsigned", &second]);
    assert!(said.contains("/etc/holo/facts.d/site is a directory"), "{said}");
    assert_eq!(files(&host), before);
    fs::remove_dir_all(host.join("etc/holo/facts.d/site")).unwrap();
    install(&host, &second);
}

fn what_a_person_has_changed_is_not_overwritten() {
    let (desk, host) = (desk(), ScratchRoot::in_memory());
    let (first, second) = (bundle(&desk, "1", &FIRST), bundle(&desk, "2", &SECOND));
    install(&host, &first);
    host.write("etc/holo/data/common.toml", "a person's\n");
    host.write("etc/holo/data/gone/deep.toml", "a person's\n");
    let before = files(&host);
    let said = fail(&host, &["host", "install", "--allow-unsigned", &second]);
    let expected = "holo-fleet: /etc/holo/data/common.toml, /etc/holo/data/gone/deep.toml were changed since the bundle \
                    was installed; keep a copy of the changes, then remove the file or put it back as it was\n";
    assert_eq!(said, expected);
    assert_eq!(files(&host), before);
    // Put back, or removed.
    host.write("etc/holo/data/common.toml", "x = 1\n");
    fs::remove_file(host.join("etc/holo/data/gone/deep.toml")).unwrap();
    install(&host, &second);
    assert_eq!(data(&host), self::expected(&SECOND));
    host.write("etc/holo/data/common.toml", "a person's\n");
    assert!(fail(&host, &["host", "rollback"]).starts_with("holo-fleet: /etc/holo/data/common.toml was changed"));
}

fn what_needs_a_newer_holo_is_refused() {
    let desk = desk();
    desk.write("web/holo-bundle.toml", "name = \"web\"\nversion = \"2\"\nmin_holo = \"99.1\"\n");
    succeed(&desk, &["bundle", "build", "web"]);
    let host = ScratchRoot::in_memory();
    let file = desk.join("web-2.tar.zst").display().to_string();
    let said = fail(&host, &["host", "install", "--allow-unsigned", &file]);
    let own = env!("CARGO_PKG_VERSION");
    assert_eq!(said, format!("holo-fleet: web 2 needs holo 99.1 or newer, and this is {own}; upgrade holo first\n"));
    assert_eq!(files(&host), BTreeMap::new());
}

fn a_damaged_copy_is_not_rolled_back_to() {
    let (desk, host) = (desk(), ScratchRoot::in_memory());
    let (first, second) = (bundle(&desk, "1", &FIRST), bundle(&desk, "2", &SECOND));
    install(&host, &first);
    install(&host, &second);
    let digest = desk.run("sha256sum", &[&first]).stdout_lossy().split(' ').next().unwrap().to_owned();
    let kept = format!("var/lib/holo-fleet/bundles/{digest}.tar.zst");
    fs::copy(&second, host.join(&kept)).unwrap();
    let said = fail(&host, &["host", "rollback"]);
    assert_eq!(said, format!("holo-fleet: /{kept}: it is damaged; install the bundle again\n"));
    fs::remove_file(host.join(&kept)).unwrap();
    assert_eq!(fail(&host, &["host", "rollback"]), format!("holo-fleet: /{kept}: no such file or directory\n"));
    assert_eq!(data(&host), expected(&SECOND));
    host.write("var/lib/holo-fleet/installed.json", "nonsense");
    assert!(fail(&host, &["host", "show"]).contains("/var/lib/holo-fleet/installed.json: "));
}

fn a_bundle_of_another_name_replaces_it() {
    let (desk, host) = (desk(), ScratchRoot::in_memory());
    let first = bundle(&desk, "1", &FIRST);
    install(&host, &first);
    succeed(&desk, &["bundle", "build", "web", "--name", "other"]);
    // A person's file in a directory that the first one has made keeps the directory.
    host.write("etc/holo/data/gone/mine", "a person's\n");
    let said = install(&host, &desk.join("other-1.0.tar.zst").display().to_string());
    assert!(said.starts_with("installed: other 1.0, ") && said.contains("previous:  one 1, "), "{said}");
    assert!(host.exists("etc/holo/data/gone/mine") && !host.exists("etc/holo/data/gone/deep.toml"));
}
