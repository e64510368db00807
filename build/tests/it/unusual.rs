//! Packages with unusual contents: none at all, very many files, long names, special modes.

use crate::support::{BASE, Desk, FORMATS};
use holo_testing::{Need, trial_of};
use libtest_mimic::Trial;
use std::env;
use std::fmt::Write;
use std::time::Duration;

pub(crate) fn trials() -> Vec<Trial> {
    let tools = ["dpkg-deb", "pacman", "rpm"].map(Need::Program);
    vec![
        trial_of("packages_without_files_are_valid", &tools, packages_without_files_are_valid),
        trial_of("very_many_files_are_packaged", &tools, very_many_files_are_packaged),
        trial_of("trees_keep_modes_and_give_way_to_tables", &tools, trees_keep_modes_and_give_way_to_tables),
        trial_of("files_of_trees_can_be_configuration", &tools, files_of_trees_can_be_configuration),
        trial_of("contents_are_unindented_unless_raw", &tools, contents_are_unindented_unless_raw),
        trial_of("owners_by_name_are_set_by_the_setup_script", &tools, owners_by_name_are_set_by_the_setup_script),
        trial_of("scripts_can_consist_of_comments", &[Need::Program("xz")], scripts_can_consist_of_comments),
        trial_of("resources_imply_dependencies_and_actions", &tools, resources_imply_dependencies_and_actions),
        trial_of("directories_for_resources_imply_nothing", &tools, directories_for_resources_imply_nothing),
    ]
}

/// Returns the number of files in a package, without those that describe it.
fn count(desk: &Desk, format: &str, name: &str) -> usize {
    let listed = match format {
        "debian" => desk.sh(&format!("dpkg-deb --fsys-tarfile {name} | tar -t | grep -v '/$' | wc -l")),
        "pacman" => desk.sh(&format!("pacman --dbpath . -Qlpq {name} | grep -v '/$' | wc -l")),
        _ => desk
            .sh(&format!("rpm -K --nosignature {name} >&2; rpm -qpl {name} | grep -v '(contains no files)' | wc -l")),
    };
    listed.trim().parse().unwrap()
}

fn packages_without_files_are_valid() {
    let desk = Desk::new(&format!("{BASE}requires = ['bar']\n"));
    for (format, name) in FORMATS {
        assert_eq!(desk.build(format), name);
        assert_eq!(count(&desk, format, name), 0);
    }
    let shown = desk.sh("rpm -qp --requires foo*.rpm; dpkg-deb -I foo*.deb; pacman --dbpath . -Qip foo*.xz");
    let required = ["bar\n", " Depends: bar\n", "Depends On      : bar\n"];
    assert!(required.iter().all(|line| shown.contains(line)), "{shown}");
}

/// The number of files of the largest package, by default 20,000.
const FILES: &str = "HOLO_TEST_FILES";

fn very_many_files_are_packaged() {
    let files = env::var(FILES).map_or(20_000, |files| files.parse().unwrap());
    let mut text = BASE.to_owned();
    for number in 0..files {
        let _ = write!(text, "[[file]]\npath = '/srv/{}/{number}'\ncontent = '{number}'\n", number % 97);
    }
    let desk = Desk { root: Desk::new(&text).root.time_limit(Duration::from_secs(3600)) };
    for (format, name) in FORMATS {
        assert!(desk.try_build(format).success());
        assert_eq!(count(&desk, format, name), files);
    }
}

