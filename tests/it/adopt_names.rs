//! File names, account fields and key comments with arbitrary content never become more than a value in an adopted
//! definition.

use crate::adopt_crash::own_resources;
use bstr::{BString, ByteSlice};
use holo_testing::random::{self, Random};
use holo_testing::{Need, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

pub(crate) fn trials() -> Vec<Trial> {
    let needs = [Need::Program("systemctl")];
    vec![
        trial_of("hostile names add no definitions when everything is adopted", &needs, || adopted(true)),
        trial_of("hostile names add no definitions when they are named", &needs, || adopted(false)),
        trial_of("a name with a newline does not keep other files from being adopted", &[], one_newline),
    ]
}

const PLUGINS: [&str; 5] = ["packages", "files", "users-groups", "ssh-keys", "services"];
const PIECES: [&[u8]; 20] = [
    b"\n",
    b"\n\n[[line]]\npath = \"/etc/motd\"\nline = \"evil\"\n",
    b"\n[[file]]\npath = \"/etc/cron.d/evil\"\ncontent = \"evil\"\n",
    b"\n# adopted: file:/etc/evil\n",
    b"\r",
    b"\r\n",
    b"\t",
    b"\x1b[31m",
    b"\x7f",
    b"\xc2\x85",
    b"\xe2\x80\xa8",
    b"\xe9",
    b"\xc3\xa9",
    b"\"",
    b"\"\"\"",
    b"\\u000a",
    b"'",
    b" # ",
    b"{{ facts.os.id }}",
    b"name",
];
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMlEihSDsXtKfjGZmUFcJVFeRT7ctkIuJqrXfdbEAr5w";
const STATUS: &str = "Package: web\nStatus: install ok installed\nVersion: 1\nArchitecture: all\nDescription: x\n";

fn hostile(random: &mut Random) -> Vec<u8> {
    (0..1 + random.below(4)).flat_map(|_| random.pick(&PIECES).to_vec()).collect()
}

/// Returns a root with hostile names, and the paths of its files.
fn hostile_root(random: &mut Random) -> (ScratchRoot, Vec<PathBuf>) {
    let field = |random: &mut Random| hostile(random).replace("\n", "").replace(":", "").to_str_lossy().into_owned();
    let mut passwd = b"root:x:0:0::/root:/bin/sh\n".to_vec();
    let comment = hostile(random).replace("\n", "").replace(":", "");
    passwd.extend([b"jane:x:1000:1000:", &comment[..], b":/home/jane:/bin/sh\n"].concat());
    passwd.extend(format!("app:x:1001:1000::/srv/{}:/bin/sh\n", field(random)).into_bytes());
    let root = ScratchRoot::in_memory().binary(built("holo"));
    let root = PLUGINS.into_iter().fold(root, |root, id| root.plugin(id));
    let root = root
        .file("etc/os-release", "ID=debian\n")
        .file("etc/motd", "welcome\n")
        .file("etc/passwd", passwd)
        .file("etc/group", "jane:x:1000:\n")
        .file("home/jane/.ssh/authorized_keys", [KEY.as_bytes(), b" ", &hostile(random)[..], b"\n"].concat())
        .mode("home/jane/.ssh", 0o700)
        .mode("home/jane/.ssh/authorized_keys", 0o600)
        .file("var/lib/dpkg/status", STATUS)
        .file("var/lib/dpkg/info/web.list", "/.\n/etc\n/etc/web\n/usr\n/usr/lib/systemd/system/web.service\n")
        .file("usr/lib/systemd/system/web.service", "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=x.target\n")
        .symlink("etc/systemd/system/x.target.wants/web.service", "/usr/lib/systemd/system/web.service");
    let mut paths = Vec::new();
    for folder in ["usr/local/share", "etc/web"] {
        for _ in 0..5 {
            let below = [folder.as_bytes(), b"/", &hostile(random)[..]].concat();
            let path = Path::new(OsStr::from_bytes(&below)).to_owned();
            let whole = root.path().join(&path);
            let made = fs::create_dir_all(whole.parent().unwrap()).and_then(|()| match random.below(3) {
                0 => symlink(OsString::from_vec(hostile(random)), &whole),
                _ => fs::write(&whole, hostile(random)),
            });
            // A file may already exist where another one needs a directory.
            paths.extend(made.is_ok().then_some(path));
        }
    }
    (root, paths)
}

fn adopted(all: bool) {
    random::cases(16, |random| {
        let (root, paths) = hostile_root(random);
        let paths: Vec<PathBuf> = paths.into_iter().map(|path| root.path().join(path)).collect();
        let ids = ["user:jane", "user:app", "ssh-keyset:jane/adopted", "service:web.service"].map(PathBuf::from);
        let named: Vec<&Path> =
            [Path::new("adopt")].into_iter().chain(paths.iter().chain(&ids).map(|path| &**path)).collect();
        let adopt = || if all { root.holo(&["adopt", "--all"]) } else { root.holo(&named) };
        let run = adopt();
        // Some of the names cannot be adopted.
        assert!(matches!(run.status, Some(0 | 1)), "{run}");
        let written = own_resources(&root);
        assert!(written.keys().any(|path| path.ends_with(".toml")), "{run}");
        for (path, text) in &written {
            if path.ends_with(".toml") {
                defines_what_is_there(&root, text);
            }
        }
        let check = root.holo(&["check"]);
        let said = (check.status, check.stdout_lossy(), check.stderr_lossy());
        assert_eq!(said, (Some(0), "".into(), "".into()), "{run}\n{check}");
        let again = adopt();
        assert_eq!(again.status, run.status, "{again}");
        assert_eq!(own_resources(&root), written, "{again}");
    });
}

/// Asserts that a file contains one definition for each name in its comments, all of existing entities.
#[track_caller]
fn defines_what_is_there(root: &ScratchRoot, text: &BString) {
    let tables: toml::Table = text.to_str().unwrap().parse().unwrap();
    let mut count = 0;
    for (kind, tables) in &tables {
        for table in tables.as_array().unwrap() {
            count += 1;
            match (kind.as_str(), table.get("path"), table.get("name")) {
                ("file", Some(path), None) => {
                    let path = path.as_str().unwrap().strip_prefix('/').unwrap();
                    assert!(root.path().join(path).symlink_metadata().is_ok(), "{path} is not there:\n{text}");
                }
                ("user" | "group" | "service" | "package", None, Some(_)) => {}
                _ => panic!("{kind} is nothing that was adopted:\n{text}"),
            }
        }
    }
    assert_eq!(count, text.lines().filter(|line| line.starts_with(b"# adopted: ")).count(), "{text}");
}

fn one_newline() {
    let root = ScratchRoot::in_memory()
        .binary(built("holo"))
        .plugin("files")
        .file("etc/os-release", "ID=unittest\n")
        .file("usr/local/bin/mine", "mine\n")
        .file("usr/local/bin/x\n[[file]]", "odd\n");
    let run = root.holo(&["adopt", "--all"]);
    assert_eq!(run.status, Some(0), "{run}");
    let words = r"Not adopted (its path contains control characters)
      entity file:/usr/local/bin/x\n[[file]]
";
    assert!(run.stdout.contains_str(words), "{run}");
    assert!(root.exists("etc/holo/resources/files/adopted-usr-local-bin-mine.content"), "{run}");
}
