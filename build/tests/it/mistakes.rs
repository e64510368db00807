//! Each rule of descriptions, broken once.

use crate::support::{BASE, Desk};
use holo_build::{Format, Source};
use holo_testing::{random, trials};
use libtest_mimic::Trial;
use std::io;
use std::path::Path;

pub(crate) fn trials() -> Vec<Trial> {
    trials![
        values_of_the_package_table,
        values_of_other_tables,
        rules_of_single_formats,
        all_mistakes_are_reported_in_order,
        a_mistake_hides_no_others,
        tables_in_several_spellings,
        unknown_keys_are_warnings,
        deprecated_keys_are_warnings,
        files_that_cannot_be_read,
        names_that_are_too_long,
        paths_that_are_too_long,
        random_damage_is_reported_or_builds,
        trees_that_cannot_be_packaged,
    ]
}

/// Builds a description that is invalid, and returns its errors.
#[track_caller]
fn errors(description: &str, format: &str) -> Vec<String> {
    let desk = Desk::new(description);
    let run = desk.try_build(format);
    assert_eq!(run.status, Some(1), "{description}\n{run}");
    assert!(run.stdout.is_empty(), "{run}");
    assert!(["foo_1.0-1_all.deb", "foo-1.0-1.noarch.rpm"].iter().all(|name| !desk.root.exists(name)), "{description}");
    run.stderr_lossy().lines().map(str::to_owned).collect()
}

#[track_caller]
fn check(cases: &[(&str, &str)], format: &str) {
    for (added, expected) in cases {
        let base = if added.starts_with("[package]") || added.is_empty() { "" } else { BASE };
        assert_eq!(errors(&format!("{base}{added}"), format), [format!("!! p.toml:{expected}")], "{added}");
    }
}

