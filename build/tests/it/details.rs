//! What a package says about itself beyond the basics, as the checkers of distributions and their package managers see it.

use crate::roots::set_up_pacman;
use crate::support::{BASE, Desk};
use holo_testing::overlay::NEEDS;
use holo_testing::{Need, Overlay, ScratchRoot, trial_of};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let need = |programs: &[&'static str]| programs.iter().map(|program| Need::Program(program)).collect::<Vec<_>>();
    let in_overlay = |program| [NEEDS, &need(&[program])].concat();
    vec![
        trial_of("lintian_finds_no_errors", &need(&["lintian", "gzip"]), lintian_finds_no_errors),
        trial_of("rpmlint_finds_no_errors", &need(&["rpmlint", "rpm", "gzip"]), rpmlint_finds_no_errors),
        trial_of("changelog_of_debian_is_read_back", &need(&["dpkg-parsechangelog"]), changelog_of_debian_is_read_back),
        trial_of("descriptions_of_debian_keep_their_lines", &need(&["dpkg-deb"]), descriptions_of_debian),
        trial_of("tags_are_those_of_rpmbuild", &need(&["rpmbuild", "rpm2cpio", "cpio"]), tags_are_those_of_rpmbuild),
        trial_of("pacman_shows_the_details", &in_overlay("pacman"), pacman_shows_the_details),
        trial_of("changelog_is_that_of_makepkg", &in_overlay("makepkg"), changelog_is_that_of_makepkg),
    ]
}

/// The keys with details.
const DETAILS: &str = r#"
details = """
    It shows a message on every login.

    The message can have
      several lines.
    """
license = "GPL-2.0-or-later"
homepage = "https://example.org/foo"
changes = """
    - Messages can have
      several lines.
      - They can be empty.

    * It is faster.

    It is smaller.
    """
"#;

/// A package with everything that distributions expect of one.
fn complete() -> Desk {
    let root = ScratchRoot::new().env("LC_ALL", "C.UTF-8").env("SOURCE_DATE_EPOCH", "1000000000");
    let file = |path: &str, rest: &str| format!("[[file]]\npath = '{path}'\n{rest}\n");
    let text = [
        format!("{BASE}description = 'Message on every login'\n{DETAILS}").replace("J <j@x>", "J D <j@example.org>"),
        file("/usr/bin/foo", "mode = '0755'\ncontent = \"#!/bin/sh\\nexit 0\\n\""),
        file("/usr/share/man/man1/foo.1.gz", "contentFrom = 'foo.1.gz'"),
        file(
            "/usr/share/doc/foo/copyright",
            "content = \"Copyright 2001 J D\\nLicense: GPL-2.0-or-later\\n See /usr/share/common-licenses/GPL-2.\\n\"",
        ),
        file("/usr/share/licenses/foo/LICENSE", "content = 'x'"),
    ];
    let desk = Desk { root: root.file("p.toml", text.concat()) };
    desk.root.write("foo.1", ".TH foo 1\n.SH NAME\nfoo \\- show a message\n.SH DESCRIPTION\nIt shows a message.\n");
    desk.sh("gzip -9n foo.1");
    desk
}

fn lintian_finds_no_errors() {
    let desk = complete();
    let name = desk.build("debian");
    let found = desk.sh(&format!("lintian --allow-root {name} || :"));
    assert!(!found.contains("E: "), "{found}");
    // It is the program that was meant, and finds errors.
    desk.sh("sed -i '/^details/,/^license/d' p.toml");
    let name = desk.build("debian");
    let found = desk.sh(&format!("lintian --allow-root {name} || :"));
    assert!(found.contains("E: foo: extended-description-is-empty"), "{found}");
}

fn rpmlint_finds_no_errors() {
    let desk = complete();
    let name = desk.build("rpm");
    let found = desk.sh(&format!("rpmlint ./{name} || :"));
    let errors: Vec<&str> = found.lines().filter(|line| line.contains(": E: ")).collect();
    assert_eq!(errors, ["foo.noarch: E: no-signature"], "{found}");
    assert!(!found.contains("no-url-tag") && !found.contains("no-documentation"), "{found}");
}

