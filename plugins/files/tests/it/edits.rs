//! Edits of files that are managed otherwise, through their whole life, one machine per case.

use crate::support::{applied, declare, refused, root, unchanged};
use bstr::ByteSlice;
use holo_testing::disturb::{self, Disturbance};
use holo_testing::{Need, ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

/// A case: its name, its requirements, and the test.
type Case = (&'static str, &'static [Need], fn());

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [Case; 30] = [
        ("several edits of one file are made at once", &[Need::Program("strace")], together),
        ("a file is read and replaced once for all of its edits", &[Need::Program("strace")], once_for_all),
        ("an edit that validation rejects does not keep the others from being made", &[], rejected),
        ("a selected edit is applied without the others of its file", &[], selected),
        ("the examples of the man page do what it says", &[], manual),
        ("a change of our lines is refused, shown, and overwritten by force", &[], changed_by_person),
        ("a change elsewhere stays, and needs no force", &[], changed_elsewhere),
        ("an orphan whose lines were changed is refused", &[], changed_orphan),
        ("check says what apply does, and changes nothing", &[], check),
        ("owner, mode and bytes that are not text stay", &[Need::Root], attributes),
        ("extended attributes stay", &[], extended_attributes),
        ("a file is made, and goes when nothing else is in it", &[], created),
        ("a file that does not exist is an error, unless something is to be absent", &[], missing),
        ("a file that a person has removed leaves nothing to be taken back", &[], removed),
        ("a directory in place of a file leaves nothing to be taken back, and is not edited", &[], replaced),
        ("a file is not replaced before it is found to be valid", &[], validation),
        ("a sensitive file is shown for no edit", &[], sensitive),
        ("a file that is declared or overlaid is not edited", &[], contradictions),
        ("an edit gives way to a declaration, and the other way round", &[], successions),
        ("lines of an edit that is not reverted become no part of a base", &[], refused_succession),
        ("a symlink that another entity replaces cannot be edited", &[], replaced_symlink),
        ("an edit follows its definition to another file", &[], moved),
        ("another name is another edit, which makes what the first one takes back", &[], renamed),
        ("a symlink is followed if it is to be trusted", &[], links),
        ("two edits of one line are refused", &[], shared_line),
        ("a file that is written in place stays the same file", &[], in_place),
        ("a file that is edited is not adopted as a whole", &[], not_adopted),
        ("blame knows the edit of each line", &[], blame),
        ("mistakes are named with their lines", &[], mistakes),
        ("the same under version 3", &[], version_3),
    ];
    let mut trials: Vec<Trial> = cases.map(|(name, needs, test)| trial_of(name, needs, test)).into();
    for case in &KILLS {
        let name = format!("{}: may be killed at any system call", case.name);
        trials.push(trial_of(&name, disturb::NEEDS, || kill_everywhere(case)));
        let name = format!("{}: any system call may fail", case.name);
        trials.push(trial_of(&name, disturb::NEEDS, || fail_everywhere(case)));
    }
    trials
}

/// Applies definitions, applies them again, and removes them.
#[track_caller]
fn whole_life(root: &ScratchRoot, definitions: &str, path: &str, edited: &str) {
    let before = root.dump();
    declare(root, definitions);
    applied(root);
    assert_eq!(root.read(path), edited);
    unchanged(root);
    undefine(root);
    applied(root);
    assert_eq!(root.dump(), before);
}

fn undefine(root: &ScratchRoot) {
    fs::remove_file(root.join("usr/share/holo/files/a.toml")).unwrap();
}

const PAGE: &str = include_str!("../../../../man/holo-files.8");

fn manual() {
    let blocks = PAGE.split(".Bd -literal").skip(1).filter_map(|block| block.split_once('\n')?.1.split_once(".Ed"));
    let examples: String = blocks.map(|(text, _)| text).filter(|text| text.starts_with("[[line]]")).collect();
    let root = root()
        .dir("usr/share/holo/files")
        .file("etc/ssh/sshd_config", "#PermitRootLogin yes\n#PermitRootLogin prohibit-password\nX11Forwarding no\n")
        .file("etc/hosts", "127.0.0.1 localhost\n")
        .file("etc/pacman.conf", "# c\n[options]\n#VerbosePkgLists\nParallelDownloads = 5\n\n[core]\n");
    let before = root.dump();
    declare(&root, &examples);
    let run = applied(&root);
    for id in ["line:/etc/ssh/sshd_config#root-login", "line:/etc/hosts", "block:/etc/hosts#cluster"] {
        assert!(run.stdout_lossy().contains(&format!("Working on {id}\n")), "{run}");
    }
    assert_eq!(root.read("etc/ssh/sshd_config"), "#PermitRootLogin yes\nPermitRootLogin no\nX11Forwarding no\n");
    let cluster = "# BEGIN holo cluster\n192.0.2.8 one\n192.0.2.9 two\n# END holo cluster\n";
    assert_eq!(root.read("etc/hosts"), format!("127.0.0.1 localhost\n{cluster}192.0.2.7 db\n"));
    let pacman = "# c\n[options]\n#VerbosePkgLists\nParallelDownloads = 9\n\n[core]\n";
    assert_eq!(root.read("etc/pacman.conf"), pacman);
    unchanged(&root);
    undefine(&root);
    applied(&root);
    assert_eq!(root.dump(), before);
}