fn values_of_the_package_table() {
    check(
        &[
            ("", " [package] is missing"),
            ("[package]\nversion = '1'\n", "1: name: is missing"),
            ("[package]\nname = 'x'\n", "1: version: is missing"),
            (
                "[package]\nname = 'x y'\nversion = '1'\n",
                "2: name: \"x y\" is not a valid name for RPM packages: expected letters, digits and . _ + -, beginning with a letter, a digit or _",
            ),
            (
                "[package]\nname = \"x\\ny\"\nversion = '1'\n",
                "2: name: \"x\\ny\" is not a valid name for RPM packages: expected letters, digits and . _ + -, beginning with a letter, a digit or _",
            ),
            (
                "[package]\nname = 'x'\nversion = '1.02'\n",
                "3: version: \"1.02\" is not a version: expected numbers without leading zeros, joined by dots, such as 1.2.0",
            ),
            (
                "[package]\nname = 'x'\nversion = 1.0\n",
                "3: version: expected a string, found 1.0; write it in quotes: \"1.0\"",
            ),
            ("alpha = 1\nbeta = 2\n", "6: beta: excludes alpha; remove one of them"),
            ("beta = -1\n", "5: beta: expected a whole number that is not negative, found -1"),
            ("release = 0\n", "5: release: is 0; releases are counted from 1"),
            ("epoch = 4294967296\n", "5: epoch: expected a whole number up to 4294967295, found 4294967296"),
            ("description = \"a\\u0007\"\n", "5: description: contains control characters"),
            ("details = \"a\\tb\"\n", "5: details: contains control characters"),
            ("details = \" \\n\"\n", "5: details: is empty"),
            ("changes = ''\n", "5: changes: is empty"),
            ("changes = \"a\\u0000\"\n", "5: changes: contains control characters"),
            ("[package]\nname = 'x'\nversion = '1'\nchanges = 'x'\n", "1: author: is missing"),
            ("license = ' '\n", "5: license: is empty"),
            ("license = \"a\\nb\"\n", "5: license: has several lines"),
            ("license = \"a\\u0007\"\n", "5: license: contains control characters"),
            ("homepage = ''\n", "5: homepage: is empty"),
            ("homepage = \"https://x\\nb\"\n", "5: homepage: has several lines"),
            (
                "homepage = 'example.org'\n",
                "5: homepage: \"example.org\" is not an address such as \"https://example.org\"",
            ),
            (
                "homepage = 'https://example.org x'\n",
                "5: homepage: \"https://example.org x\" is not an address such as \"https://example.org\"",
            ),
            (
                "[package]\nname = 'x'\nversion = '1'\nauthor = 'Jane'\n",
                "4: author: \"Jane\" does not have the form \"Jane Doe <jane.doe@example.org>\"",
            ),
            ("architecture = 'amd46'\n", "5: architecture: \"amd46\" is unknown, did you mean amd64?"),
            (
                "architecture = 'riscv'\n",
                "5: architecture: \"riscv\" is unknown, expected one of any, all, noarch, i386, i686, x86_64, amd64, arm, armel, armv5tl, armv6h, armv6hl, armhf, armv7h, armv7hl, arm64, aarch64",
            ),
            ("requires = 'x'\n", "5: requires: expected a list, found a string; write it in brackets: [...]"),
            ("requires = [\n'x',\n1\n]\n", "7: requires[1]: expected a string, found 1; write it in quotes: \"1\""),
            (
                "requires = ['x == 1']\n",
                "5: requires: \"x == 1\" is not valid: expected NAME or NAME OP VERSION, where OP is = > >= < or <=",
            ),
            (
                "conflicts = ['x 1']\n",
                "5: conflicts: \"x 1\" is not valid: expected NAME or NAME OP VERSION, where OP is = > >= < or <=",
            ),
            (
                "replaces = ['x > $1']\n",
                "5: replaces: \"$1\" in \"x > $1\" is not a valid version: expected letters, digits and . + ~ - :",
            ),
            ("requires = ['group:base']\n", "5: requires: \"group:base\" is only possible in packages for pacman"),
            ("setupScript = 1\n", "5: setupScript: expected a string, found 1; write it in quotes: \"1\""),
        ],
        "rpm",
    );
    assert_eq!(errors("package = 1\n", "rpm"), ["!! p.toml:1: package: expected [package], found a number"]);
    assert_eq!(errors("[package]\nname = x\n", "rpm"), ["!! p.toml:2: name: a string has to be in quotes: \"...\""]);
}

