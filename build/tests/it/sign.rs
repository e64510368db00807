//! Signatures, verified by the package managers with the public key.

use crate::support::{BASE, Desk};
use holo_testing::{Need, trial_of};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let need = |program| [Need::Program("gpg"), Need::Program(program)];
    vec![
        trial_of("rpm_packages_contain_their_signature", &need("rpmkeys"), rpm_packages_contain_their_signature),
        trial_of("pacman_packages_have_a_signature_beside_them", &need("pacman"), pacman_packages_have_a_signature),
        trial_of("unknown_keys_are_reported", &need("sh"), unknown_keys_are_reported),
    ]
}

/// A desk with a key ring, in which there is a key of this algorithm.
fn desk(algorithm: &str) -> Desk {
    let desk = Desk::new(BASE);
    let home = desk.root.join("gpg").display().to_string();
    desk.sh("mkdir -m 700 gpg");
    let desk = Desk { root: desk.root.env("GNUPGHOME", home) };
    desk.sh(&format!(
        "gpg --batch --quiet --passphrase '' --quick-gen-key 'J <j@x>' {algorithm} sign never
        gpg --armor --export >key.asc"
    ));
    desk
}

fn rpm_packages_contain_their_signature() {
    for algorithm in ["rsa2048", "ed25519"] {
        let desk = desk(algorithm);
        let signed = desk.run(&["--no-check", "--format", "rpm", "--sign-key", "j@x", "p.toml"]);
        assert!(signed.success(), "{signed}");
        let keys = "rpmkeys --define \"_dbpath $PWD/db\"";
        desk.sh(&format!("{keys} --import key.asc"));
        let checked = desk.sh(&format!("{keys} -Kv foo-1.0-1.noarch.rpm"));
        assert!(
            checked.contains("Signature, key ID") && !checked.contains("NOKEY") && !checked.contains("BAD"),
            "{checked}"
        );
        desk.sh("gpgconf --kill all");
    }
}

fn pacman_packages_have_a_signature() {
    let desk = desk("ed25519");
    let name = "foo-1.0-1-any.pkg.tar.xz";
    let sign = |options: &[&str]| {
        desk.run(&[&["--no-check", "--format", "pacman", "--sign-key", "j@x", "p.toml"], options].concat())
    };
    let signed = sign(&[]);
    assert!(signed.success(), "{signed}");
    desk.sh(&format!("gpg --batch --quiet --verify {name}.sig {name}"));
    let refused = sign(&["-o", "other.xz"]);
    assert!(refused.success(), "{refused}");
    desk.sh("rm other.xz");
    desk.sh("mkfifo fifo");
    let error = "!! the signature of a package for pacman is a second file; name the first one with --output\n";
    assert_eq!(sign(&["-f", "-o", "fifo"]).stderr, error);
    assert_eq!(sign(&["-o", "other.xz"]).stderr, "!! other.xz.sig exists already; --force overwrites it\n");
    desk.sh("gpgconf --kill all");
}

fn unknown_keys_are_reported() {
    let desk = desk("ed25519");
    for format in ["rpm", "pacman"] {
        let run = desk.run(&["--no-check", "--format", format, "--sign-key", "nobody@x", "p.toml"]);
        assert_eq!(run.status, Some(2), "{run}");
        assert!(run.stderr_lossy().starts_with("!! sign the package: gpg failed (exit status 2): "), "{run}");
    }
    assert!(!desk.root.exists("foo-1.0-1.noarch.rpm"));
    desk.sh("gpgconf --kill all");
}
