//! Tests with output from the manual and the test suite of apk, which is not available on the test machines.

use super::*;
use crate::model::Item;

const DATABASE: &str = "C:Q1abc=\nP:musl\nV:1.2.4-r2\nA:x86_64\nS:383459\nT:the musl c library (libc) implementation\n\
    F:lib\nR:ld-musl-x86_64.so.1\na:0:0:755\n\nC:Q1def=\nP:nginx\nV:1.24.0-r7\nA:x86_64\nD:/bin/sh so:libc.musl-x86_64.so.1\n\n\
    C:Q1ghi=\nP:zlib\nV:1.3-r0\nA:x86_64\n\n";

const POLICY: &str = "nginx policy:\n  1.24.0-r7:\n    lib/apk/db/installed\n    https://dl-cdn.alpinelinux.org/alpine/v3.18/main\n  \
    1.24.1-r0:\n    https://dl-cdn.alpinelinux.org/alpine/v3.18/main\n  1.25.0-r1:\n    @edge https://dl-cdn.alpinelinux.org/alpine/edge/main\n\
    local policy:\n  1.0-r0:\n    lib/apk/db/installed\n";

const SIMULATION: &str = "(1/5) Installing pcre (8.45-r3)\n(2/5) Upgrading nginx (1.24.0-r7 -> 1.24.1-r0)\n\
    (3/5) Downgrading zlib (1.3-r0 -> 1.2.13-r1)\n(4/5) Purging apache2 (2.4.57-r3)\n(5/5) Replacing musl (1.2.4-r2 -> 1.2.4-r2)\n\
    OK: 12 MiB in 20 packages\n";

fn key(name: &str) -> Key {
    Key { name: name.to_owned(), arch: None }
}

#[test]
fn database_and_world_are_parsed() {
    let installed = read_database(DATABASE, "nginx=1.24.0-r7\nzlib>1.2\n");
    let facts = |name: &str| {
        let instance = installed.instances(&key(name))[0].clone();
        (instance.version, instance.held, instance.automatic)
    };
    assert_eq!(facts("nginx"), ("1.24.0-r7".to_owned(), true, false));
    assert_eq!(facts("zlib"), ("1.3-r0".to_owned(), false, false));
    assert_eq!(facts("musl"), ("1.2.4-r2".to_owned(), false, true));
    assert_eq!(installed.packages.len(), 3);
}

#[test]
fn offers_are_parsed() {
    let offers = read_policy(POLICY);
    let nginx = &offers[&key("nginx")];
    assert_eq!(nginx.candidate.as_deref(), Some("1.24.1-r0"));
    assert_eq!(nginx.versions, ["1.24.0-r7", "1.24.1-r0"]);
    assert_eq!(offers.len(), 1);
}

#[test]
fn simulation_is_parsed() {
    let steps: Vec<String> = read_simulation(SIMULATION)
        .into_iter()
        .map(|step| format!("{} {} {}", step.name, step.from.unwrap_or_default(), step.to.unwrap_or_default()))
        .collect();
    assert_eq!(
        steps,
        [
            "pcre  8.45-r3",
            "nginx 1.24.0-r7 1.24.1-r0",
            "zlib 1.3-r0 1.2.13-r1",
            "apache2 2.4.57-r3 ",
            "musl 1.2.4-r2 1.2.4-r2"
        ]
    );
}

#[test]
fn version_is_pinned_only_if_requested() {
    let item = |name: &str, exactly| Item { key: key(name), version: Some("1.0-r0".to_owned()), exactly, file: None };
    let items = vec![item("nginx", true), item("zlib", false)];
    let transaction = Transaction {
        kind: Kind::Install,
        items,
        may_downgrade: false,
        changes_held: false,
        may_remove: false,
        recommends: None,
        cleans: false,
        reinstalls: false,
        given: Vec::new(),
        without: Vec::new(),
    };
    let mut program = Program::new("apk");
    ask(&mut program, &transaction, &["--simulate"]);
    assert_eq!(program.to_string(), "apk add --upgrade --simulate -- nginx=1.0-r0 zlib");
    assert!(Apk.matches("1.24.0", "1.24.0-r7") && Apk.matches("1.24.0-r7", "1.24.0-r7"));
    assert!(!Apk.matches("1.24.0-r6", "1.24.0-r7") && !Apk.matches("1.24", "1.24.0-r7"));
}