fn values_of_other_tables() {
    let path = "path: \"etc/x\" is not an absolute path";
    let plain = "is not written plainly: no `.`, no `..`, no slash twice or at the end";
    let twice = |path: &str, line: usize| format!("{path} is declared twice (see line {line})");
    let cases = [
        ("[file]\npath = '/x'\n", "5: file: expected [[file]], found a table".to_owned()),
        ("[[file]]\ncontent = 'x'\n", "5: path: is missing".to_owned()),
        ("[[file]]\npath = '/x'\n", "5: content: is missing".to_owned()),
        ("[[file]]\npath = 'etc/x'\ncontent = 'x'\n", format!("6: {path}")),
        ("[[file]]\npath = '/etc/x/'\ncontent = 'x'\n", format!("6: path: \"/etc/x/\" {plain}")),
        ("[[file]]\npath = '/etc/../x'\ncontent = 'x'\n", format!("6: path: \"/etc/../x\" {plain}")),
        ("[[file]]\npath = '//etc/x'\ncontent = 'x'\n", format!("6: path: \"//etc/x\" {plain}")),
        ("[[file]]\npath = \"/etc/x\\ny\"\ncontent = 'x'\n", "6: path: \"/etc/x\\ny\" contains control characters".to_owned()),
        ("[[directory]]\npath = '/'\n", "6: path: \"/\" is the root itself".to_owned()),
        ("[[file]]\npath = '/x'\ncontent = ''\n", "7: content: is empty".to_owned()),
        ("[[file]]\npath = '/x'\ncontent = 'x'\ncontentFrom = 'x'\n", "8: contentFrom: excludes content; remove one of them".to_owned()),
        ("[[file]]\npath = '/x'\ncontent = 'x'\nmode = '0888'\n", "8: mode: \"0888\" is not an octal number up to 7777, such as \"0644\"".to_owned()),
        ("[[file]]\npath = '/x'\ncontent = 'x'\nmode = '77777'\n", "8: mode: \"77777\" is not an octal number up to 7777, such as \"0644\"".to_owned()),
        ("[[file]]\npath = '/x'\ncontent = 'x'\nmode = 0o644\n", "8: mode: expected a string, found 0o644; write it in quotes: \"644\"".to_owned()),
        ("[[file]]\npath = '/x'\ncontent = 'x'\nowner = -1\n", "8: owner: -1 is not a number from 0 to 4294967294".to_owned()),
        ("[[file]]\npath = '/x'\ncontent = 'x'\nowner = '33'\n", "8: owner: \"33\" is a string; write the number without quotes".to_owned()),
        ("[[file]]\npath = '/x'\ncontent = 'x'\ngroup = 'a b'\n", "8: group: \"a b\" is neither a name nor a number".to_owned()),
        ("[[file]]\npath = '/x'\ncontent = 'x'\ngroup = true\n", "8: group: expected a name or a number".to_owned()),
        ("[[file]]\npath = '/x'\ncontent = 'x'\nraw = 'yes'\n", "8: raw: expected true or false, found a string".to_owned()),
        ("[[symlink]]\npath = '/x'\n", "5: target: is missing".to_owned()),
        ("[[symlink]]\npath = '/x'\ntarget = ''\n", "7: target: is empty".to_owned()),
        ("[[symlink]]\npath = '/x'\ntarget = \"a\\nb\"\n", "7: target: \"a\\nb\" contains control characters".to_owned()),
        ("[[action]]\nscript = 'x'\n", "5: on: is missing".to_owned()),
        ("[[action]]\non = 'setup'\n", "5: script: is missing".to_owned()),
        ("[[action]]\non = 'setup'\nscript = ' '\n", "7: script: is empty".to_owned()),
        ("[[action]]\non = 'setups'\nscript = 'x'\n", "6: on: expected one of setup, cleanup, removal, purge, found \"setups\"; did you mean setup?".to_owned()),
        ("[[action]]\non = 'upgrade'\nscript = 'x'\n", "6: on: expected one of setup, cleanup, removal, purge, found \"upgrade\"".to_owned()),
        ("[[action]]\non = 'purge'\nscript = ''\n", "7: script: is empty".to_owned()),
        ("[trigger]\npath = '/x'\n", "5: trigger: expected [[trigger]], found a table".to_owned()),
        ("[[trigger]]\nscript = 'x'\n", "5: path: is missing".to_owned()),
        ("[[trigger]]\npath = '/x'\n", "5: script: is missing".to_owned()),
        ("[[trigger]]\npath = '/x'\nscript = ' '\n", "7: script: is empty".to_owned()),
        ("[[trigger]]\npath = '/x'\nscript = \"a\\u0000\"\n", "7: script: contains a NUL byte".to_owned()),
        ("[[trigger]]\npath = '/x'\nscript = 1\n", "7: script: expected a string, found 1; write it in quotes: \"1\"".to_owned()),
        ("[[trigger]]\npath = 'etc/x'\nscript = 'x'\n", format!("6: {path}")),
        ("[[trigger]]\npath = '/etc/x/'\nscript = 'x'\n", format!("6: path: \"/etc/x/\" {plain}")),
        ("[[trigger]]\npath = '/'\nscript = 'x'\n", "6: path: \"/\" is the root itself".to_owned()),
        ("[[file]]\npath = '/x'\ncontent = 'x'\n[[symlink]]\npath = '/x'\ntarget = 'y'\n", format!("8: {}", twice("/x", 7))),
        ("[[directory]]\npath = '/x'\n[[directory]]\npath = '/x'\n", format!("7: {}", twice("/x", 5))),
        ("[[symlink]]\npath = '/x'\ntarget = '/etc'\n[[file]]\npath = '/x/y'\ncontent = 'x'\n", "10: /x/y is inside of /x, which is a symlink (see line 5)".to_owned()),
        ("[[file]]\npath = '/x'\ncontent = 'x'\n[[directory]]\npath = '/x/y'\n", "8: /x/y is inside of /x, which is a file (see line 7)".to_owned()),
        ("[[user]]\nuid = 1\n", "5: users[0] is missing required 'name' attribute".to_owned()),
        ("[[user]]\nname = 'a:b'\n", "6: name \"a:b\" of users[0] is not valid: a name must not contain blanks, colons, commas, slashes or quotes".to_owned()),
        ("[[group]]\nname = 'x'\ngid = 'x'\n", "7: gid of groups[0]: expected a whole number that is not negative, found a string".to_owned()),
        ("[[file]]\npath = '/usr/share/holo/files/x/y'\ncontent = 'x'\n[[file]]\npath = '/usr/share/holo/a b/x'\ncontent = 'x'\n", "10: the plugin a b cannot be required: \"holo-a b\" is not a valid name for RPM packages: expected letters, digits and . _ + -, beginning with a letter, a digit or _".to_owned()),
    ];
    let cases: Vec<(&str, &str)> = cases.iter().map(|(added, expected)| (*added, expected.as_str())).collect();
    check(&cases, "rpm");
}