const PORT: &str = "[[line]]\npath = \"/etc/x\"\nline = \"Port 22\"\nmatch = \"^#?Port \"\n";

fn changed_by_person() {
    let root = root().file("etc/x", "a\n#Port 1\nb\n");
    declare(&root, PORT);
    applied(&root);
    root.write("etc/x", "a\nPort 2222\nb\n");
    let run = refused(&root, "Entity has been modified by user (use --force to overwrite)");
    assert!(run.stdout_lossy().contains("-Port 22\n") && run.stdout_lossy().contains("+Port 2222\n"), "{run}");
    assert!(root.holo(&["diff"]).stdout_lossy().contains("+Port 2222\n"));
    assert_eq!(root.holo(&["apply", "--force"]).status, Some(0));
    assert_eq!(root.read("etc/x"), "a\nPort 22\nb\n");
    unchanged(&root);
    assert_eq!(root.holo(&["diff"]).stdout_lossy(), "");
    // Removing the line again is no manual change that could be lost.
    root.write("etc/x", "a\nb\n");
    applied(&root);
    assert_eq!(root.read("etc/x"), "a\nPort 22\nb\n");
}

fn changed_elsewhere() {
    let root = root().file("etc/x", "a\n#Port 1\nb\n");
    declare(&root, PORT);
    applied(&root);
    root.write("etc/x", "new\na\nPort 22\nlast\n");
    unchanged(&root);
    assert_eq!(root.holo(&["diff"]).stdout_lossy(), "");
    undefine(&root);
    applied(&root);
    assert_eq!(root.read("etc/x"), "new\na\n#Port 1\nlast\n");
    assert!(root.records("files/edits").is_empty());
}

fn changed_orphan() {
    let root = root().file("etc/x", "a\n#Port 1\nb\n");
    declare(&root, PORT);
    applied(&root);
    root.write("etc/x", "a\nPort 2222\nb\nc\n");
    undefine(&root);
    refused(&root, "modified by user");
    assert_eq!(root.holo(&["apply", "--force"]).status, Some(0));
    assert_eq!(root.read("etc/x"), "a\n#Port 1\nb\nc\n");
}

fn check() {
    let root = root().file("etc/x", "a\n");
    declare(&root, &format!("{PORT}[[line]]\npath = \"/etc/none\"\nline = \"x\"\n"));
    let before = root.dump();
    let run = root.holo(&["check", "--diff"]);
    let said = run.stdout_lossy();
    for words in ["would edit ", "/etc/x\n", "+Port 22\n"] {
        assert!(said.contains(words), "{words}\n{run}");
    }
    assert!(run.stderr_lossy().contains("/etc/none does not exist"), "{run}");
    assert_eq!(root.dump(), before);
    declare(&root, PORT);
    applied(&root);
    assert_eq!(root.holo(&["check"]).stdout_lossy(), "");
    undefine(&root);
    let run = root.holo(&["check", "--diff"]);
    assert!(run.stdout_lossy().contains("would take back the edit of ") && run.stdout_lossy().contains("-Port 22\n"));
}

fn attributes() {
    let root = root();
    root.write("etc/x", b"\xff\xfe\r\n#Port 1\r\nb");
    fs::set_permissions(root.join("etc/x"), fs::Permissions::from_mode(0o640)).unwrap();
    chown(root.join("etc/x"), Some(1234), Some(4321)).unwrap();
    let look = || {
        let metadata = fs::metadata(root.join("etc/x")).unwrap();
        (metadata.mode() & 0o7777, metadata.uid(), metadata.gid())
    };
    let second = "[[line]]\npath = \"/etc/x\"\nname = \"2\"\nline = \"second\"\n";
    declare(&root, &format!("{PORT}{second}"));
    applied(&root);
    assert_eq!(root.read("etc/x"), b"\xff\xfe\r\nPort 22\r\nb\r\nsecond".as_bstr());
    assert_eq!(look(), (0o640, 1234, 4321));
    undefine(&root);
    applied(&root);
    assert_eq!(root.read("etc/x"), b"\xff\xfe\r\n#Port 1\r\nb".as_bstr());
    assert_eq!(look(), (0o640, 1234, 4321));
}