fn trees_keep_modes_and_give_way_to_tables() {
    let desk =
        Desk::new(&format!("{BASE}tree = 'tree'\n[[file]]\npath = '/etc/b'\ncontent = 'table'\nmode = '0600'\n"));
    desk.sh("mkdir -p tree/etc/empty tree/usr/bin; chmod 700 tree/etc tree/etc/empty; echo a >tree/etc/a
        chmod 640 tree/etc/a; echo b >tree/etc/b; echo x >tree/usr/bin/x; chmod 4755 tree/usr/bin/x; ln -s a tree/etc/c
        chown 7:7 tree/etc/a || :");
    let name = desk.build("debian");
    let listed = desk.sh(&format!("dpkg-deb -c {name} | sed 's/ \\+/ /g; s/1970-01-01 00:00 //'"));
    assert_eq!(
        listed,
        "drwxr-xr-x root/root 0 ./\ndrwxr-xr-x root/root 0 ./etc/\n-rw-r----- root/root 2 ./etc/a\n\
         -rw------- root/root 5 ./etc/b\nlrwxrwxrwx root/root 0 ./etc/c -> a\ndrwx------ root/root 0 ./etc/empty/\n\
         drwxr-xr-x root/root 0 ./usr/\ndrwxr-xr-x root/root 0 ./usr/bin/\n-rwsr-xr-x root/root 2 ./usr/bin/x\n"
    );
}

fn files_of_trees_can_be_configuration() {
    let desk = Desk::new(&format!(
        "{BASE}tree = 'tree'\n[[file]]\npath = '/etc/a.conf'\ncontentFrom = 'tree/etc/a.conf'\nconfig = true\n"
    ));
    desk.sh("mkdir -p tree/etc; echo a >tree/etc/a.conf; echo b >tree/etc/b.conf; chmod 600 tree/etc/a.conf");
    FORMATS.iter().for_each(|(format, _)| drop(desk.build(format)));
    let shown = desk.sh("dpkg-deb -I foo*.deb conffiles; dpkg-deb --fsys-tarfile foo*.deb | tar -xO ./etc/a.conf
        dpkg-deb -c foo*.deb | grep -c a.conf; tar -xOf foo*.xz .PKGINFO | grep backup; rpm -qpc foo*.rpm");
    assert_eq!(shown, "/etc/a.conf\na\n1\nbackup = etc/a.conf\n/etc/a.conf\n");
}

fn contents_are_unindented_unless_raw() {
    let content = "content = \"\"\"\n    one\n      two\n    \"\"\"\n";
    let desk =
        Desk::new(&format!("{BASE}[[file]]\npath = '/a'\n{content}[[file]]\npath = '/b'\nraw = true\n{content}"));
    let name = desk.build("debian");
    let read = |path: &str| desk.sh(&format!("dpkg-deb --fsys-tarfile {name} | tar -xO ./{path}"));
    assert_eq!((&*read("a"), &*read("b")), ("one\n  two\n", "    one\n      two\n    "));
}

fn owners_by_name_are_set_by_the_setup_script() {
    let desk = Desk::new(&format!(
        "{BASE}[[file]]\npath = '/a b'\ncontent = 'x'\nmode = '4755'\nowner = 'joe'\ngroup = 7\n[[action]]\non = 'setup'\nscript = 'mine'\n"
    ));
    let name = desk.build("debian");
    let script = desk.must("dpkg-deb", &["-I", &name, "postinst"]);
    assert_eq!(script, "#!/bin/bash\nchown joe '/a b'\nchmod 4755 '/a b'\nmine\n");
    assert!(desk.sh(&format!("dpkg-deb -c {name}")).contains("-rwsr-xr-x root/7 "));
    let name = desk.build("rpm");
    let script = desk.must("rpm", &["-qp", "--scripts", &format!("./{name}")]);
    assert!(script.contains("chown joe '/a b'\nchgrp 7 '/a b'\nchmod 4755 '/a b'\nmine\n"), "{script}");
}

fn scripts_can_consist_of_comments() {
    let action = |on: &str| format!("[[action]]\non = '{on}'\nscript = '  # later'\n");
    let desk = Desk::new(&format!("{BASE}{}{}", action("setup"), action("cleanup")));
    let name = desk.build("pacman");
    desk.sh(&format!("tar -xOf {name} .INSTALL >install; . ./install; post_install; post_upgrade; post_remove"));
}

fn resources_imply_dependencies_and_actions() {
    let desk = Desk::new(&format!(
        "{BASE}requires = ['zz', 'holo-files >= 3']\n[[file]]\npath = '/usr/share/holo/run-scripts/x'\ncontent = 'x'\n\
         [[file]]\npath = '/usr/share/holo/files/x/y'\ncontent = 'x'\n[[file]]\npath = '/usr/share/holo/data/x.toml'\n\
         content = 'x'\n[[user]]\nname = 'u'\ngroups = ['g']\n[[group]]\nname = 'g'\ngid = 7\n\
         [[action]]\non = 'cleanup'\nscript = 'mine'\n"
    ));
    let name = desk.build("debian");
    let shown = desk.must("dpkg-deb", &["-f", &name, "Depends"]);
    assert_eq!(shown, "zz, holo-files (>= 3), holo-run-scripts, holo-users-groups\n");
    assert_eq!(desk.must("dpkg-deb", &["-I", &name, "postinst"]), "#!/bin/bash\nholo apply\n");
    let script = desk.must("dpkg-deb", &["-I", &name, "postrm"]);
    assert!(script.ends_with("exit 0; fi\nholo apply\nmine\n"), "{script}");
    let path = "./usr/share/holo/users-groups/foo.toml";
    let definitions = desk.sh(&format!("dpkg-deb --fsys-tarfile {name} | tar -xO {path}"));
    assert_eq!(definitions, "[[group]]\ngid = 7\nname = \"g\"\n\n[[user]]\ngroups = [\"g\"]\nname = \"u\"\n");
}

fn directories_for_resources_imply_nothing() {
    let directory = |path: &str| format!("[[directory]]\npath = '/usr/share/holo/{path}'\n");
    let desk = Desk::new(&format!("{BASE}tree = 'tree'\n{}{}", directory("files"), directory("services/50-x")));
    desk.sh("mkdir -p tree/usr/share/holo/users-groups");
    FORMATS.iter().for_each(|(format, _)| drop(desk.build(format)));
    let shown = desk.sh("rpm -qp --requires --scripts foo*.rpm; dpkg-deb -I foo*.deb; tar -xOf foo*.xz .PKGINFO
        tar -tf foo*.xz | grep INSTALL || :");
    assert!(!shown.contains("holo-files") && !shown.contains("holo-services"), "{shown}");
    assert!(!shown.contains("holo-users-groups") && !shown.contains("apply") && !shown.contains("INSTALL"), "{shown}");
}
