//! Versions of packages that other entities receive.

use crate::support::{APT, define, packages};
use bstr::ByteSlice;
use holo_testing::{ScratchRoot, binaries::built};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        APT.trial("packages send their version", version),
        APT.trial("a package with an unsuitable received version fails", receives),
    ]
}

/// Adds the files plugin, and a file that receives the version of a package.
fn with_receiver(root: &ScratchRoot) {
    let holorc = format!("{}plugin files={}\n", root.read("etc/holorc"), built("holo-files").display());
    root.write("etc/holorc", holorc);
    let receiver = "[[file]]\npath = '/etc/version'\nreceive = { content = 'package:foo#version' }\n";
    root.write("usr/share/holo/files/10-test.toml", receiver);
}

fn version(root: &ScratchRoot) {
    with_receiver(root);
    define(root, &packages(&["foo ensure=\"1.0\"", "baz"]));
    let check = root.holo(&["check"]);
    assert!(!check.stdout_lossy().contains("package:foo, which has not sent"), "{check}");
    let apply = |said: &str| {
        let run = root.holo(&["apply"]);
        assert!(run.success() && run.stderr.is_empty(), "{run}");
        assert!(run.stdout_lossy().contains(said) && run.stdout.is_empty() == said.is_empty(), "{run}");
    };
    apply("installed foo 1.0");
    assert_eq!(root.read("etc/version"), "1.0");
    apply("");
    define(root, &packages(&["foo ensure=\"1.1\"", "baz"]));
    // A check knows the version that an apply would install.
    let check = root.holo(&["check", "--diff"]);
    assert!(check.stdout.contains_str("-1.0\n") && check.stdout.contains_str("+1.1\n"), "{check}");
    assert_eq!(root.read("etc/version"), "1.0");
    apply("upgraded foo 1.0 to 1.1");
    assert_eq!(root.read("etc/version"), "1.1");
    // The version is also sent if it was already installed.
    root.write(
        "usr/share/holo/files/10-test.toml",
        "[[file]]\npath = '/etc/version'\nreceive = { content = 'package:baz#version' }\n",
    );
    let run = root.holo(&["apply", "file:/etc/version"]);
    assert!(run.success(), "{run}");
    assert_eq!(root.read("etc/version"), "1.0");
}

fn receives(root: &ScratchRoot) {
    let holorc = format!("{}plugin exec={}\n", root.read("etc/holorc"), built("holo-exec").display());
    root.write("etc/holorc", holorc);
    let print = |text: &str| {
        let sender = format!("[[exec]]\nname = 'wanted'\ncommand = ['echo', '{text}']\n");
        root.write("usr/share/holo/exec/10-test.toml", sender);
    };
    print("absent ");
    define(root, "[[package]]\nname = 'baz'\nreceive = { hold = 'exec:wanted#stdout' }\n");
    let run = root.holo(&["apply"]);
    let said = "usr/share/holo/packages/10-test.toml:3: package:baz: hold: ";
    assert!(run.status == Some(1) && run.stderr_lossy().contains(said), "{run}");
    assert!(
        !root.read("var/lib/dpkg/status").contains_str("Package: baz"),
        "it is not installed without what it receives"
    );
}