fn extended_attributes() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    let root = root().file("etc/x", "a\n");
    if setxattr(root.join("etc/x"), "user.note", b"kept", XattrFlags::empty()).is_err() {
        // The file system does not support them.
        return;
    }
    declare(&root, PORT);
    applied(&root);
    let mut value = [0; 16];
    let length = getxattr(root.join("etc/x"), "user.note", &mut value).unwrap();
    assert_eq!((&value[..length], root.read("etc/x")), (&b"kept"[..], "a\nPort 22\n".into()));
}

fn created() {
    let root = root().dir("usr/share/holo/files");
    let create = format!("{PORT}create = true\n");
    whole_life(&root, &create, "etc/x", "Port 22\n");
    declare(&root, &create);
    applied(&root);
    assert_eq!(fs::metadata(root.join("etc/x")).unwrap().mode() & 0o7777, 0o644);
    root.write("etc/x", "Port 22\nmine\n");
    undefine(&root);
    applied(&root);
    assert_eq!(root.read("etc/x"), "mine\n");
}

fn missing() {
    let root = root();
    declare(&root, PORT);
    refused(&root, "/etc/x does not exist; create = true would make it");
    declare(&root, "[[line]]\npath = \"/etc/x\"\nline = \"x\"\nensure = \"absent\"\n");
    unchanged(&root);
    assert_eq!(root.holo(&["check"]).stdout_lossy(), "");
}

fn replaced() {
    let line = "[[line]]\npath = \"/etc/x\"\nline = \"ours\"\n";
    for is_link in [false, true] {
        let root = root().file("etc/x", "theirs\n").dir("etc/other");
        declare(&root, line);
        applied(&root);
        fs::remove_file(root.join("etc/x")).unwrap();
        if is_link {
            symlink("other", root.join("etc/x")).unwrap();
        } else {
            fs::create_dir(root.join("etc/x")).unwrap();
        }
        for force in [&["apply"][..], &["apply", "--force"]] {
            let run = root.holo(force);
            assert!(run.status == Some(1) && run.stderr.contains_str("is not a regular file"), "{run}");
        }
        undefine(&root);
        let check = root.holo(&["check"]);
        assert!(is_link || check.stdout.contains_str("would forget line:/etc/x"), "{check}");
        applied(&root);
        unchanged(&root);
        assert!(fs::symlink_metadata(root.join("etc/x")).is_ok_and(|found| found.is_symlink() == is_link));
    }
}

fn removed() {
    let root = root().file("etc/x", "a\n#Port 1\n");
    declare(&root, PORT);
    applied(&root);
    fs::remove_file(root.join("etc/x")).unwrap();
    undefine(&root);
    applied(&root);
    assert!(!root.exists("etc/x") && root.records("files/edits").is_empty());
    // It is not restored when the file was replaced either.
    root.write("etc/x", "a\n#Port 1\n");
    declare(&root, &format!("{PORT}create = true\n"));
    applied(&root);
    fs::remove_file(root.join("etc/x")).unwrap();
    applied(&root);
    assert_eq!(root.read("etc/x"), "Port 22\n");
}

fn validation() {
    let root = root().file("etc/x", "a\n");
    declare(&root, &format!("{PORT}validate = \"grep -q Port.23 {{}}\"\n"));
    let before = root.read("etc/x");
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1));
    assert!(run.stderr_lossy().contains("validation by `grep -q Port.23 {}` failed"), "{run}");
    assert_eq!((root.read("etc/x"), root.records("files/edits").is_empty()), (before, true));
    declare(&root, &format!("{PORT}validate = \"grep -q Port.22 {{}}\"\n"));
    applied(&root);
}

fn sensitive() {
    let root = root().file("etc/x", "secret one\n#Port 1\n");
    declare(&root, &format!("{PORT}[[line]]\npath = \"/etc/x\"\nname = \"s\"\nline = \"key\"\nsensitive = true\n"));
    let said = |arguments: &[&str]| {
        let run = root.holo(arguments);
        format!("{run}")
    };
    assert!(!said(&["check", "--diff"]).contains("secret"));
    applied(&root);
    assert!(!said(&["history", "show", "--diff"]).contains("secret"));
    root.write("etc/x", "secret one\nPort 33\nkey\n");
    assert!(!said(&["apply"]).contains("secret") && !said(&["diff"]).contains("secret"));
    undefine(&root);
    assert!(!said(&["check", "--diff"]).contains("secret"));
}