fn changelog_of_debian_is_read_back() {
    let desk = complete();
    desk.sh("sed -i 's/^version.*/&\\nepoch = 2\\nbeta = 3/' p.toml");
    let name = desk.build("debian");
    let path = "./usr/share/doc/foo/changelog.Debian.gz";
    desk.sh(&format!("dpkg-deb --fsys-tarfile {name} | tar -xO {path} >changelog.gz; gunzip -k changelog.gz"));
    assert_eq!(
        desk.root.read("changelog"),
        "foo (2:1.0~beta.3-1) unstable; urgency=medium\n\n  * Messages can have\n    several lines.\n    \
         - They can be empty.\n  * It is faster.\n  * It is smaller.\n\n \
         -- J D <j@example.org>  Sun, 09 Sep 2001 01:46:40 +0000\n"
    );
    let shown = desk.sh("dpkg-parsechangelog -l changelog -S Version; dpkg-parsechangelog -l changelog -S Timestamp");
    assert_eq!(shown, "2:1.0~beta.3-1\n1000000000\n");
    // As `gzip -n -9` writes it: without a name and time, with the best compression.
    assert_eq!(desk.sh("head -c 9 changelog.gz | od -An -tx1"), " 1f 8b 08 00 00 00 00 00 02\n");
    // It is a file of the package like any other.
    desk.sh(&format!("dpkg-deb -I {name} md5sums | grep -q changelog.Debian.gz"));
    desk.root.write("p.toml", format!("{BASE}changes = 'x'\ntree = 'tree'\n"));
    desk.sh("mkdir -p tree/usr/share/doc/foo; touch tree/usr/share/doc/foo/changelog.Debian.gz");
    let name = desk.build("debian");
    assert!(desk.sh(&format!("dpkg-deb --fsys-tarfile {name} | tar -xO {path} | zcat")).contains("  * x\n"));
}

fn descriptions_of_debian() {
    let desk = Desk::new(&format!("{BASE}description = 'short'\ndetails = '''\n\n  a\n\n\t\n    b\n  .c\n\n'''\n"));
    let name = desk.build("debian");
    let shown = desk.must("dpkg-deb", &["-I", &name, "control"]);
    assert!(shown.ends_with("\nDescription: short\n a\n .\n .\n   b\n  .c\n"), "{shown}");
}

