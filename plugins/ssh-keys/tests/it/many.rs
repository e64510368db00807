//! Many key sets of one user: the user's file is accessed once, not once for each key set.

use bstr::ByteSlice;
use data_encoding::BASE64;
use holo_testing::{Need, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::fs;

pub(crate) fn trials() -> Vec<Trial> {
    const STRACE: &[Need] = &[Need::Program("strace")];
    vec![trial_of("the user's file is read and replaced once for all key sets", STRACE, once_for_all)]
}

/// The numbers of system calls that name the user's keys or the list of key sets.
#[derive(Debug, PartialEq, Eq)]
struct Calls {
    keys: usize,
    list: usize,
}

/// Returns the calls of a first apply, a check, an apply without changes, and an apply that removes all keys.
fn calls_for(sets: usize) -> [Calls; 4] {
    let mut root = ScratchRoot::in_memory().binary(built("holo")).plugin("ssh-keys").dir("home/jane");
    for number in 0..sets {
        let blob = [&b"\0\0\0\x0bssh-ed25519\0\0\0 "[..], format!("{number:032}").as_bytes()].concat();
        let key = format!("ssh-ed25519 {} {number}\n", BASE64.encode(&blob));
        root = root.file(format!("usr/share/holo/ssh-keys/jane/{number}.pub"), key);
    }
    let traced = |command: &str| {
        let log = root.join("tmp/strace");
        let strace = ["-f", "-qq", "-o", log.to_str().unwrap(), "-e", "trace=file"];
        let run = root.run("strace", &[&strace[..], &[built("holo").to_str().unwrap(), command]].concat());
        assert!(run.success(), "{run}");
        let log = fs::read(&log).unwrap();
        let calls = |name: &str| log.lines().filter(|line| line.contains_str(name)).count();
        Calls { keys: calls("authorized_keys"), list: calls("provisioned-entities") }
    };
    let first = traced("apply");
    assert_eq!(root.read("home/jane/.ssh/authorized_keys").lines().count(), sets);
    let (check, again) = (traced("check"), traced("apply"));
    fs::remove_dir_all(root.join("usr/share/holo/ssh-keys/jane")).unwrap();
    let gone = traced("apply");
    assert_eq!(root.read("home/jane/.ssh/authorized_keys"), "");
    assert!(!root.exists("var/lib/holo/ssh-keys/provisioned-entities"));
    [first, check, again, gone]
}

fn once_for_all() {
    assert_eq!(calls_for(3), calls_for(30));
}
