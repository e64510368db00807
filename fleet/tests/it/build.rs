//! Tests of `holo-fleet bundle build`.

use crate::desk::{SSH, desk, fail, fleet, run, succeed};
use holo_testing::{ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::PermissionsExt;

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, case: fn()| trial_of(name, &[], case);
    vec![
        trial("two_builds_are_equal", two_builds_are_equal),
        trial("other_tools_can_read_it", other_tools_can_read_it),
        trial("definitions_are_checked_with_file_and_line", definitions_are_checked_with_file_and_line),
        trial("files_that_do_not_belong_there_are_all_named", files_that_do_not_belong_there_are_all_named),
        trial_of("private_keys_are_refused_with_file_and_line", &SSH, private_keys_are_refused_with_file_and_line),
        trial("the_description_is_checked", the_description_is_checked),
        trial("the_size_is_limited", the_size_is_limited),
    ]
}

fn build(desk: &ScratchRoot, more: &[&str]) -> String {
    succeed(desk, &[&["bundle", "build", "web"], more].concat())
}

fn two_builds_are_equal() {
    let desk = desk();
    let said = build(&desk, &[]);
    let first = desk.read("web-1.0.tar.zst");
    let (line, digest) = said.trim_end().split_once('\n').unwrap();
    assert_eq!(line, "web-1.0.tar.zst: web 1.0, 5 files, 240 bytes");
    // Times, modes, the order in the directory, and the place make no difference.
    desk.write("other/x", "");
    fs::remove_dir_all(desk.join("other")).unwrap();
    for entry in walkdir::WalkDir::new(desk.join("web")).contents_first(true) {
        let (path, is_file) = entry.map(|entry| (entry.path().to_owned(), entry.file_type().is_file())).unwrap();
        let to = desk.join("other").join(path.strip_prefix(desk.join("web")).unwrap());
        if is_file {
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(&path, &to).unwrap();
            fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
        }
    }
    fs::create_dir(desk.join("other/usr/share/holo/empty")).unwrap();
    let json = succeed(&desk, &["bundle", "build", "other", "--output", "second", "--json"]);
    assert!(desk.read("second") == first);
    let digest = digest.strip_prefix("sha256:").unwrap();
    let expected = format!(
        "{{\"name\":\"web\",\"version\":\"1.0\",\"digest\":\"{digest}\",\"files\":5,\"bytes\":240,\
         \"signed_by\":null,\"file\":\"second\"}}\n"
    );
    assert_eq!(json, expected);
    let sum = desk.run("sha256sum", &["second"]);
    assert_eq!(sum.stdout_lossy(), format!("{digest}  second\n"));
    // But for the right to execute it, and a version.
    fs::set_permissions(desk.join("other/etc/holorc.d/50-web"), fs::Permissions::from_mode(0o700)).unwrap();
    succeed(&desk, &["bundle", "build", "other", "-o", "third"]);
    assert!(desk.read("third") != first);
    assert!(
        build(&desk, &["--name", "site", "--version", "2.0~rc1"]).starts_with("site-2.0~rc1.tar.zst: site 2.0~rc1,")
    );
}

fn other_tools_can_read_it() {
    let desk = desk();
    build(&desk, &[]);
    let bytes = zstd::decode_all(desk.read("web-1.0.tar.zst").as_slice()).unwrap();
    let mut tar = tar::Archive::new(&*bytes);
    let listed: Vec<String> = tar
        .entries()
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            let numbers =
                (header.mode().unwrap(), header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap());
            format!("{:?} {}", numbers, entry.path().unwrap().display())
        })
        .collect();
    let names = [
        "holo-bundle.json",
        "etc/holo/data/common.toml",
        "etc/holorc.d/50-web",
        "usr/share/holo/files/50-web.toml.jinja",
        "usr/share/holo/packages/50-web.toml",
        "usr/share/holo/services/50-web.toml",
    ];
    assert_eq!(listed, names.map(|name| format!("(420, 0, 0, 0) {name}")));
}

fn definitions_are_checked_with_file_and_line() {
    let desk = desk();
    desk.write("web/usr/share/holo/services/50-web.toml", "[[service]]\nname = \"nginx\"\nensure = \"runing\"\n");
    desk.write("web/usr/share/holo/filez/x.toml", "");
    desk.write("web/etc/holo/resources/files/60-more.toml", "[[file]]\npath = \"/etc/x\"\n\nmoed = \"0644\"\n");
    let said = fail(&desk, &["bundle", "build", "web"]);
    let line = |end: &str| said.lines().any(|line| line.starts_with("!! ") && line.contains(end));
    assert!(line("web/usr/share/holo/services/50-web.toml:3: "), "{said}");
    assert!(line("web/etc/holo/resources/files/60-more.toml:4: "), "{said}");
    assert!(line("web/usr/share/holo/filez/x.toml: no plugin filez is installed, did you mean files?"), "{said}");
    assert!(!desk.exists("web-1.0.tar.zst"));
    // Nothing is left of it.
    let left = fs::read_dir(desk.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!left.into_iter().any(|name| name.starts_with(".tmp")));
    let alone = desk.run("env", &["PATH=/nonexistent", fleet().to_str().unwrap(), "bundle", "build", "web"]);
    assert_eq!(
        alone.stderr_lossy(),
        "holo-fleet: holo is not installed, so the bundle cannot be checked; install holo and the plugins that the bundle uses\n"
    );
}