fn rules_of_single_formats() {
    let trigger = |path: &str| format!("[[trigger]]\nscript = 'x'\npath = '{path}'\n");
    let blank = "7: path: dpkg knows no triggers whose paths contain blanks or characters that are not ASCII";
    let long = format!("/{}", "long/".repeat(47));
    check(
        &[
            ("[package]\nname = 'xx'\nversion = '1'\n", "1: author: is missing"),
            (
                "[package]\nname = 'x'\nversion = '1'\nauthor = 'J <j@x>'\n",
                "2: name: \"x\" is not a valid name for Debian packages: expected at least two of a-z 0-9 + . -, beginning with a letter or digit",
            ),
            (
                "requires = ['x_y']\n",
                "5: requires: \"x_y\" is not a valid name for Debian packages: expected at least two of a-z 0-9 + . -, beginning with a letter or digit",
            ),
            (
                "requires = ['xx = 1-']\n",
                "5: requires: \"1-\" in \"xx = 1-\" is not a valid version for Debian packages: expected [EPOCH:]VERSION[-REVISION], where VERSION begins with a digit and REVISION contains letters, digits and . + ~",
            ),
            ("epoch = 2147483648\n", "5: epoch: is more than 2147483647, which is the greatest in packages for Debian"),
            (
                "provides = ['xx', 'xx = 1', 'xx >= 1']\n",
                "5: provides: xx has a version with >=, which is not possible in a Debian package; write xx = VERSION",
            ),
            (
                "changes = 'x'\n[[file]]\npath = '/usr/share/doc/foo/changelog.Debian.gz'\ncontent = 'x'\n",
                "8: /usr/share/doc/foo/changelog.Debian.gz is declared twice (see line 5)",
            ),
            (&trigger("/opt/a b"), blank),
            (&trigger("/opt/é"), blank),
            (&trigger(&format!("{long}xx")), "7: path: is too long for a trigger: dpkg reads at most 237 bytes"),
        ],
        "debian",
    );
    assert!(Desk::new(&format!("{BASE}{}", trigger(&format!("{long}x")))).try_build("debian").success());
    let long = "/****".repeat(500);
    check(
        &[
            (
                "[package]\nname = '-x'\nversion = '1'\n",
                "2: name: \"-x\" is not a valid name for pacman packages: expected a-z 0-9 @ . _ + -, not beginning with -",
            ),
            (
                "conflicts = ['X']\n",
                "5: conflicts: \"X\" is not a valid name for pacman packages: expected a-z 0-9 @ . _ + -, not beginning with -",
            ),
            (
                "[[file]]\npath = '/.INSTALL'\ncontent = 'x'\n",
                "7: /.INSTALL: pacman installs nothing at paths that begin with /.",
            ),
            (
                "[[file]]\npath = '/.x/y'\ncontent = 'x'\n",
                "7: /.x: pacman installs nothing at paths that begin with /.",
            ),
            (&trigger(&long), "7: path: is too long for a trigger: pacman reads at most 4000 bytes"),
            (
                "[[file]]\npath = '/usr/share/libalpm/hooks/foo.hook'\ncontent = 'x'\n[[trigger]]\npath = '/x'\nscript = 'x'\n",
                "8: /usr/share/libalpm/hooks/foo.hook is declared twice (see line 7)",
            ),
            (
                "provides = ['X_']\nconflicts = ['x_X']\n",
                "6: conflicts: \"x_X\" is not a valid name for pacman packages: expected a-z 0-9 @ . _ + -, not beginning with -",
            ),
            (
                "requires = ['except:X']\n",
                "5: requires: \"X\" is not a valid name for pacman packages: expected a-z 0-9 @ . _ + -, not beginning with -",
            ),
        ],
        "pacman",
    );
}