fn tags_are_those_of_rpmbuild() {
    let desk = complete();
    desk.sh("printf '[[directory]]\\npath = \"/usr/share/doc/foo\"\\n' >>p.toml
        printf '[[symlink]]\\npath = \"/usr/share/info/foo\"\\ntarget = \"x\"\\n' >>p.toml
        printf '[[file]]\\npath = \"/usr/share/doc/foo/conf\"\\ncontent = \"x\"\\nconfig = true\\n' >>p.toml
        printf '[[file]]\\npath = \"/usr/share/docs\"\\ncontent = \"x\"\\n' >>p.toml");
    let ours = desk.build("rpm");
    desk.root.write(
        "foo.spec",
        "Name: foo\nVersion: 1.0\nRelease: 1\nSummary: Message on every login\nLicense: GPL-2.0-or-later\n\
         URL: https://example.org/foo\nBuildArch: noarch\n%description\nIt shows a message on every login.\n\n\
         The message can have\n  several lines.\n\n%install\ncp -r %{_topdir}/../files/. %{buildroot}\n\
         %files\n/usr/bin/foo\n%dir /usr/share/doc/foo\n%config(noreplace) /usr/share/doc/foo/conf\n\
         /usr/share/doc/foo/copyright\n/usr/share/docs\n/usr/share/info/foo\n\
         %license /usr/share/licenses/foo/LICENSE\n/usr/share/man/man1/foo.1.gz\n\
         %changelog\n* Sun Sep 09 01:46:40 UTC 2001 J D <j@example.org> 1.0-1\n- Messages can have\n  several lines.\n  \
         - They can be empty.\n- It is faster.\n- It is smaller.\n",
    );
    desk.sh(&format!(
        "mkdir files; rpm2cpio ./{ours} | (cd files; cpio -idm)
        rpmbuild -bb --define \"_topdir $PWD/rpmbuild\" foo.spec >&2"
    ));
    let single = ["SUMMARY", "DESCRIPTION", "LICENSE", "URL"].map(|tag| format!("{tag}: %{{{tag}}}\\n")).concat();
    let format = format!(
        "{single}[%{{CHANGELOGTIME}} %{{CHANGELOGNAME}}\\n%{{CHANGELOGTEXT}}\\n][%{{FILENAMES}} %{{FILEFLAGS:fflags}}\\n]"
    );
    let shown = |package: &str| desk.must("rpm", &["-qp", "--qf", &format, package]);
    let ours = shown(&format!("./{ours}"));
    assert_eq!(ours, shown("rpmbuild/RPMS/noarch/foo-1.0-1.noarch.rpm"));
    for line in ["doc/foo ", "doc/foo/conf dcn", "docs ", "info/foo d", "licenses/foo/LICENSE l", "man/man1/foo.1.gz d"]
    {
        assert!(ours.contains(&format!("\n/usr/share/{line}\n")), "{line}: {ours}");
    }
}

/// The changes as they are in the description, without its indentation.
const CHANGES: &str =
    "- Messages can have\n  several lines.\n  - They can be empty.\n\n* It is faster.\n\nIt is smaller.\n";

fn pacman_shows_the_details() {
    let desk = complete();
    let name = desk.build("pacman");
    let system = Overlay::with(&[desk.root.path()]);
    set_up_pacman(&system);
    system.must(&format!("pacman -U --noconfirm {}", desk.root.path().join(name).display()));
    let shown = system.must("LC_ALL=C pacman -Qi foo | grep -E '^(URL|Licenses)'").to_string();
    assert_eq!(shown, "URL             : https://example.org/foo\nLicenses        : GPL-2.0-or-later\n");
    let shown = system.must("LC_ALL=C pacman -Qc foo").to_string();
    assert_eq!(shown.trim_end(), format!("Changelog for foo:\n{}", CHANGES.trim_end()));
    assert_eq!(system.must("pacman -Qkkq foo").to_string(), "");
}

fn changelog_is_that_of_makepkg() {
    let desk = complete();
    let ours = desk.build("pacman");
    let system = Overlay::with(&[desk.root.path()]);
    system.write("/srv/m/changes", CHANGES);
    system.write(
        "/srv/m/PKGBUILD",
        "pkgname=foo\npkgver=1.0\npkgrel=1\narch=(any)\nurl='https://example.org/foo'\nlicense=(GPL-2.0-or-later)\n\
         changelog=changes\npackage() { :; }\n",
    );
    // It refuses to run as root.
    system.must(
        "chown -R nobody /srv/m; cd /srv/m; export PKGEXT=.pkg.tar HOME=/srv/m
        setpriv --reuid nobody --clear-groups makepkg --nodeps >&2",
    );
    let ours = desk.root.path().join(ours);
    for file in [".CHANGELOG", ".PKGINFO"] {
        let read = |package: &str| {
            let shown = system.must(&format!("tar -xOf {package} {file}")).to_string();
            let lines = shown
                .lines()
                .filter(|line| file == ".CHANGELOG" || line.starts_with("url") || line.starts_with("license"));
            lines.collect::<Vec<_>>().join("\n")
        };
        assert_eq!(read(&ours.display().to_string()), read("/srv/m/foo-1.0-1-any.pkg.tar"));
    }
    let listed = system.must("tar -tvf /srv/m/foo-1.0-1-any.pkg.tar .CHANGELOG").to_string();
    assert!(listed.starts_with("-rw-r--r-- root/root "), "{listed}");
}