fn contradictions() {
    let root = root().file("etc/x", "a\n").file("etc/y", "a\n");
    root.write("usr/share/holo/files/01-x/etc/y", "overlaid\n");
    let declared = "[[file]]\npath = \"/etc/x\"\ncontent = \"b\\n\"\n";
    declare(&root, &format!("{declared}{PORT}{}", PORT.replace("/x", "/y")));
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    for words in ["line:/etc/x (", " edits the file that file:/etc/x (", " edits the file that file:/etc/y ("] {
        assert!(run.stderr_lossy().contains(words), "{words}\n{run}");
    }
    assert_eq!((root.read("etc/x"), root.read("etc/y")), ("a\n".into(), "a\n".into()));
}

fn successions() {
    let root = root().file("etc/x", "a\n#Port 1\n");
    let declared = "[[file]]\npath = \"/etc/x\"\ncontent = \"b\\n\"\n";
    declare(&root, PORT);
    applied(&root);
    declare(&root, declared);
    applied(&root);
    assert_eq!(root.read("etc/x"), "b\n");
    unchanged(&root);
    declare(&root, PORT);
    applied(&root);
    assert_eq!(root.read("etc/x"), "a\nPort 22\n");
    unchanged(&root);
    // The same with an overlay.
    declare(&root, "");
    root.write("usr/share/holo/files/01-x/etc/x", "overlaid\n");
    applied(&root);
    assert_eq!(root.read("etc/x"), "overlaid\n");
    unchanged(&root);
    fs::remove_dir_all(root.join("usr/share/holo/files/01-x")).unwrap();
    declare(&root, PORT);
    applied(&root);
    assert_eq!(root.read("etc/x"), "a\nPort 22\n");
    undefine(&root);
    applied(&root);
    assert_eq!(root.read("etc/x"), "a\n#Port 1\n");
}

fn replaced_symlink() {
    let link = PORT.replace("/etc/x", "/etc/link");
    let refusal = "line:/etc/link (";
    for definition in [None, Some("[[file]]\npath = \"/etc/link\"\ncontent = \"b\\n\"\n")] {
        let root = root().file("etc/x", "a\n#Port 1\n").symlink("etc/link", "x");
        match definition {
            Some(definition) => declare(&root, &[&link, definition].concat()),
            None => {
                declare(&root, &link);
                root.write("usr/share/holo/files/01-x/etc/link", "overlaid\n");
            }
        }
        for arguments in [&["check"][..], &["apply"]] {
            let run = root.holo(arguments);
            assert!(!run.success() && run.stderr_lossy().contains(refusal), "{run}");
            assert!(run.stderr_lossy().contains("edits the file that file:/etc/link"), "{run}");
        }
        assert_eq!(root.read("etc/x"), "a\n#Port 1\n");
        assert!(root.join("etc/link").is_symlink());
    }
    // A symlink is not replaced by a symlink.
    let root = root().file("etc/x", "a\n#Port 1\n").symlink("etc/link", "x");
    declare(&root, &[&link[..], "[[file]]\npath = \"/etc/link\"\nensure = \"symlink\"\ntarget = \"x\"\n"].concat());
    applied(&root);
    assert_eq!(root.read("etc/x"), "a\nPort 22\n");
    unchanged(&root);
}

fn refused_succession() {
    const DIRECTORY: &str = "[[file]]\npath = \"/srv/d\"\nensure = \"absent\"\nforce = true\n";
    const FILE: &str = "[[file]]\npath = \"/srv/d/x\"\ncontent = \"b\\n\"\n";
    for next in [Some(FILE), Some(DIRECTORY), None] {
        let root = root().file("srv/d/x", "a\n#Port 1\n");
        declare(&root, &PORT.replace("/etc/x", "/srv/d/x"));
        applied(&root);
        root.write("srv/d/x", "a\nPort 2222\n");
        match next {
            Some(definition) => declare(&root, definition),
            None => {
                undefine(&root);
                root.write("usr/share/holo/files/01-x/srv/d/x", "overlaid\n");
            }
        }
        let run = root.holo(&["apply"]);
        assert_eq!(run.status, Some(1), "{run}");
        assert!(run.stderr_lossy().contains("/srv/d/x is edited by line:/srv/d/x; one of both has to go"), "{run}");
        assert_eq!(root.read("srv/d/x"), "a\nPort 2222\n");
        assert!(root.holo(&["apply", "--force"]).success());
        declare(&root, "");
        let _ = fs::remove_dir_all(root.join("usr/share/holo/files/01-x"));
        applied(&root);
        assert_eq!(root.read("srv/d/x"), "a\n#Port 1\n");
    }
}