fn all_mistakes_are_reported_in_order() {
    let text = "colour = 1\n[[file]]\npath = 'x'\nmode = '9'\nowner = 1.5\n[package]\nname = 'x y'\nversion = 1\nrelaese = 1\n\
                [[symlink]]\ntarget = ''\n[[user]]\nname = 1\n";
    assert_eq!(
        errors(text, "debian"),
        [
            ">> p.toml:1: colour: unknown table, expected one of package, file, directory, symlink, action, trigger, user, group; it is ignored",
            "!! p.toml:2: content: is missing",
            "!! p.toml:3: path: \"x\" is not an absolute path",
            "!! p.toml:4: mode: \"9\" is not an octal number up to 7777, such as \"0644\"",
            "!! p.toml:5: owner: expected a name or a number",
            "!! p.toml:6: author: is missing",
            "!! p.toml:7: name: \"x y\" is not a valid name for Debian packages: expected at least two of a-z 0-9 + . -, beginning with a letter or digit",
            "!! p.toml:8: version: expected a string, found 1; write it in quotes: \"1\"",
            ">> p.toml:9: relaese: unknown key, did you mean release?; it is ignored",
            "!! p.toml:10: path: is missing",
            "!! p.toml:11: target: is empty",
            "!! p.toml:13: name of users[0]: expected a string, found a number",
        ]
    );
}

fn a_mistake_hides_no_others() {
    let absolute = "path: \"x\" is not an absolute path";
    for package in ["", "package = 1\n"] {
        let text = format!("{package}[[file]]\npath = 'x'\ncontent = 'x'\n[[user]]\nuid = 1\n");
        let shown = errors(&text, "debian");
        assert_eq!(shown.len(), 3, "{shown:?}");
        assert!(shown[0].contains("[package]") && shown[1].contains(absolute), "{shown:?}");
        assert!(shown[2].contains("users[0] is missing required 'name' attribute"), "{shown:?}");
    }
    assert_eq!(
        errors(&format!("{BASE}definitionFile = 'x'\n[[user]]\nuid = 1\n"), "rpm")[1..],
        [
            "!! p.toml:5: definitionFile: \"x\" is not an absolute path",
            "!! p.toml:6: users[0] is missing required 'name' attribute"
        ]
    );
    assert_eq!(
        errors(&format!("{BASE}requires = [1, \n2, 'x == 1']\n"), "rpm"),
        [
            "!! p.toml:5: requires[0]: expected a string, found 1; write it in quotes: \"1\"",
            "!! p.toml:5: requires: \"x == 1\" is not valid: expected NAME or NAME OP VERSION, where OP is = > >= < or <=",
            "!! p.toml:6: requires[1]: expected a string, found 2; write it in quotes: \"2\"",
        ]
    );
}