fn files_that_do_not_belong_there_are_all_named() {
    let desk = desk()
        .file("web/README.md", "x")
        .file("web/etc/shadow", "x")
        .file("web/usr/share/holo/files/suid", "x")
        .mode("web/usr/share/holo/files/suid", 0o4755)
        .symlink("web/usr/share/holo/files/out", "../../../../../etc/passwd")
        .symlink("web/usr/share/holo/files/absolute", "/etc/passwd")
        .symlink("web/usr/share/holo/files/inside", "50-web.toml.jinja");
    assert!(desk.run("mkfifo", &["web/etc/holo/data/fifo"]).success());
    let said = fail(&desk, &["bundle", "build", "web"]);
    let outside = "a bundle only has files below usr/share/holo, etc/holo/resources, etc/holorc.d, etc/holo/data and \
                   etc/holo/facts.d; move it to another directory";
    let expected = [
        "holo-fleet: web/etc/holo/data/fifo: a bundle only has regular files and symlinks; remove it".to_owned(),
        "web/usr/share/holo/files/suid: it has a setuid or setgid bit, which a bundle does not keep; run: chmod ug-s"
            .to_owned(),
        format!("web/README.md: {outside}"),
        format!("web/etc/shadow: {outside}"),
        "web/usr/share/holo/files/absolute: the symlink to \"/etc/passwd\" leads out of the bundle".to_owned(),
        "web/usr/share/holo/files/out: the symlink to \"../../../../../etc/passwd\" leads out of the bundle".to_owned(),
    ];
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}

fn private_keys_are_refused_with_file_and_line() {
    let desk = desk();
    let made = desk.run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", "plain"]);
    assert!(made.success(), "{made}");
    let made = desk.run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "a passphrase", "-f", "sealed"]);
    assert!(made.success(), "{made}");
    let text = |name: &str| format!("key = '''\n{}'''\n", desk.read(name));
    desk.write("web/etc/holo/data/plain.toml", text("plain"));
    desk.write("web/etc/holo/data/sealed.toml", text("sealed"));
    let expected = "holo-fleet: web/etc/holo/data/plain.toml:3: a private key in plain text; encrypt it with \
                    holo-secret, or use --allow-secrets\n";
    assert_eq!(fail(&desk, &["bundle", "build", "web"]), expected);
    assert!(build(&desk, &["--allow-secrets"]).contains(", 7 files, "));
}

fn the_description_is_checked() {
    let desk = desk();
    let said = |text: &str| {
        desk.write("web/holo-bundle.toml", text);
        fail(&desk, &["bundle", "build", "web"])
    };
    let missing = "holo-fleet: web/holo-bundle.toml: version is missing; write it there, or use --version\n";
    assert_eq!(said("name = \"web\"\n"), missing);
    assert!(said("name = \"web\"\nversion = \"../1\"\n").contains("web/holo-bundle.toml:2: "));
    assert!(said("name = \"a.b\"\nversion = \"1\"\n").contains("web/holo-bundle.toml:1: "));
    assert!(said("name = \"web\"\nversion = \"1\"\nmin_holo = \"four\"\n").contains("web/holo-bundle.toml:3: "));
    assert!(said("name = \"web\"\nversion = \"1\"\nfiles = []\n").contains("web/holo-bundle.toml:3: "));
    fs::remove_dir_all(desk.join("web/usr")).unwrap();
    fs::remove_dir_all(desk.join("web/etc")).unwrap();
    assert!(said("name = \"web\"\nversion = \"1\"\n").starts_with("holo-fleet: web: there are no files for a bundle"));
    assert!(fail(&desk, &["bundle", "build", "nowhere", "--name", "a", "--version", "1"]).contains("nowhere: "));
}

fn the_size_is_limited() {
    let desk = desk();
    desk.write("web/etc/holo/data/long.toml", format!("x = \"{}\"\n", "x".repeat(2 << 20)));
    let said = fail(&desk, &["bundle", "build", "web", "--max-size", "1MiB"]);
    assert_eq!(said, "holo-fleet: web: more than 1048576 bytes, the limit of a bundle\n");
    assert!(build(&desk, &["--max-size", "3MiB"]).contains(", 6 files, 2097"));
    for wrong in ["0", "2GiB", "1MB", "x", "-1", "99999999999999999999GiB", "é"] {
        let run = run(&desk, &["bundle", "build", "web", &format!("--max-size={wrong}")]);
        assert_eq!(run.status, Some(2), "{run}");
    }
}
