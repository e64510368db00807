//! State, cache directories and the lock file on a real system: other users can read none of them, and can still run read-only commands.

mod kills;

use bstr::ByteSlice;
use holo_testing::overlay::NEEDS;
use holo_testing::{Need, Overlay, binaries::built, trial};
use libtest_mimic::Trial;

const NEEDED: &[Need] = &[NEEDS[0], NEEDS[1], Need::Program("setpriv")];
/// The word that all private files contain.
const SECRET: &str = "do-not-tell";
/// Lists what the current user can read among the state, the cache directories and the lock file. A generation in use is readable for
/// everyone who could read the originals.
const READABLE: &str = "find /var/lib/holo /run/holo* /tmp/holo* -readable 2>/dev/null | grep -Ev \"/(inputs(/.*)?|pinned[.]json)$\" || true";
/// Becomes the user nobody.
const NOBODY: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups";

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [(&str, fn()); 6] = [
        ("copies_of_private_files_cannot_be_read_by_others", copies_of_private_files),
        ("state_that_an_earlier_version_left_open_is_closed", state_is_closed),
        ("inputs_of_a_generation_in_use_can_be_read_by_others_and_nothing_else", inputs_in_use),
        ("inputs_in_a_closed_directory_are_private_in_a_generation_in_use", closed_inputs),
        ("other_users_can_run_commands_that_only_read", commands_of_others),
        ("other_users_cannot_lock_the_lock_of_a_killed_apply", lock_of_a_killed_apply),
    ];
    let trials = cases.map(|(name, test)| {
        trial(name, NEEDED, move || {
            test();
            Ok(())
        })
    });
    trials.into_iter().chain(kills::trials()).collect()
}

/// Returns a system with private files, which would be readable in a directory that others can enter, and definitions
/// that change them.
fn system() -> Overlay {
    let system = Overlay::new();
    system.must(&format!(
        "mkdir -m 700 /srv/private && cd /srv/private && mkdir tree
         for file in overlay declared edited tree/file; do echo '{SECRET} before' >$file; done
         tar cf tree.tar -C tree file && echo '{SECRET} there' >tree/file
         rm -rf /etc/holorc.d && printf 'plugin %s\\n' files archives exec >/etc/holorc"
    ));
    for binary in ["holo", "holo-files", "holo-archives", "holo-exec"] {
        // The build directory may be accessible to root only.
        system.must(&format!("cp {} /usr/bin", built(binary).display()));
    }
    let declared = "path = \"/srv/private/declared\"\ncontent = \"after\"\nsensitive = true\nmode = \"0644\"";
    let edited = "path = \"/srv/private/edited\"\nline = \"after\"";
    let archive =
        "path = \"/srv/private/copy.tar\"\nurl = \"file:///srv/private/tree.tar\"\nextract_to = \"/srv/private/tree\"";
    // While state is being written and the cache is in use, another user searches for it.
    let spy = format!("grep -rls {SECRET} /run /tmp/holo* /var/lib; {READABLE}");
    let spy = format!("[[exec]]\nname = \"spy\"\nshell = true\ncommand = '''{spy}'''\nuser = \"nobody\"\n");
    system.script("/usr/share/holo/files/10-ours/srv/private/overlay.holoscript", "#!/bin/sh\nsed s/before/after/\n");
    system
        .resource("files/10-ours/etc/motd", "ours\n")
        .resource("files/a.toml", format!("[[file]]\n{declared}\n[[line]]\n{edited}\n"))
        .resource("archives/a.toml", format!("[[archive]]\n{archive}\n"))
        .resource("exec/spy.toml", spy)
}

fn apply(system: &Overlay) {
    let run = system.run("holo", &["apply", "--force"]);
    let is_found = run.stdout.lines().any(|line| line.starts_with(b"/"));
    assert!(run.success() && !is_found, "another user found private files: {run}");
}

/// Asserts that there are copies of private files, and that the user nobody cannot read any of them.
fn is_private(system: &Overlay) {
    let search = format!("grep -rls {SECRET} /run /tmp/holo* /var/lib | sort");
    let copies = system.must(&search).to_string();
    for copy in ["files/base/srv/private/overlay", "files/provisioned/srv/private/overlay", "archives/"] {
        assert!(copies.contains(copy), "{copy}: {copies}");
    }
    assert_eq!(system.must(&format!("{NOBODY} sh -c '{search}'")), "");
    assert_eq!(readable(system), "");
}

/// Returns the paths that the user nobody can read among the state, the cache directories and the lock file.
fn readable(system: &Overlay) -> String {
    // This user cannot expand the patterns.
    let paths = system.must("ls -d /var/lib/holo/* /var/lib/holo/.[a-z]* /run/holo* /tmp/holo* 2>/dev/null || true");
    let paths = paths.to_string().replace('\n', " ");
    system.must(&format!("{NOBODY} sh -c '{}'", READABLE.replace("/tmp/holo*", &paths))).to_string()
}

fn modes(system: &Overlay) -> String {
    system.must("cd /var/lib && stat -c '%a %n' holo holo/.engine holo/[a-z]* | grep -v state.db").to_string()
}