fn tables_in_several_spellings() {
    let package = "!! p.toml:5: package: is declared twice (see line 1)";
    assert_eq!(errors(&format!("{BASE}[Package]\nname = 'x'\n"), "rpm"), [package]);
    let desk = Desk::new(&format!(
        "{BASE}[[file]]\npath = '/a'\ncontent = 'a'\n[[File]]\npath = '/b'\ncontent = 'b'\n\
         [[User]]\nname = 'u'\nhoem = 1\n[[user]]\nname = 'v'\n[[group]]\nname = 'g'\nuid = 1\nif = 'true'\n"
    ));
    let name = desk.build("debian");
    let read = |path: &str| desk.sh(&format!("dpkg-deb --fsys-tarfile {name} | tar -xO ./{path}"));
    assert_eq!(read("a") + &read("b"), "ab");
    // Ignored keys are not in the package.
    let definitions = read("usr/share/holo/users-groups/foo.toml");
    assert_eq!(
        definitions,
        "[[group]]\nif = \"true\"\nname = \"g\"\n\n[[user]]\nname = \"u\"\n\n[[user]]\nname = \"v\"\n"
    );
}

#[track_caller]
fn warnings(added: &str) -> Vec<String> {
    let desk = Desk::new(&format!("{BASE}{added}"));
    let run = desk.try_build("rpm");
    assert!(run.success(), "{run}");
    run.stderr_lossy().lines().map(str::to_owned).collect()
}

fn unknown_keys_are_warnings() {
    assert_eq!(
        warnings("[[fiel]]\n[[file]]\nPATH = '/x'\ncontent = 'x'\nmdoe = 'x'\n[[User]]\nname = 'u'\nhoem = 1\n"),
        [
            ">> p.toml:5: fiel: unknown table, did you mean file?; it is ignored",
            ">> p.toml:9: mdoe: unknown key, did you mean mode?; it is ignored",
            ">> p.toml:12: unknown key \"hoem\" of users[0] is ignored; did you mean home?",
        ]
    );
}

fn deprecated_keys_are_warnings() {
    let text = "setupScript = 'a'\ncleanupScript = 'b'\ndefinitionFile = '/usr/share/holo/users-groups/x.toml'\n\
                [[user]]\nname = 'u'\n";
    assert_eq!(
        warnings(text),
        [
            ">> p.toml:5: setupScript: is deprecated; use [[action]] with on = \"setup\"",
            ">> p.toml:6: cleanupScript: is deprecated; use [[action]] with on = \"cleanup\"",
            ">> p.toml:7: definitionFile: is deprecated; the file has the name of the package by default",
        ]
    );
}

fn files_that_cannot_be_read() {
    for (from, error) in [
        ("nope", "no such file or directory"),
        ("etc", "it is not a file"),
        // It is a file, and cannot be read at its beginning.
        ("/proc/self/mem", "input/output error"),
    ] {
        let text = format!("[[file]]\npath = '/x'\ncontentFrom = '{from}'\n");
        check(&[(&text, &format!("7: contentFrom: read {from}: {error}"))], "rpm");
    }
    check(&[("tree = 'nope'\n", "5: tree: read nope: no such file or directory")], "rpm");
    check(&[("tree = 'p.toml'\n", "5: tree: p.toml is not a directory")], "rpm");
}

fn names_that_are_too_long() {
    let path = format!("/{}", "x".repeat(256));
    let text = format!("[[directory]]\npath = '{path}'\n");
    check(&[(&text, &format!("6: path: {path:?} contains a name of more than 255 bytes"))], "rpm");
}

