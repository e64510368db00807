//! `holo why`: information from data and package managers, and about an unmanaged system.

use holo_testing::{Need, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

/// Creates a package with a configuration file, a program and a resource file, and installs it below the root.
const PACKAGE: &str = r#"
cd $HOLO_ROOT_DIR
mkdir -p tmp/rpm
cat >tmp/rpm/tool.spec <<'EOF'
Name: tool
Version: 1
Release: 1
Summary: test
License: MIT
BuildArch: noarch
%description
test
%install
mkdir -p %{buildroot}/etc %{buildroot}/usr/bin %{buildroot}/usr/share/holo/files/10-tool/etc
echo stock >%{buildroot}/etc/tool.conf
echo program >%{buildroot}/usr/bin/tool
echo managed >%{buildroot}/usr/share/holo/files/10-tool/etc/motd
%files
%config /etc/tool.conf
/usr/bin/tool
/usr/share/holo/files/10-tool/etc/motd
EOF
export HOME=$PWD/tmp/rpm
rpmbuild --quiet -bb --define "_topdir $HOME/build" tmp/rpm/tool.spec >/dev/null 2>tmp/rpm/log || { cat tmp/rpm/log >&2; exit 1; }
rpm --root $PWD --dbpath /var/lib/rpm --initdb
rpm --root $PWD --dbpath /var/lib/rpm --install --nodeps --nosignature tmp/rpm/build/RPMS/noarch/tool-1-1.noarch.rpm
"#;

pub(crate) fn trials() -> Vec<Trial> {
    let needs = [Need::Root, Need::Program("rpm"), Need::Program("rpmbuild")];
    let mut trials = holo_testing::trials![
        data_used_by_templates_is_named,
        data_used_by_rendered_directories_is_named,
        changed_mode_is_an_edit,
        neighbours_follow_from_needs_and_provides,
        without_configuration_packages_are_shown
    ];
    trials.push(trial_of("an owner that was changed is an edit", &[Need::Root], changed_owner_is_an_edit));
    trials.push(trial_of("the packages of a database of rpm are named", &needs, packages_of_rpm));
    trials
}

/// Returns the answer, without leading blanks.
#[track_caller]
fn why(root: &ScratchRoot, subject: &str, status: i32) -> Vec<String> {
    let run = root.holo(&["why", subject]);
    assert_eq!(run.status, Some(status), "{run}");
    run.stdout_lossy().lines().map(|line| line.trim().replace(&format!("{}/", root.path().display()), "/")).collect()
}

#[track_caller]
fn has(answer: &[String], line: &str) {
    assert!(answer.iter().any(|found| found == line), "no line {line:?} in {answer:#?}");
}

fn data_used_by_templates_is_named() {
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .plugin("files")
        .file("etc/os-release", "ID=debian\n")
        .file("etc/motd", "stock\n")
        .file("etc/holo/data/common.toml", "owner = \"us\"\nunread = 1\n\n[web]\nport = 80\n")
        .file("etc/holo/data/os/debian.toml", "[web]\nport = 8080\n")
        .file("etc/holo/data/hierarchy.toml", "layers = [\"os/{{ facts.os.id }}\", \"common\"]\n")
        .resource("files/10-x/etc/motd.holotemplate", "{{ input }}{{ data.web.port }} {{ lookup('owner') }}\n")
        .resource("files/20.toml.jinja", "[[file]]\npath = \"/srv/a\"\ncontent = \"{{ data.owner }}\"\n");
    let answer = why(&root, "/etc/motd", 0);
    has(&answer, "data owner in /etc/holo/data/common.toml:1");
    has(&answer, "data web.port in /etc/holo/data/os/debian.toml:2");
    assert!(!answer.iter().any(|line| line.contains("unread")), "{answer:#?}");
    has(&why(&root, "/srv/a", 0), "data owner in /etc/holo/data/common.toml:1");
    let json = root.holo(&["why", "--json", "/etc/motd"]).stdout_lossy().into_owned();
    assert!(json.contains("\"data\":[{\"key\":\"owner\",\"file\":\""), "{json}");
    // Invalid data is reported, and the rest of the answer is shown.
    root.write("etc/holo/data/common.toml", "owner = \n");
    let run = root.holo(&["why", "/etc/motd"]);
    assert!(run.success() && run.stderr_lossy().contains("etc/holo/data/common.toml"), "{run}");
}

fn data_used_by_rendered_directories_is_named() {
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .plugin("files")
        .plugin("scaffold")
        .file("etc/os-release", "ID=debian\n")
        .file("etc/holo/data/common.toml", "owner = \"us\"\nunread = 1\n\n[web]\nport = 80\n")
        .resource("files/a.holotemplate", "{{ data.web.port }}\n")
        .resource("files/plain", "{{ data.owner }}\n")
        .resource(
            "files/a.toml",
            "[[file]]\npath = \"/srv/a\"\nsource = \"a.holotemplate\"\n[[file]]\npath = \"/srv/b\"\nsource = \"plain\"\n",
        )
        .resource("scaffold/app/deep/app.conf", "{% include \"_partials/who\" %}\n")
        .resource("scaffold/app/_partials/who", "{{ data.owner }}\n")
        .resource("scaffold/app.toml", "[[scaffold]]\ntarget = \"/srv/app\"\nsource = \"app\"\n");
    let data = |subject: &str| -> Vec<String> {
        why(&root, subject, 0).into_iter().filter(|line| line.starts_with("data ")).collect()
    };
    assert_eq!(data("/srv/a"), ["data web.port in /etc/holo/data/common.toml:5"]);
    assert_eq!(data("/srv/b"), [""; 0]);
    assert_eq!(data("/srv/app"), ["data owner in /etc/holo/data/common.toml:1"]);
}

/// Returns a root with an overlay and a declared file, both applied.
fn with_files() -> ScratchRoot {
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .plugin("files")
        .file("etc/os-release", "ID=debian\n")
        .dir("srv")
        .resource("files/10-x/etc/motd", "hello\n")
        .file("etc/motd", "stock\n")
        .resource("files/a.toml", "[[file]]\npath = \"/srv/a\"\ncontent = \"a\"\nmode = \"0644\"\nowner = \"0\"\n");
    assert!(root.holo(&["apply"]).success());
    root
}

fn changed_owner_is_an_edit() {
    let root = with_files();
    for path in ["/srv/a", "/etc/motd"] {
        has(&why(&root, path, 0), "edited no");
        chown(root.join(&path[1..]), Some(1234), None).unwrap();
        has(&why(&root, path, 0), "edited yes: the owner is 1234, and was 0");
        let json = root.holo(&["why", "--json", path]).stdout_lossy().into_owned();
        assert!(json.contains("\"edited\":true"), "{json}");
        fs::set_permissions(root.join(&path[1..]), fs::Permissions::from_mode(0o600)).unwrap();
        has(&why(&root, path, 0), "edited yes: the owner is 1234, and was 0; the mode is 0600, and was 0644");
    }
    // The declared file has no group in its definition.
    chown(root.join("etc/motd"), Some(0), Some(1234)).unwrap();
    fs::set_permissions(root.join("etc/motd"), fs::Permissions::from_mode(0o644)).unwrap();
    has(&why(&root, "/etc/motd", 0), "edited yes: the group is 1234, and was 0");
    chown(root.join("srv/a"), Some(0), Some(1234)).unwrap();
    fs::set_permissions(root.join("srv/a"), fs::Permissions::from_mode(0o644)).unwrap();
    has(&why(&root, "/srv/a", 0), "edited no");
}

fn changed_mode_is_an_edit() {
    let root = with_files();
    let set_mode = |path: &str, mode| fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
    for path in ["/srv/a", "/etc/motd"] {
        has(&why(&root, path, 0), "edited no");
        set_mode(&path[1..], 0o600);
        has(&why(&root, path, 0), "edited yes: the mode is 0600, and was 0644");
        let json = root.holo(&["why", "--json", path]).stdout_lossy().into_owned();
        assert!(json.contains("\"edited\":true"), "{json}");
    }
    root.write("srv/a", "b");
    has(&why(&root, "/srv/a", 0), "edited yes; see holo diff file:/srv/a");
}

/// Declared files, overlays, accounts and scaffolds have the right neighbours, even with limited scans.
fn neighbours_follow_from_needs_and_provides() {
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .plugin("files")
        .plugin("users-groups")
        .env("HOLO_FILES_RECORD", "1")
        .file("etc/os-release", "ID=debian\n")
        .file("etc/passwd", "root:x:0:0::/root:/bin/sh\n")
        .file("etc/group", "root:x:0:\nfred:x:2000:\n")
        .dir("srv")
        .symlink("link", "srv")
        .resource("users-groups/a.toml", "[[group]]\nname = \"fred\"\ngid = 2000\n")
        .resource("files/10-x/srv/a/b/over", "hello\n")
        .resource("files/10-x/other/over", "hello\n");
    let text = |path: &str, more: &str| format!("[[file]]\npath = \"{path}\"\n{more}\n");
    let directory = "ensure = \"directory\"";
    let definitions = [
        text("/srv", directory),
        text("/srv/a", directory),
        text("/srv/a/b", directory),
        text("/srv/a/b/c", "content = \"c\""),
        text("/srv/a/x/y/z", "content = \"z\""),
        text("/link/linked", "content = \"linked\""),
        text("/srv/of-fred", "content = \"x\"\ngroup = \"fred\""),
        text("/other/file", "content = \"x\""),
    ];
    root.write("usr/share/holo/files/a.toml", definitions.concat());
    let around = |subject: &str| -> Vec<String> {
        let lines = why(&root, subject, 0).into_iter();
        let lines = lines.filter(|line| line.starts_with("after ") || line.starts_with("before "));
        lines.map(|line| line.split(" (").next().unwrap_or_default().to_owned()).collect()
    };
    for is_learned in [false, true] {
        if is_learned {
            // From then on, definitions are known to be valid.
            std::thread::sleep(std::time::Duration::from_secs(4));
            let _ = root.holo(&["apply"]);
        }
        assert_eq!(
            around("file:/srv"),
            ["before file:/link/linked", "before file:/srv/a", "before file:/srv/of-fred"],
            "{is_learned}"
        );
        for subject in ["file:/srv/a", "/srv/a"] {
            let expected = ["after file:/srv", "before file:/srv/a/b", "before file:/srv/a/x/y/z"];
            assert_eq!(around(subject), expected, "{is_learned}");
        }
        let expected = ["after file:/srv/a", "before file:/srv/a/b/c", "before file:/srv/a/b/over"];
        assert_eq!(around("file:/srv/a/b"), expected, "{is_learned}");
        assert_eq!(around("file:/srv/a/x/y/z"), ["after file:/srv/a"], "{is_learned}");
        assert_eq!(around("file:/srv/of-fred"), ["after file:/srv", "after group:fred"], "{is_learned}");
        assert_eq!(around("group:fred"), ["before file:/srv/of-fred"], "{is_learned}");
        assert_eq!(around("file:/other/over"), [""; 0], "{is_learned}");
    }
}

fn without_configuration_packages_are_shown() {
    let digest = "1b3c6c3a2a6e0a8d8b1b9c3fd3f4c1aa";
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .file("etc/os-release", "ID=debian\n")
        .file("etc/motd", "edited\n")
        .file("var/lib/dpkg/status", format!("Package: base\nConffiles:\n /etc/motd {digest}\n"))
        .file("var/lib/dpkg/info/base.list", "/.\n/etc\n/etc/motd\n");
    let run = root.holo(&["why", "/etc/motd"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains(">> there is no ") && run.stderr_lossy().contains("etc/holorc"), "{run}");
    let answer = why(&root, "/etc/motd", 1);
    has(&answer, "managed by no entity");
    has(&answer, "package base (modified since)");
    let run = root.holo(&["why", "nothing"]);
    assert_eq!(run.status, Some(1), "{run}");
    // An invalid configuration leaves it open whether the path is managed.
    root.write("etc/holorc", "nonsense\n");
    assert_eq!(root.holo(&["why", "/etc/motd"]).status, Some(255));
}

fn packages_of_rpm() {
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .plugin("files")
        .file("etc/os-release", "ID=fedora\n")
        .symlink("bin", "usr/bin")
        .file("etc/motd", "stock\n");
    let made = root.run("/bin/sh", &["-ec", PACKAGE]);
    assert!(made.success(), "{made}");
    has(&why(&root, "/etc/tool.conf", 1), "package tool (unmodified)");
    has(&why(&root, "/bin/tool", 1), "package tool (unmodified)");
    root.write("etc/tool.conf", "edited\n");
    has(&why(&root, "/etc/tool.conf", 1), "package tool (modified since)");
    has(&why(&root, "/etc/os-release", 1), "package none");
    let answer = why(&root, "/etc/motd", 0);
    has(&answer, "defined by /usr/share/holo/files/10-tool/etc/motd, package tool (unmodified)");
    has(&answer, "package none");
}