fn copies_of_private_files() {
    let system = system();
    apply(&system);
    is_private(&system);
    assert_eq!(modes(&system), "700 holo\n700 holo/.engine\n700 holo/archives\n700 holo/exec\n700 holo/files\n");
}

fn state_is_closed() {
    let system = system();
    apply(&system);
    system.must("chmod 755 /var/lib/holo /var/lib/holo/.engine /var/lib/holo/*; mkdir /var/lib/holo/gone");
    system.must("ln -s /srv /var/lib/holo/link; chmod 755 /srv");
    assert!(system.run("holo", &["check", "files"]).success());
    assert!(modes(&system).starts_with("755 holo\n"));
    apply(&system);
    is_private(&system);
    let closed =
        "700 holo\n700 holo/.engine\n700 holo/archives\n700 holo/exec\n700 holo/files\n700 holo/gone\n777 holo/link\n";
    assert_eq!(modes(&system), closed);
    assert_eq!(system.must("stat -c %a /srv"), "755\n");
}

fn inputs_in_use() {
    let system = system();
    apply(&system);
    system.write("/usr/share/holo/files/10-ours/etc/motd", "newer\n");
    apply(&system);
    let run = system.run("holo", &["rollback", "--force"]);
    assert!(run.success(), "{run}");
    assert_eq!(system.read("/etc/motd"), "ours\n");
    system.write("/usr/share/holo/files/10-ours/etc/issue", "not in use\n");
    for _ in 0..2 {
        is_private(&system);
        let [states, engine] = ["holo\n", "holo/.engine\n"].map(|name| format!("711 {name}"));
        assert!(modes(&system).starts_with(&format!("{states}{engine}700 holo/archives\n")), "{}", modes(&system));
        let entities = system.must(&format!("{NOBODY} holo scan -s"));
        assert!(entities.contains_str("file:/etc/motd\n") && !entities.contains_str("file:/etc/issue\n"), "{entities}");
        apply(&system);
    }
    assert!(system.run("holo", &["rollback", "--release"]).success());
    apply(&system);
    assert!(modes(&system).starts_with("700 holo\n700 holo/.engine\n"), "{}", modes(&system));
}

fn closed_inputs() {
    let system = system();
    system.must("mkdir -m 750 /etc/holo && mkdir -p /etc/holo/resources/exec");
    system.write("/etc/holo/resources/exec/closed.toml", format!("# {SECRET}\n"));
    apply(&system);
    system.write("/usr/share/holo/files/10-ours/etc/motd", "newer\n");
    apply(&system);
    let run = system.run("holo", &["rollback", "--force"]);
    assert!(run.success(), "{run}");
    is_private(&system);
    let copy = system.must("find /var/lib/holo/.engine -path '*/etc/holo' -printf '%m\\n'");
    assert_eq!(copy, "750\n");
}

fn commands_of_others() {
    let system = system();
    apply(&system);
    let as_nobody = |command: &str| system.sh(&format!("{NOBODY} holo {command}"));
    let warning = ">> open /var/lib/holo/files: permission denied; what files, archives and exec have applied before is not known\n";
    let run = as_nobody("scan -s");
    assert_eq!((run.status, &*run.stderr_lossy()), (Some(0), warning), "{run}");
    assert!(run.stdout.contains_str("file:/etc/motd\n"), "{run}");
    for (command, status) in [("check file:/etc/motd", 0), ("diff file:/etc/motd", 0), ("why /etc/motd", 0)] {
        let run = as_nobody(command);
        assert_eq!(run.status, Some(status), "{run}");
        assert_eq!(run.stderr_lossy(), warning, "{run}");
    }
    let run = as_nobody("apply");
    let first = ">> holo does not run as root, so it cannot change most of the system: sudo holo apply\n";
    assert!(!run.success() && run.stderr_lossy().starts_with(first), "{run}");
}

fn lock_of_a_killed_apply() {
    let system = system();
    system.write(
        "/usr/share/holo/exec/spy.toml",
        "[[exec]]\nname = \"kill\"\nshell = true\ncommand = \"kill -9 $(cat /run/holo.pid)\"\n",
    );
    assert!(!system.run("holo", &["apply"]).success());
    assert_eq!(system.must("stat -c %a /run/holo.pid"), "600\n");
    assert!(system.must("ls -d /tmp/holo*").contains_str("/tmp/holo"), "the cache directory of the killed run is left");
    assert_eq!(readable(&system), "");
    assert!(!system.sh(&format!("{NOBODY} flock -s /run/holo.pid true")).success());
    // Version 3 leaves a file that everyone can read.
    system.must("chmod 644 /run/holo.pid; rm /usr/share/holo/exec/spy.toml");
    system
        .write("/usr/share/holo/exec/look.toml", "[[exec]]\nname = \"look\"\ncommand = \"stat -c %a /run/holo.pid\"\n");
    let run = system.run("holo", &["apply"]);
    assert!(run.success() && run.stdout.contains_str("\n600\n"), "{run}");
}