fn moved() {
    let root = root().file("srv/1", "a\n#Port 1\n").file("srv/2", "b\n#Port 2\n").symlink("etc/x", "../srv/1");
    declare(&root, PORT);
    applied(&root);
    assert_eq!(root.read("srv/1"), "a\nPort 22\n");
    fs::remove_file(root.join("etc/x")).unwrap();
    symlink("../srv/2", root.join("etc/x")).unwrap();
    assert!(root.holo(&["check"]).stdout_lossy().contains("would edit "));
    applied(&root);
    assert_eq!((root.read("srv/1"), root.read("srv/2")), ("a\n#Port 1\n".into(), "b\nPort 22\n".into()));
    unchanged(&root);
    undefine(&root);
    applied(&root);
    assert_eq!(root.read("srv/2"), "b\n#Port 2\n");
}

fn renamed() {
    let root = root().file("etc/x", "a\n");
    let named = |name: &str| format!("[[line]]\npath = \"/etc/x\"\nname = \"{name}\"\nline = \"own\"\n");
    declare(&root, &named("b"));
    applied(&root);
    for name in ["a", "c"] {
        declare(&root, &named(name));
        let run = root.holo(&["check"]);
        assert!(run.stdout_lossy().contains(&format!("Working on line:/etc/x#{name}\n")), "{run}");
        applied(&root);
        assert_eq!(root.read("etc/x"), "a\nown\n");
        unchanged(&root);
    }
}

fn links() {
    let root = root().file("srv/x", "a\n").symlink("etc/x", "../srv/x").symlink("etc/out", "/srv/x");
    declare(&root, &format!("{PORT}{}", PORT.replace("/x", "/out").replace("Port", "Listen")));
    applied(&root);
    assert_eq!(root.read("srv/x"), "a\nListen 22\nPort 22\n");
    assert!(fs::symlink_metadata(root.join("etc/x")).unwrap().is_symlink());
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    undefine(&root);
    applied(&root);
    fs::create_dir(root.join("home")).unwrap();
    symlink("../srv/x", root.join("home/x")).unwrap();
    std::os::unix::fs::lchown(root.join("home/x"), Some(1234), Some(1234)).unwrap();
    declare(&root, &PORT.replace("/etc/x", "/home/x"));
    refused(&root, "/home/x");
    assert_eq!(root.read("srv/x"), "a\n");
}

fn in_place() {
    let root = root().file("etc/x", "a\n#Port 1\n");
    let inode = || fs::metadata(root.join("etc/x")).unwrap().ino();
    let before = inode();
    declare(&root, &format!("{PORT}in_place = true\n"));
    applied(&root);
    assert_eq!((root.read("etc/x"), inode()), ("a\nPort 22\n".into(), before));
    unchanged(&root);
    undefine(&root);
    applied(&root);
    assert_eq!((root.read("etc/x"), inode()), ("a\n#Port 1\n".into(), before));
}

fn not_adopted() {
    let root = root().file("usr/local/etc/x", "a\n").file("usr/local/etc/y", "b\n");
    declare(&root, &PORT.replace("/etc/x", "/usr/local/etc/x"));
    applied(&root);
    let run = root.holo(&["adopt", "--all", "--dry-run"]);
    assert!(!format!("{run}").contains("/etc/x") && format!("{run}").contains("/etc/y"), "{run}");
    let run = root.holo(&["adopt", "/usr/local/etc/x"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains("it is edited by line:/usr/local/etc/x"), "{run}");
}

fn shared_line() {
    let root = root().file("etc/x", "a\n");
    declare(&root, PORT);
    applied(&root);
    declare(&root, &format!("{PORT}[[line]]\npath = \"/etc/x\"\nname = \"z\"\nline = \"Port 1\"\nmatch = \"^Port\"\n"));
    refused(&root, "a line of it is that of line:/etc/x, too; one of both has to go");
}

fn blame() {
    let root = root().file("etc/x", "a\n#Port 1\n");
    let block = "[[block]]\npath = \"/etc/x\"\ncontent = \"in\"\n";
    declare(&root, &format!("{PORT}{block}"));
    applied(&root);
    let said = root.holo(&["blame", "/etc/x"]).stdout_lossy().into_owned();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 5, "{said}");
    assert!(lines[0].starts_with("base\t") && lines[1].contains("a.toml:1\t"), "{said}");
    assert!(lines[2..].iter().all(|line| line.contains("a.toml:5\t")), "{said}");
}