fn paths_that_are_too_long() {
    let path = |length: usize| format!("/{}", "x/".repeat(length / 2 - 1)) + &"x".repeat(length % 2 + 1);
    let text = format!("[[directory]]\npath = '{}'\n", path(4096));
    check(&[(&text, "6: path: has 4096 bytes; at most 4095 are possible")], "debian");
    let text = format!("[[symlink]]\npath = '/x'\ntarget = '{}'\n", path(4096));
    check(&[(&text, "7: target: has 4096 bytes; at most 4095 are possible")], "rpm");
    let text = format!("{BASE}[[symlink]]\npath = '{}'\ntarget = '{0}'\n", path(4095));
    assert!(Desk::new(&text).try_build("rpm").success());
}

/// Each kind of table.
const TABLES: &str = "[[file]]\npath = '/etc/a'\ncontent = 'x'\nmode = '0600'\nowner = 7\ngroup = 'g'\nconfig = true\n\
    [[directory]]\npath = '/srv/b'\n[[symlink]]\npath = '/srv/c'\ntarget = '../x'\n\
    [[action]]\non = 'setup'\nscript = 'echo'\n[[trigger]]\npath = '/opt/d'\nscript = 'echo'\n[[user]]\nname = 'u'\nuid = 7\n[[group]]\nname = 'g'\n";
/// Texts that are inserted at random.
const ODD: [&str; 10] = ["\0", "\u{85}", "\\u000a", "/..", "[[file]]\n", "'", "=", "\n", "é", "9999999999999"];

fn random_damage_is_reported_or_builds() {
    let texts = "details = 'a'\nlicense = 'MIT'\nhomepage = 'https://x'\nchanges = \"- a\\n\\nb\"\n";
    let valid = [BASE, "requires = ['a >= 1', 'b']\n", texts, TABLES].concat();
    random::cases(2000, |random| {
        let mut text = valid.clone().into_bytes();
        for _ in 0..1 + random.below(4) {
            let start = random.below(text.len());
            let end = text.len().min(start + random.below(12));
            let other = random.below(text.len());
            let copied: Vec<u8> = text.iter().skip(other).take(random.below(20)).copied().collect();
            let inserted = if random.chance(50) { copied } else { random.pick(&ODD).as_bytes().to_vec() };
            text.splice(start..end, inserted);
        }
        for format in [Format::Debian, Format::Pacman, Format::Rpm] {
            let directory = Path::new("/nonexistent");
            let source = Source { name: "p.toml", text: &text, directory, format, root: directory, time: 0 };
            let (package, findings) = source.read().unwrap();
            assert_eq!(package.is_none(), findings.iter().any(|finding| finding.is_error), "{findings:?}");
            if let Some(package) = package.filter(|_| random.chance(10)) {
                package.write(None, &mut io::sink()).unwrap();
            }
        }
    });
}

fn trees_that_cannot_be_packaged() {
    let desk = Desk::new(&format!("{BASE}tree = 'tree'\n"));
    desk.sh("mkdir -p tree/etc; mkfifo tree/etc/fifo; touch $'tree/etc/a\\nb' $'tree/etc/\\xff'; ln -s $'a\\nb' tree/etc/link");
    let run = desk.try_build("debian");
    assert_eq!(run.status, Some(1), "{run}");
    let shown = run.stderr_lossy().into_owned();
    for error in [
        "!! p.toml:5: tree: \"/etc/a\\nb\" contains control characters\n",
        "!! p.toml:5: tree: tree/etc/fifo is neither a file, a directory nor a symlink\n",
        "!! p.toml:5: tree: the target of tree/etc/link: \"a\\nb\" contains control characters\n",
        "is not UTF-8\n",
    ] {
        assert!(shown.contains(error), "{shown}");
    }
}
