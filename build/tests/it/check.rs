//! `--check`: mistakes in the resource files of a package.

use crate::support::{BASE, Desk};
use holo_testing::{Need, ScratchRoot, binaries, trial_of, trials};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = trials![
        valid_resources_pass_and_are_built,
        mistakes_are_found_with_their_lines,
        mistakes_in_a_tree_are_found,
        files_that_no_plugin_reads_are_found,
        check_needs_holo_and_a_build_does_not,
        packages_without_resources_need_no_plugin,
        symlinks_do_not_lead_out_of_the_check,
        configuration_of_the_package_does_not_apply,
    ];
    // tar calls it.
    let needs = [Need::Program("xz")];
    trials.push(trial_of("adopted_changes_become_a_package", &needs, adopted_changes_become_a_package));
    trials.push(trial_of("adopted_files_of_all_kinds_become_a_package", &needs, adopted_files_of_all_kinds));
    trials
}

/// A desk with the built holo and its plugins in `PATH`.
#[track_caller]
fn desk(description: &str) -> Desk {
    for name in ["holo-files", "holo-users-groups", "holo-run-scripts", "holo-services"] {
        let _ = binaries::built(name);
    }
    let path = format!("{}:/usr/bin:/bin", binaries::built("holo").parent().unwrap().display());
    Desk { root: ScratchRoot::new().env("PATH", path).file("p.toml", description) }
}

const VALID: &str = "
[[file]]
path = '/usr/share/holo/files/50-foo/etc/motd'
content = 'x'
[[file]]
path = '/usr/share/holo/files/50-foo/etc/hosts.holoscript'
content = '#!/bin/sh'
mode = '0755'
[[file]]
path = '/usr/share/holo/run-scripts/50-foo.sh'
content = '#!/bin/sh'
mode = '0755'
[[file]]
path = '/usr/share/holo/services/50-foo.toml'
content = \"\"\"
    [[service]]
    name = 'x'
    enable = true
    \"\"\"
[[user]]
name = 'u'
";

fn valid_resources_pass_and_are_built() {
    let desk = desk(&format!("{BASE}{VALID}"));
    let checked = desk.run(&["--check", "--format", "debian", "p.toml"]);
    assert!(checked.success() && checked.stderr.is_empty(), "{checked}");
    assert!(!desk.root.exists("foo_1.0-1_all.deb"));
    let built = desk.run(&["--format", "debian", "p.toml"]);
    assert!(built.success() && built.stderr.is_empty(), "{built}");
    assert!(desk.root.exists("foo_1.0-1_all.deb"));
}

fn mistakes_are_found_with_their_lines() {
    let desk = desk(&format!(
        "{BASE}
[[file]]
path = '/usr/share/holo/files/etc/motd'
content = 'x'
[[file]]
path = '/usr/share/holo/files/50-foo/etc/hosts.holoscript'
content = '#!/bin/sh'
[[file]]
path = '/usr/share/holo/files/notes.txt'
content = 'x'
[[file]]
path = '/usr/share/holo/readme'
content = 'x'
[[file]]
path = '/usr/share/holo/file/50-foo/etc/x'
content = 'x'
[[file]]
path = '/usr/share/holo/services/50-foo.toml'
content = \"\"\"
    [[services]]
    name = 'x'
    \"\"\"
[[file]]
path = '/usr/share/holo/run-scripts/50-foo.sh'
content = '#!/bin/sh'
[[file]]
path = '/usr/share/holo/users-groups/50-foo.toml'
content = \"[[user]]\\nname = 1\"
"
    ));
    for arguments in [&["--check", "p.toml", "--format", "rpm"][..], &["p.toml", "--format", "rpm"]] {
        let run = desk.run(arguments);
        assert_eq!(run.status, Some(1), "{run}");
        let shown = run.stderr_lossy().into_owned();
        let remedy = "install it to check this file, or build with --no-check";
        for expected in [
            "!! p.toml:8: /usr/share/holo/files/etc/motd: has no disambiguator; insert a directory such as 50-NAME after files/".to_owned(),
            "!! p.toml:11: /usr/share/holo/files/50-foo/etc/hosts.holoscript: is a script, but not executable; set mode = \"0755\"".to_owned(),
            "!! p.toml:14: /usr/share/holo/files/notes.txt: the plugin files does not read this file".to_owned(),
            "!! p.toml:17: /usr/share/holo/readme: no plugin reads a file here".to_owned(),
            format!("!! p.toml:20: /usr/share/holo/file/50-foo/etc/x: no plugin file is installed, did you mean files?; {remedy}"),
            "!! p.toml:23: /usr/share/holo/services/50-foo.toml:1: unknown table [[services]], did you mean [[service]]?".to_owned(),
            "!! p.toml:29: /usr/share/holo/run-scripts/50-foo.sh: is a script, but not executable; set mode = \"0755\"".to_owned(),
            "!! p.toml:32: File /usr/share/holo/users-groups/50-foo.toml is invalid:".to_owned(),
        ] {
            assert!(shown.lines().any(|line| line == expected), "{expected}\nnot in\n{shown}");
        }
        assert_eq!(shown.lines().filter(|line| line.starts_with("!!")).count(), 8, "{shown}");
        assert!(!desk.root.exists("foo-1.0-1.noarch.rpm"));
    }
    assert!(desk.try_build("rpm").success());
}