fn mistakes() {
    let root = root().file("etc/x", "a\n");
    let mistakes = [
        ("[[line]]\npath = \"/etc/x\"\n", "a.toml:1: line:/etc/x: line: is missing"),
        ("[[line]]\npath = \"/etc/x\"\nline = \"a\\nb\"\n", "a.toml:3: line:/etc/x: line: \"a\\nb\" is not one line"),
        (
            "[[line]]\npath = \"/etc/x\"\nline = \"a\"\nmatch = \"(\"\n",
            "a.toml:4: line:/etc/x: match: \"(\" is not a reg",
        ),
        ("[[line]]\npath = \"/etc/x\"\nensure = \"absent\"\n", "line:/etc/x: match: is missing; without line,"),
        ("[[line]]\nline = \"x\"\n", "a.toml:1: [[line]]: path: is missing"),
        (
            "[[block]]\npath = \"/etc/x\"\ncontent = \"# END holo\"\n",
            "block:/etc/x: content: \"# END holo\" is a marker",
        ),
        ("[[ini]]\npath = \"/etc/x\"\nkey = \"a=b\"\nvalue = \"\"\n", "key: \"a=b\" would not be read as a key"),
        ("[[ini]]\npath = \"/etc/x\"\nsection = \"[a]\"\nkey = \"b\"\nvalue = \"\"\n", "without brackets"),
        (
            "[[ini]]\npath = \"/etc/x\"\nkey = \"b\"\nvalue = \"\"\ndelimiter = \"is\"\n",
            "delimiter: \"is\" is not a char",
        ),
        ("[[lines]]\npath = \"/etc/x\"\n", "did you mean [[line]]?"),
    ];
    for (definition, words) in mistakes {
        declare(&root, definition);
        let run = root.holo(&["apply"]);
        assert!(run.stderr_lossy().contains(words), "{words}\n{run}");
        assert_eq!(root.read("etc/x"), "a\n");
    }
}

fn version_3() {
    let root = root().env("HOLO_API_VERSION", "3").file("etc/x", "a\n#Port 1\n");
    declare(&root, PORT);
    applied(&root);
    assert_eq!(root.read("etc/x"), "a\nPort 22\n");
    undefine(&root);
    applied(&root);
    assert_eq!(root.read("etc/x"), "a\n#Port 1\n");
}

/// A change that is disturbed, and its scenario.
struct Kill {
    name: &'static str,
    /// The definitions that are applied before, and those whose apply is disturbed.
    before: &'static str,
    definitions: &'static str,
    /// The expected content of the file.
    edited: &'static str,
    /// True if `/etc/link` leads to `/etc/y` before, and to `/etc/x` afterwards.
    moves: bool,
}

const OTHER: &str = "b\n#Port 2\n";
const STOCK: &str = "a\n#Port 1\n[s]\nk = 1\n";
const SEVERAL: &str = "[[line]]\npath = \"/etc/x\"\nline = \"Port 22\"\nmatch = \"^#?Port \"\n\
    [[block]]\npath = \"/etc/x\"\ncontent = \"in\"\ninsert_after = \"^a\"\n\
    [[ini]]\npath = \"/etc/x\"\nsection = \"s\"\nkey = \"k\"\nvalue = \"2\"\n";
const EDITED: &str = "a\n# BEGIN holo\nin\n# END holo\nPort 22\n[s]\nk = 2\n";
const OTHERWISE: &str = "[[line]]\npath = \"/etc/x\"\nline = \"Port 33\"\nmatch = \"^#?Port \"\n\
    [[ini]]\npath = \"/etc/x\"\nsection = \"s\"\nkey = \"l\"\nvalue = \"2\"\n";
const CREATED: &str = "[[line]]\npath = \"/etc/new\"\nline = \"x\"\ncreate = true\n";

const IN_PLACE: &str =
    "[[line]]\npath = \"/etc/x\"\nline = \"Port 22, and more\"\nmatch = \"^#?Port \"\nin_place = true\n";

const LINKED: &str = "[[line]]\npath = \"/etc/link\"\nline = \"Port 22\"\nmatch = \"^#?Port \"\n\
    [[block]]\npath = \"/etc/x\"\ncontent = \"in\"\ninsert_after = \"^a\"\n\
    [[ini]]\npath = \"/etc/link\"\nsection = \"s\"\nkey = \"k\"\nvalue = \"2\"\n";

const KILLS: [Kill; 8] = [
    Kill {
        name: "edits by two names of a file are made",
        before: "",
        definitions: LINKED,
        edited: EDITED,
        moves: false,
    },
    Kill {
        name: "edits follow a symlink to another file",
        before: LINKED,
        definitions: LINKED,
        edited: EDITED,
        moves: true,
    },
    Kill { name: "several edits of a file are made", before: "", definitions: SEVERAL, edited: EDITED, moves: false },
    Kill {
        name: "edits become others",
        before: SEVERAL,
        definitions: OTHERWISE,
        edited: "a\nPort 33\n[s]\nk = 1\nl = 2\n",
        moves: false,
    },
    Kill { name: "edits are taken back", before: SEVERAL, definitions: "", edited: STOCK, moves: false },
    Kill {
        name: "a file is edited in place",
        before: "",
        definitions: IN_PLACE,
        edited: "a\nPort 22, and more\n[s]\nk = 1\n",
        moves: false,
    },
    Kill { name: "an edit is taken back in place", before: IN_PLACE, definitions: "", edited: STOCK, moves: false },
    Kill { name: "a file that was made goes", before: CREATED, definitions: "", edited: STOCK, moves: false },
];