fn mistakes_in_a_tree_are_found() {
    let desk = desk(&format!("{BASE}\ntree = 'tree'\n"));
    desk.root.write("tree/usr/share/holo/files/etc/motd", "x");
    let run = desk.run(&["--check", "p.toml", "--format", "rpm"]);
    let expected = "!! p.toml:6: /usr/share/holo/files/etc/motd: has no disambiguator; insert a directory such as 50-NAME after files/\n";
    assert!(run.status == Some(1) && run.stderr == expected, "{run}");
}

fn files_that_no_plugin_reads_are_found() {
    let file = |path: &str| format!("[[file]]\npath = '/usr/share/holo/{path}'\ncontent = '[[group]]'\n");
    let paths = ["services/notes.txt", "services/sub/x.toml", "users-groups/x.toml.bak", "run-scripts/sub/x"];
    let unread: String = paths.iter().map(|path| file(path)).collect();
    let template = file("users-groups/50-x.toml.jinja").replace("'[[group]]'", "\"[[group]]\\nname = 'g'\"");
    let checked = desk(&format!("{BASE}{unread}{template}")).run(&["--check", "--format", "rpm", "p.toml"]);
    let expected = paths.iter().zip([7, 10, 13, 16]).map(|(path, line)| {
        let plugin = path.split('/').next().unwrap();
        format!("!! p.toml:{line}: /usr/share/holo/{path}: the plugin {plugin} does not read this file\n")
    });
    assert_eq!(checked.stderr_lossy(), expected.collect::<String>());
}

fn check_needs_holo_and_a_build_does_not() {
    let text = format!("{BASE}[[file]]\npath = '/usr/share/holo/files/etc/motd'\ncontent = 'x'\n");
    let desk = Desk { root: ScratchRoot::new().env("PATH", "/bin").file("p.toml", text) };
    let checked = desk.run(&["--check", "--format", "rpm", "p.toml"]);
    let error = "!! holo is not installed, so the package cannot be checked\n";
    assert!(checked.status == Some(2) && checked.stderr == error, "{checked}");
    assert!(desk.run(&["--format", "rpm", "p.toml"]).success());
}

fn packages_without_resources_need_no_plugin() {
    let desk = desk(&format!("{BASE}[[file]]\npath = '/etc/x'\ncontent = 'x'\n"));
    let checked = desk.run(&["--check", "--format", "rpm", "p.toml"]);
    assert!(checked.success() && checked.stderr.is_empty(), "{checked}");
}

fn symlinks_do_not_lead_out_of_the_check() {
    for path in ["etc", "etc/holorc", "etc/holorc.d", "etc/os-release", "run", "var", "var/lib/holo", "tmp"] {
        let desk = desk("");
        let victim = desk.root.join("victim");
        let target = victim.display();
        desk.root.write(
            "p.toml",
            format!(
                "{BASE}{VALID}[[symlink]]\npath = '/{path}'\ntarget = '{target}'\n\
                 [[symlink]]\npath = '/usr/share/holo/files/50-foo/etc/link'\ntarget = '{target}'\n"
            ),
        );
        desk.root.write("etc/os-release", "ID=debian\n");
        desk.sh("mkdir victim; echo mine | tee victim/holorc >victim/os-release");
        let checked = desk.run(&["--check", "p.toml"]);
        assert!(checked.success() && checked.stderr.is_empty(), "{path}: {checked}");
        assert_eq!(
            desk.sh("cd victim; find . -type f | sort; cat *"),
            "./holorc\n./os-release\nmine\nmine\n",
            "{path}"
        );
        // A file of the machine that the package links to is not changed either.
        desk.sh("rm -r victim; echo mine >victim");
        let checked = desk.run(&["--check", "p.toml"]);
        assert!(checked.success() && desk.root.read("victim") == "mine\n", "{path}: {checked}");
    }
}

fn configuration_of_the_package_does_not_apply() {
    let text = format!(
        "{BASE}{VALID}[[file]]\npath = '/etc/holorc.d/10-files'\ncontent = 'plugin files'\n\
         [[file]]\npath = '/etc/holorc'\ncontent = 'plugin nope'\n"
    );
    let checked = desk(&text).run(&["--check", "--format", "rpm", "p.toml"]);
    assert!(checked.success() && checked.stderr.is_empty(), "{checked}");
}

fn adopted_changes_become_a_package() {
    let desk = desk("");
    desk.root.write("etc/holorc", "plugin files\n");
    desk.root.write("usr/share/holo/files/10-x/etc/conf", "one\ntwo\nthree\n");
    desk.root.write("etc/conf", "stock\n");
    let applied = desk.root.holo(&["apply"]);
    assert!(applied.success(), "{applied}");
    desk.root.write("etc/conf", "one\ntwo, changed\nthree\n");
    let adopted = desk.root.holo(&["adopt", "/etc/conf", "--package", "web", "--output", "web.toml"]);
    assert!(adopted.success(), "{adopted}");
    let built = desk.run(&["--format", "pacman", "web.toml"]);
    assert!(built.success() && built.stderr.is_empty(), "{built}");
    assert!(!desk.root.exists("etc/holo/resources"));
    // Installed, the package keeps the change.
    desk.sh("tar -xf web-1.0-1-any.pkg.tar.xz --exclude '.*'");
    let checked = desk.root.holo(&["check"]);
    assert!(checked.success(), "{checked}");
    assert_eq!(desk.root.read("etc/conf"), "one\ntwo, changed\nthree\n");
}

fn adopted_files_of_all_kinds() {
    let desk = desk("");
    desk.root.write("etc/holorc", "plugin files\n");
    desk.root.write("usr/share/holo/files/10-x/etc/conf", "stock\n");
    desk.root.write("etc/conf", "stock\n");
    desk.sh("mkdir -p srv usr/local/bin; printf 'a\\0\\377\\n' >etc/conf; printf '\\377tool' >usr/local/bin/my-tool
        chmod 4755 usr/local/bin/my-tool; echo text >srv/text; chmod 600 srv/text; ln -s ../etc/conf srv/link");
    let paths = ["/etc/conf", "/usr/local/bin/my-tool", "/srv/text", "/srv/link"];
    let adopted = desk.root.holo(&[&["adopt", "--package", "web", "--output", "web.toml"][..], &paths].concat());
    assert!(adopted.success(), "{adopted}");
    assert_eq!(
        desk.sh("find web.files -type f | sort"),
        "web.files/files/90-web/etc/conf\nweb.files/files/adopted-usr-local-bin-my_-tool.content\n"
    );
    let built = desk.run(&["--format", "pacman", "web.toml"]);
    assert!(built.success() && built.stderr.is_empty(), "{built}");
    // On another machine, the package installs the same files.
    let state = "stat -c '%a %N' etc/conf usr/local/bin/* srv/*; md5sum etc/conf usr/local/bin/* srv/text";
    let before = desk.sh(state);
    desk.sh("echo stock >etc/conf; rm -r usr/local srv; tar -xf web-1.0-1-any.pkg.tar.xz --exclude '.*'");
    let applied = desk.root.holo(&["apply"]);
    assert!(applied.success(), "{applied}");
    assert_eq!(desk.sh(state), before);
}