impl Kill {
    fn root(&self) -> ScratchRoot {
        let root = disturb::configure(ScratchRoot::new().file("etc/os-release", "ID=debian\n"), "files");
        let root = root.file("etc/x", STOCK).dir("tmp").dir("var/lib/holo/files");
        root.write("etc/y", OTHER);
        symlink(if self.moves { "y" } else { "x" }, root.join("etc/link")).unwrap();
        root.write("usr/share/holo/files/a.toml", self.before);
        applied(&root);
        fs::remove_file(root.join("etc/link")).unwrap();
        symlink("x", root.join("etc/link")).unwrap();
        root.write("usr/share/holo/files/a.toml", self.definitions);
        root
    }

    /// Asserts that one more apply gives the same result as an undisturbed one, and that everything can be removed.
    #[track_caller]
    fn ends_well(&self, root: &ScratchRoot, when: &str) {
        let content = root.read("etc/x");
        let may_be_torn = self.before == IN_PLACE || self.definitions == IN_PLACE;
        let is_whole = content.ends_with(b"\n") && content.starts_with(b"a\n");
        assert!(is_whole || may_be_torn, "{when}: torn: {content}");
        let run = root.holo(&["apply"]);
        assert_eq!(run.status, Some(0), "{when}: {run}");
        assert_eq!((root.read("etc/x"), root.read("etc/y")), (self.edited.into(), OTHER.into()), "{when}");
        assert!(
            !root.exists("etc/x.holonew") && !root.exists("etc/y.holonew") && !root.exists("etc/new.holonew"),
            "{when}"
        );
        let run = root.holo(&["apply"]);
        assert_eq!(run.stdout_lossy(), "", "{when}");
        // Empty directories are removed by an apply with a change.
        root.write("usr/share/holo/files/a.toml", "[[file]]\npath = \"/etc/other\"\nensure = \"absent\"\n");
        assert_eq!(root.holo(&["apply"]).status, Some(0), "{when}");
        assert_eq!(root.read("etc/x"), STOCK, "{when}");
        assert!(!root.exists("etc/new") && root.records("files/edits").is_empty(), "{when}: {}", root.dump());
    }
}

fn kill_everywhere(case: &Kill) {
    let killed = disturb::everywhere(disturb::CALLS, |call, number| {
        let root = case.root();
        let (_, seen) = disturb::at(&root, &["apply"], call, number, Disturbance::Kill);
        case.ends_well(&root, &format!("killed at {call} {number}"));
        seen
    });
    assert!(killed > 5, "{killed}");
}

fn fail_everywhere(case: &Kill) {
    let calls: Vec<&str> = disturb::CALLS.iter().copied().filter(|call| *call != "flock").collect();
    let failed = disturb::everywhere(&calls, |call, number| {
        let root = case.root();
        let (run, seen) = disturb::at(&root, &["apply"], call, number, Disturbance::Error("ENOSPC"));
        if seen.is_disturbed() && run.status == Some(0) {
            // Calls that do not matter may fail.
            assert!(!root.exists("etc/x.holonew"), "{call} {number}: {run}");
        }
        case.ends_well(&root, &format!("{call} {number} failed"));
        seen
    });
    assert!(failed > 5, "{failed}");
}

fn together() {
    let root = root().file("etc/x", "one\n");
    let edit = |name: u32, line: &str| format!("[[line]]\npath = \"/etc/x\"\nname = \"{name}\"\nline = \"{line}\"\n");
    let all: String = (1..=5).map(|number| edit(number, &format!("line {number}"))).collect();
    // An edit that is impossible does not prevent the others.
    let wrong = "[[line]]\npath = \"/etc/x\"\nname = \"6\"\nline = \"LINE 1\"\nmatch = \"^line 1$\"\n";
    declare(&root, &(all.clone() + wrong));
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert_eq!(root.read("etc/x"), "one\nline 1\nline 2\nline 3\nline 4\nline 5\n");
    declare(&root, &all);
    unchanged(&root);
    root.write("etc/x", "one\n");
    let run = root.holo(&["apply", "--force"]);
    assert!(run.success(), "{run}");
    let content = root.read("etc/x");
    let mut lines: Vec<&[u8]> = content.lines().collect();
    lines.sort_unstable();
    let expected = ["line 1", "line 2", "line 3", "line 4", "line 5", "one"];
    assert_eq!(lines, expected.map(str::as_bytes));
}

/// Returns the numbers of system calls that open, sync, rename or remove the file, and of syncs of its record: of a first apply, a check, an apply with
/// nothing to do, one in which all edits are different, and one that takes them back; and those of a diff.
fn calls_for(edits: usize) -> (Vec<[usize; 2]>, [usize; 2]) {
    let root = root().file("etc/edited", "one\n");
    let define = |value: &str| {
        let edit = |number| {
            let line = format!("line {number} {value}");
            format!("[[line]]\npath = \"/etc/edited\"\nname = \"{number}\"\nline = \"{line}\"\n")
        };
        declare(&root, &(0..edits).map(edit).collect::<String>());
    };
    let traced = |command: &str| {
        let log = root.join("tmp/strace");
        let holo = holo_testing::binaries::built("holo");
        let calls = "trace=open,openat,openat2,rename,renameat,renameat2,unlink,unlinkat,fsync,fdatasync";
        let strace = ["-f", "-qq", "-y", "-o", log.to_str().unwrap(), "-e", calls, "-E", "HOLO_HISTORY=0"];
        let run = root.run("strace", &[&strace[..], &[holo.to_str().unwrap(), command]].concat());
        assert!(run.success(), "{run}");
        let log = fs::read(&log).unwrap();
        let calls = |name: &str| log.lines().filter(|line| line.contains_str(name)).count();
        // The record is in the state database.
        let commits = log.lines().filter(|line| line.contains_str("fdatasync(") && line.contains_str("/state.db-wal>"));
        [calls("/edited"), commits.count()]
    };
    define("1");
    let first = traced("apply");
    assert_eq!(root.read("etc/edited").lines().count(), edits + 1);
    let (check, diff, again) = (traced("check"), traced("diff"), traced("apply"));
    define("2");
    let changed = traced("apply");
    assert_eq!(root.read("etc/edited").lines().filter(|line| line.ends_with(b" 2")).count(), edits);
    undefine(&root);
    let gone = traced("apply");
    assert_eq!(root.read("etc/edited"), "one\n");
    (vec![first, check, again, changed, gone], diff)
}

fn once_for_all() {
    let ((few, few_of_diff), (many, many_of_diff)) = (calls_for(20), calls_for(80));
    assert_eq!(few, many);
    // Before each difference is shown, the file is opened once to see that it has not changed.
    assert!(
        many_of_diff[0] - few_of_diff[0] <= 60 && few_of_diff[1] == many_of_diff[1],
        "{few_of_diff:?} {many_of_diff:?}"
    );
}

fn rejected() {
    let edit = |name: &str| {
        format!(
            "[[line]]\npath = \"/etc/x\"\nname = \"{name}\"\nline = \"{name}\"\n\
            validate = \"grep -v -z -q wrong {{}}\"\n"
        )
    };
    let root = root().file("etc/x", "a\n");
    let all = ["1", "2", "3 is wrong", "4", "5"];
    declare(&root, &all.map(edit).concat());
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert_eq!(run.stderr_lossy().matches("validation by `grep -v -z -q wrong {}` failed").count(), 1, "{run}");
    assert_eq!(root.read("etc/x"), "a\n1\n2\n4\n5\n");
    let run = root.holo(&["apply"]);
    assert_eq!((run.status, root.read("etc/x")), (Some(1), "a\n1\n2\n4\n5\n".into()), "{run}");
    declare(&root, &["1", "5"].map(edit).concat());
    applied(&root);
    assert_eq!(root.read("etc/x"), "a\n1\n5\n");
    unchanged(&root);
}

fn selected() {
    let root = root().file("etc/x", STOCK).symlink("etc/link", "x");
    declare(&root, LINKED);
    let apply = |id: &str| assert!(root.holo(&["apply", id]).success());
    apply("ini:/etc/link#s.k");
    assert_eq!(root.read("etc/x"), "a\n#Port 1\n[s]\nk = 2\n");
    apply("line:/etc/link");
    assert_eq!(root.read("etc/x"), "a\nPort 22\n[s]\nk = 2\n");
    applied(&root);
    assert_eq!(root.read("etc/x"), EDITED);
    // Orphans, one by one.
    undefine(&root);
    apply("line:/etc/link");
    assert_eq!(root.read("etc/x"), EDITED.replace("Port 22", "#Port 1"));
    apply("block:/etc/x");
    assert_eq!(root.read("etc/x"), "a\n#Port 1\n[s]\nk = 2\n");
    applied(&root);
    assert_eq!(root.read("etc/x"), STOCK);
}
