//! What applies remember: plugins are not asked about entities whose witnesses are unchanged, and that never gives
//! another answer than asking them.

use bstr::ByteSlice;
use holo_state::Database;
use holo_testing::{Need, Random, Run, ScratchRoot, binaries::built, random, trial_of};
use libtest_mimic::Trial;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The number of rounds of changes in each life of a root.
const ROUNDS: usize = 25;
/// The number of lives in CI. `HOLO_TEST_CASES=400` makes 10,000 rounds.
const LIVES: u64 = 4;
/// How long a file must be unchanged before its stamp proves that it is.
const SETTLED: Duration = Duration::from_millis(3100);

/// The directories with overlays and declared files.
const DIRECTORIES: [&str; 3] = ["etc/a", "etc/a/b", "srv/c"];
const PER_DIRECTORY: usize = 6;
const OVERLAYS: &str = "usr/share/holo/files/10-x";
const DEFINITIONS: &str = "usr/share/holo/files/20-x.toml";
const STATE: &str = "var/lib/holo/files";

/// The plugins besides `files` whose files change at random.
const OTHERS: [&str; 4] = ["scaffold", "archives", "ssh-keys", "users-groups"];
/// Those whose entities rest on files: a file of an entity, and another path on which the entity rests.
const RESTS_ON: [(&str, &str, &str); 3] = [
    ("scaffold", "srv/app/sub/two", "usr/share/holo/scaffold/app/one"),
    ("archives", "opt/app/bin/x", "srv/app.tar"),
    ("users-groups", "etc/passwd", "etc/group"),
];
/// Files and directories on which entities of these plugins rest.
const OTHER_FILES: [&str; 20] = [
    "etc/holo/resources/scaffold/app/one",
    "etc/holo/resources/ssh-keys/jane/a.pub",
    "srv/app/one",
    "srv/app/sub/two",
    "srv/purged/one",
    "srv/purged/new",
    "srv/purged/sub",
    "usr/share/holo/scaffold/app/one",
    "usr/share/holo/scaffold/app/sub/two.jinja",
    "usr/share/holo/scaffold/app/new",
    "srv/app.tar",
    "opt/app/bin/x",
    "opt/app/doc",
    "home/jane/.ssh/authorized_keys",
    "usr/share/holo/ssh-keys/jane/a.pub",
    "var/lib/holo/ssh-keys/provisioned-entities",
    "etc/passwd",
    "etc/group",
    "var/lib/holo/users-groups/base/user:jane.toml",
    "var/lib/holo/users-groups/provisioned/user:jane.toml",
];
const OTHER_DIRECTORIES: [&str; 6] =
    ["srv/app/sub", "srv/purged", "opt/app", "home/jane", "home/jane/.ssh", "usr/share/holo/scaffold/app"];
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMlEihSDsXtKfjGZmUFcJVFeRT7ctkIuJqrXfdbEAr5w";
const OTHER_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG83S2rxfSj0Lhgspevlz0VCGynAocJFmp/arZ2z3qoJ";
const PASSWD: &str = "root:x:0:0::/root:/bin/sh\njane:x:1000:1000::/home/jane:/bin/sh\n";
const GROUP: &str = "root:x:0:\nstaff:x:50:\njane:x:1000:\n";

/// A case: its name, its requirements, and the test.
type Case = (&'static str, &'static [Need], fn());

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [Case; 12] = [
        ("if all entities are unchanged, no plugin is asked what they are", &[], settled),
        ("what is remembered is not written again if all entities are unchanged", &[], written_once),
        ("what each run must do or tell is not left out if all entities are unchanged", &[], not_settled),
        ("a plugin without entities is not started again", &[], empty_plugin),
        ("a plugin whose witnesses are unchanged is not started", &[], unchanged),
        ("only a plugin with a changed witness is started", &[], changed_witness),
        (
            "every plugin whose entities rest on files is started again for the one that has changed",
            &[Need::Program("tar")],
            others,
        ),
        (
            "packages and repositories are asked about again when the database of packages or a file has changed",
            &[Need::Program("apt-get"), Need::Program("dpkg-query")],
            packages,
        ),
        ("a plugin that has printed a warning is started again", &[], warning),
        ("--verify and --force ask all plugins", &[], options),
        ("another program, another boot or a later clock makes all plugins be asked", &[], another_system),
        (
            "random changes are found as by --verify",
            &[Need::Root, Need::Program("setfacl"), Need::Program("tar")],
            lives,
        ),
    ];
    cases.into_iter().map(|(name, needs, case)| trial_of(name, needs, case)).collect()
}

/// Returns a root whose plugins log each start of a process.
fn logging(plugins: &[&str]) -> ScratchRoot {
    let root = ScratchRoot::new().binary(built("holo")).env("HOLO_HISTORY", "1").file("etc/os-release", "ID=debian\n");
    let lines: String = plugins.iter().map(|id| logging_line(&root, id)).collect();
    root.write("etc/holorc", lines);
    root
}

/// Returns the configuration of a plugin that logs each start of a process.
fn logging_line(root: &ScratchRoot, id: &str) -> String {
    let program = root.join(format!("bin/{id}"));
    let real = built(&format!("holo-{id}"));
    let log = root.join("log");
    let text = format!("#!/bin/sh\necho {id} \"$1\" >>{}\nexec {} \"$@\"\n", log.display(), real.display());
    root.write_script(format!("bin/{id}"), text);
    fs::create_dir_all(root.join(format!("usr/share/holo/{id}"))).unwrap();
    format!("plugin {id}={}\n", program.display())
}

/// Returns the starts of plugins since the last call.
fn starts(root: &ScratchRoot) -> Vec<String> {
    let log = root.join("log");
    let text = fs::read_to_string(&log).unwrap_or_default();
    let _ = fs::remove_file(log);
    text.lines().map(str::to_owned).collect()
}

/// Applies twice, so that everything that can be is remembered.
fn settle(root: &ScratchRoot) {
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    thread::sleep(SETTLED);
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stdout.is_empty(), "{run}");
    starts(root);
}

fn apply(root: &ScratchRoot, options: &[&str]) -> Run {
    root.holo(&[&["apply"], options].concat())
}

fn empty_plugin() {
    let root = logging(&["files", "services", "users-groups", "ssh-keys", "run-scripts", "packages"]);
    root.write("etc/motd", "stock\n");
    root.write(format!("{OVERLAYS}/etc/motd"), "new\n");
    settle(&root);
    assert!(apply(&root, &[]).success());
    assert_eq!(starts(&root), [""; 0]);
    root.write("usr/share/holo/ssh-keys/nobody/x.pub", "");
    apply(&root, &[]);
    assert!(starts(&root).contains(&"ssh-keys session".to_owned()));
}

/// Returns a root with an overlay, two declared files, and a script of which nothing can be known.
fn several() -> ScratchRoot {
    let root = logging(&["files"]);
    root.write("etc/motd", "stock\n");
    root.write(format!("{OVERLAYS}/etc/motd"), "new\n");
    let table = |path| format!("[[file]]\npath = \"{path}\"\ncontent = \"text\\n\"\nmode = \"0644\"\n");
    root.write(DEFINITIONS, [table("/etc/one"), table("/etc/two")].concat());
    root
}

fn unchanged() {
    let root = several();
    settle(&root);
    for arguments in [&["apply"][..], &["check"], &["diff"], &["apply", "--json"]] {
        let run = root.holo(arguments);
        assert!(run.success(), "{run}");
        assert_eq!(starts(&root), [""; 0], "{arguments:?}");
    }
    let run = root.holo(&["apply", "--json"]);
    assert_eq!(run.stdout_lossy().matches("\"result\":\"unchanged\"").count(), 3, "{run}");
    let listed = root.holo(&["scan", "--short"]);
    assert_eq!(listed.stdout_lossy().lines().count(), 3, "{listed}");
    assert_eq!(starts(&root), [""; 0]);
}

fn changed_witness() {
    let root = several();
    settle(&root);
    // The time of the directory changes, but not what the entities rest on.
    root.write("etc/other", "");
    assert!(apply(&root, &[]).success());
    assert_eq!(starts(&root), [""; 0]);
    root.write("etc/one", "edited\n");
    let run = root.holo(&["diff"]);
    assert!(run.stdout_lossy().contains("+edited"), "{run}");
    root.write("etc/one", "text\n");
    assert!(apply(&root, &[]).success());
    settle(&root);
    for (path, text) in [("etc/motd", "edited\n"), ("etc/one", "edited\n"), ("etc/motd.dpkg-dist", "newer\n")] {
        root.write(path, text);
        let run = apply(&root, &[]);
        assert!(!run.stdout.is_empty(), "{path}: {run}");
        assert_eq!(starts(&root), ["files session"], "{path}");
    }
    assert!(apply(&root, &["--force"]).success());
    settle(&root);
    root.write(DEFINITIONS, "");
    let run = apply(&root, &[]);
    assert!(run.success() && !root.exists("etc/one"), "{run}");
    root.write(format!("{OVERLAYS}/etc/motd"), "newest\n");
    assert!(apply(&root, &[]).success());
    assert_eq!(root.read("etc/motd"), "newest\n");
}

/// Adds an entity of each of the other plugins.
fn define_others(root: &ScratchRoot) {
    root.write("etc/passwd", PASSWD);
    root.write("etc/group", GROUP);
    root.write(
        "usr/share/holo/users-groups/10.toml",
        "[[user]]\nname = \"jane\"\nuid = 1000\n[[group]]\nname = \"staff\"\ngid = 50\n",
    );
    root.write("usr/share/holo/ssh-keys/jane/a.pub", format!("{KEY} a\n"));
    root.write("usr/share/holo/ssh-keys/jane/b.pub", format!("{OTHER_KEY} b\n"));
    fs::create_dir_all(root.join("home/jane")).unwrap();
    let scaffold = |target, more| {
        format!("[[scaffold]]\ntarget = \"/srv/{target}\"\nsource = \"app\"\ndata = {{ port = 80 }}\n{more}")
    };
    root.write(
        "usr/share/holo/scaffold/10.toml",
        [scaffold("app", ""), scaffold("purged", "purge = true\nowner = \"jane\"\n")].concat(),
    );
    root.write("usr/share/holo/scaffold/app/one", "text\n");
    root.write("usr/share/holo/scaffold/app/sub/two.jinja", "{{ data.port is defined }}\n");
    root.write("source/bin/x", "program\n");
    root.write("source/doc", "text\n");
    let archive = root.join("usr/lib/app.tar");
    fs::create_dir_all(archive.parent().unwrap()).unwrap();
    let run = |program, arguments: &[&OsStr]| {
        let run = root.run(program, arguments);
        assert!(run.success(), "{run}");
        run.stdout_lossy().to_string()
    };
    let source = root.join("source");
    run(
        "tar",
        &["-cf".as_ref(), archive.as_os_str(), "-C".as_ref(), source.as_os_str(), "bin".as_ref(), "doc".as_ref()],
    );
    let sum = run("sha256sum", &[archive.as_os_str()]);
    let sum = sum.split(' ').next().unwrap();
    root.write(
        "usr/share/holo/archives/10.toml",
        format!(
            "[[archive]]\npath = \"/srv/app.tar\"\nurl = \"file:///usr/lib/app.tar\"\n\
             checksum = \"sha256:{sum}\"\nextract_to = \"/opt/app\"\n"
        ),
    );
}

fn others() {
    let root = logging(&RESTS_ON.map(|(plugin, ..)| plugin));
    define_others(&root);
    settle(&root);
    // The second apply has written what the next one rests on.
    settle(&root);
    let run = apply(&root, &[]);
    assert!(run.success() && run.stdout.is_empty(), "{run}");
    assert_eq!(starts(&root), [""; 0]);
    for (plugin, own, other) in RESTS_ON {
        for path in [own, other] {
            let before = root.read(path);
            keeping_time(&root.join(path), flip);
            drop(root.holo(&["check"]));
            // Another plugin may start too, because users own files.
            assert!(starts(&root).contains(&format!("{plugin} session")), "{path}");
            root.write(path, before);
        }
        assert!(apply(&root, &[]).success());
        settle(&root);
        settle(&root);
        assert!(apply(&root, &[]).success());
        assert_eq!(starts(&root), [""; 0], "after a change for {plugin}");
    }
    // A new resource directory takes precedence.
    root.write("etc/holo/resources/scaffold/app/one", "own\n");
    let run = root.holo(&["check"]);
    assert!(run.stdout_lossy().contains("would write"), "{run}");
    fs::remove_dir_all(root.join("etc/holo/resources")).unwrap();
    settle(&root);
    // What one entity claims, others must not make.
    root.write("etc/holorc", root.read("etc/holorc").to_string() + &logging_line(&root, "files"));
    root.write(DEFINITIONS, "[[file]]\npath = \"/srv/app/one\"\ncontent = \"other\\n\"\n");
    drop(root.holo(&["check"]));
    let starts = starts(&root);
    assert!(starts.contains(&"scaffold session".to_owned()), "{starts:?}");
}

const STATUS: &str = "var/lib/dpkg/status";

/// Returns the database of dpkg with one package.
fn installed(version: &str) -> String {
    format!(
        "Package: foo\nStatus: install ok installed\nMaintainer: x\nArchitecture: all\nVersion: {version}\n\
         Description: x\n"
    )
}

fn packages() {
    let root = logging(&["files", "packages"]);
    root.write(STATUS, installed("1.0"));
    fs::create_dir_all(root.join("var/lib/dpkg/updates")).unwrap();
    fs::create_dir_all(root.join("etc/apt/sources.list.d")).unwrap();
    root.write("etc/motd", "stock\n");
    root.write(format!("{OVERLAYS}/etc/motd"), "new\n");
    let definitions = "usr/share/holo/packages/10.toml";
    root.write("srv/repo/Packages", "");
    root.write(
        definitions,
        format!(
            "[[package]]\nname = \"foo\"\n[[package]]\nname = \"bar\"\nensure = \"absent\"\n[[repository]]\n\
             name = \"own\"\nuris = [\"file://{}\"]\nsuites = [\"./\"]\ntrusted = true\n",
            root.join("srv/repo").display()
        ),
    );
    settle(&root);
    assert!(is_settled(&root));
    assert!(apply(&root, &[]).success());
    assert_eq!(starts(&root), [""; 0]);
    let repository = fs::read_dir(root.join("etc/apt/sources.list.d")).unwrap().next().unwrap().unwrap();
    let repository = repository.file_name().into_string().unwrap();
    let marks = "var/lib/apt/extended_states";
    let automatic = "Package: other\nArchitecture: all\nAuto-Installed: 1\n";
    for (path, content) in [(STATUS, &*installed("1.1")), (marks, automatic), ("var/lib/dpkg/arch", "amd64\n")] {
        root.write(path, content);
        let run = apply(&root, &[]);
        assert!(run.success() && run.stdout.is_empty(), "{path}: {run}");
        assert!(starts(&root).contains(&"packages session".to_owned()), "{path}");
        settle(&root);
        assert!(apply(&root, &[]).success());
        assert_eq!(starts(&root), [""; 0], "{path}");
    }
    // Its version belongs to the next generation, although the plugin is not asked for it again.
    let knows_version = || root.holo(&["state", "export"]).stdout.contains_str("version=1.1");
    assert!(!knows_version());
    root.write(format!("{OVERLAYS}/etc/motd"), "newest\n");
    assert!(apply(&root, &[]).success() && knows_version());
    settle(&root);
    root.write(format!("etc/apt/sources.list.d/{repository}"), "edited\n");
    let run = root.holo(&["check"]);
    assert!(run.stdout_lossy().contains("repository:own"), "{run}");
    assert!(apply(&root, &["--force"]).success());
    settle(&root);
    root.write(STATUS, "");
    let run = root.holo(&["check", "package:foo"]);
    assert!(!run.success() && starts(&root).contains(&"packages session".to_owned()), "{run}");
}

fn warning() {
    let root = several();
    root.write("usr/share/holo/files/30-wrong.toml", "[[file]]\n");
    let wrong = || {
        let run = root.holo(&["check"]);
        assert!(run.stderr_lossy().contains("30-wrong.toml"), "{run}");
    };
    apply(&root, &[]);
    thread::sleep(SETTLED);
    apply(&root, &[]);
    wrong();
    wrong();
}

fn options() {
    let root = several();
    settle(&root);
    for option in ["--verify", "--force"] {
        assert!(apply(&root, &[option]).success());
        assert_eq!(starts(&root).last().map(String::as_str), Some("files session"), "{option}");
    }
}

fn another_system() {
    let root = several();
    settle(&root);
    // The stamp of the program changes, not what it does.
    root.write_script("bin/files", root.read("bin/files"));
    assert!(apply(&root, &[]).success());
    assert_eq!(starts(&root), ["files info", "files session"]);
    settle(&root);
    let database = Database::new(root.join("var/lib/holo/state.db"));
    let mut remembered = database.remembered().unwrap();
    remembered.iter_mut().for_each(|remembered| remembered.value.truncate(100));
    database.remember(&remembered, None).unwrap();
    assert!(apply(&root, &[]).success());
    assert_eq!(starts(&root), ["files info", "files session"]);
}

/// Returns true if an apply has found that there is nothing to do.
fn is_settled(root: &ScratchRoot) -> bool {
    Database::new(root.join("var/lib/holo/state.db")).settled().unwrap().is_some()
}

fn written_once() {
    // As on a real root. Without overlays, the plugin has no directory of its own, and that of the database changes in each run.
    let root = logging(&["files"]).env("HOLO_FILES_RECORD", "1");
    root.write(DEFINITIONS, "[[file]]\npath = \"/etc/one\"\ncontent = \"text\\n\"\n");
    settle(&root);
    let remembered = || Database::read_only(root.join("var/lib/holo/state.db")).remembered().unwrap();
    let before = remembered();
    // The time is part of it, in seconds.
    thread::sleep(Duration::from_millis(1100));
    for _ in 0..2 {
        let run = apply(&root, &[]);
        assert!(run.success() && run.stdout.is_empty() && run.stderr.is_empty(), "{run}");
    }
    assert!(remembered() == before);
}

fn settled() {
    let root = several();
    settle(&root);
    assert!(is_settled(&root));
    // It is recorded like any other run.
    let run = apply(&root, &[]);
    assert!(run.success() && run.stdout.is_empty() && run.stderr.is_empty(), "{run}");
    let status = root.holo(&["status"]);
    assert!(status.stdout_lossy().contains("All 3 entities are in their desired state"), "{status}");
    // Programs are told about each entity.
    for verb in ["apply", "check"] {
        let run = root.holo(&[verb, "--json"]);
        assert_eq!(run.stdout_lossy().matches("\"result\":\"unchanged\"").count(), 3, "{run}");
    }
    assert!(is_settled(&root));
    root.write("run/holo.pid", "1\n");
    let run = apply(&root, &[]);
    assert!(run.stderr_lossy().contains("Taking over lock file") && !root.exists("run/holo.pid"), "{run}");
    root.write("etc/one", "edited\n");
    for arguments in [&["apply", "--dry-run"][..], &["diff"], &["apply"]] {
        let run = root.holo(arguments);
        assert!(run.stdout_lossy().contains("/etc/one"), "{arguments:?}: {run}");
    }
    assert!(apply(&root, &["--force"]).success());
    settle(&root);
    assert!(is_settled(&root));
    fs::remove_file(root.join(DEFINITIONS)).unwrap();
    let run = apply(&root, &[]);
    assert!(run.success() && !root.exists("etc/one"), "{run}");
}

fn not_settled() {
    let root = several();
    settle(&root);
    // Each run warns of it.
    root.write("etc/holorc.d/x.dpkg-old", "");
    let warns = |root: &ScratchRoot| {
        let run = apply(root, &[]);
        assert!(run.success() && run.stderr_lossy().contains("x.dpkg-old"), "{run}");
    };
    for _ in 0..2 {
        warns(&root);
        thread::sleep(SETTLED);
    }
    fs::remove_dir_all(root.join("etc/holorc.d")).unwrap();
    settle(&root);
    assert!(is_settled(&root));
    // Another user may have changed it.
    set_mode(&root.join("etc/holorc"), 0o666);
    for _ in 0..2 {
        let run = apply(&root, &[]);
        assert!(run.success() && run.stderr_lossy().contains("etc/holorc"), "{run}");
        thread::sleep(SETTLED);
    }
    set_mode(&root.join("etc/holorc"), 0o644);
    settle(&root);
    assert!(is_settled(&root));
    // It makes another entity each time.
    let generator =
        "#!/bin/sh\nmkdir -p $OUT/files\nprintf '[[file]]\\npath = \"/etc/%s\"\\n' $(date +%s%N) >$OUT/files/x.toml\n";
    root.write_script("usr/share/holo/generators/x", generator);
    for _ in 0..2 {
        assert!(apply(&root, &[]).stdout_lossy().contains("Working on file:/etc/1"));
        thread::sleep(SETTLED);
    }
}

fn lives() {
    random::cases_that_wait(LIVES, life);
}

/// A root with random definitions, which is changed at random.
fn life(random: &mut Random) {
    let root = ScratchRoot::new().binary(built("holo")).env("HOLO_HISTORY", "1").plugin("files");
    // SSH keys and scripts are always asked about, so that the run as a whole is never known to have nothing to do.
    let can_settle = random.chance(70);
    let others = OTHERS.into_iter().filter(|&plugin| !(can_settle && plugin == "ssh-keys"));
    let root = others.fold(root, ScratchRoot::plugin);
    root.write("etc/os-release", "ID=debian\n");
    define_others(&root);
    let mut definitions = String::new();
    for directory in DIRECTORIES {
        for number in 0..PER_DIRECTORY {
            root.write(format!("{directory}/overlay{number}"), "stock\n");
            root.write(format!("{OVERLAYS}/{directory}/overlay{number}"), format!("new {number}\n"));
            let owner = ["", "owner = \"jane\"\n", "group = \"staff\"\n"][number % 3];
            let table = format!("[[file]]\npath = \"/{directory}/declared{number}\"\ncontent = \"text\\n\"\n{owner}");
            definitions.push_str(&table);
        }
    }
    definitions.push_str("[[file]]\npath = \"/etc/link\"\nensure = \"symlink\"\ntarget = \"a/overlay0\"\n");
    definitions.push_str("[[file]]\npath = \"/etc/gone\"\nensure = \"absent\"\n");
    definitions.push_str("[[file]]\npath = \"/srv/folder\"\nensure = \"directory\"\n");
    root.write(DEFINITIONS, &definitions);
    if !can_settle {
        root.write_script(format!("{OVERLAYS}/etc/scripted.holoscript"), "#!/bin/sh\ncat; echo more\n");
    }
    root.write("etc/scripted", "stock\n");
    let mut life = Life { root, saved: None, mounted: None, log: Vec::new() };
    for round in 0..ROUNDS {
        if round % 9 == 0 {
            life.recover();
            assert!(round > 0 || is_settled(&life.root) == can_settle);
        }
        life.log.clear();
        for _ in 0..=random.below(3) {
            life.change(random);
        }
        life.compare();
        let options: &[&str] = if random.chance(30) { &["--force"] } else { &[] };
        apply(&life.root, options);
        life.compare();
        life.unmount();
    }
}

/// A root, and what was done to it since the last comparison.
struct Life {
    root: ScratchRoot,
    /// A copy of the state, to be restored later.
    saved: Option<PathBuf>,
    /// A directory on which a copy of it is mounted.
    mounted: Option<PathBuf>,
    log: Vec<String>,
}

impl Drop for Life {
    fn drop(&mut self) {
        self.unmount();
    }
}

impl Life {
    fn unmount(&mut self) {
        if let Some(mounted) = self.mounted.take() {
            self.run("umount", [&mounted]);
        }
    }

    /// Runs a program, and returns true if it succeeds.
    fn run<A: AsRef<OsStr>>(&self, program: &str, arguments: impl IntoIterator<Item = A>) -> bool {
        self.root.run(program, &arguments.into_iter().collect::<Vec<_>>()).success()
    }

    fn copy(&self, from: &Path, to: &Path) -> bool {
        self.run("cp", [OsStr::new("-a"), from.as_os_str(), to.as_os_str()])
    }

    /// Applies until as many entities as possible are in their desired state, and remembered.
    fn recover(&self) {
        for options in [&["--force"][..], &[]] {
            apply(&self.root, options);
            thread::sleep(SETTLED);
        }
        apply(&self.root, &[]);
    }

    /// Compares what is remembered with the answers of the plugin.
    fn compare(&self) {
        let remembered = self.root.holo(&["apply", "--dry-run"]);
        let verified = self.root.holo(&["apply", "--dry-run", "--verify"]);
        let text = |run: &Run| {
            let of_run = |line: &&str| !line.contains("/holo.");
            let lines = |text: &str| text.lines().filter(of_run).map(str::to_owned).collect::<Vec<_>>();
            (run.status, lines(&run.stdout_lossy()), lines(&run.stderr_lossy()))
        };
        assert_eq!(text(&remembered), text(&verified), "after {:#?}", self.log);
    }

    /// Makes one random change.
    fn change(&mut self, random: &mut Random) {
        let is_other = random.chance(40);
        let directory = *random.pick(if is_other { &OTHER_DIRECTORIES[..] } else { &DIRECTORIES });
        let kind = *random.pick(&["overlay", "declared"]);
        let below = format!("{directory}/{kind}{}", random.below(PER_DIRECTORY));
        let below = if random.chance(10) { "etc/scripted".to_owned() } else { below };
        let file = self.root.join(&below);
        let resource = self.root.join(OVERLAYS).join(&below);
        let image = self.root.join(STATE).join(*random.pick(&["base", "provisioned"])).join(&below);
        let subject = match random.below(10) {
            _ if is_other => self.root.join(random.pick(&OTHER_FILES)),
            0..6 => file,
            6..8 => resource,
            _ => image,
        };
        let choice = random.below(21);
        self.log.push(format!("{choice}: {}", subject.display()));
        match choice {
            0..3 => keeping_time(&subject, flip),
            3 => flip(&subject),
            4 => append(&subject),
            5 => drop(fs::remove_file(&subject)),
            6 => set_mode(&subject, *random.pick(&[0o600, 0o644, 0o755])),
            7 => drop(chown(&subject, Some(*random.pick(&[0, 1, 1000])), None)),
            8 => drop(self.run("setfacl", ["-m".as_ref(), "u:1:r".as_ref(), subject.as_os_str()])),
            9 => {
                let stock = *random.pick(&[".dpkg-dist", ".dpkg-old"]);
                let path = self.root.join(format!("{below}{stock}"));
                let _ = fs::write(path, "newer stock\n");
            }
            // Another file with the same content and time.
            10 => keeping_time(&subject, |path| {
                let beside = path.with_extension("copy");
                if fs::copy(path, &beside).is_ok() {
                    let _ = fs::rename(&beside, path);
                }
            }),
            11 => {
                if fs::symlink_metadata(&subject).is_ok() {
                    let beside = subject.with_extension("target");
                    let _ = fs::rename(&subject, &beside);
                    let _ = symlink(&beside, &subject);
                }
            }
            12 => self.move_directory(directory, random.chance(50)),
            13 => self.copy_directory(directory),
            14 => self.mount(directory),
            15 => set_mode(&self.root.join(directory), *random.pick(&[0o700, 0o755, 0o777])),
            16 => self.save_or_restore(random),
            17 => {
                // A definition changes without changing its length.
                let definitions = self.root.read(DEFINITIONS).to_string();
                let (from, to) = if random.chance(50) { ("text", "TEXT") } else { ("TEXT", "text") };
                let path = self.root.join(DEFINITIONS);
                keeping_time(&path, |path| fs::write(path, definitions.replacen(from, to, 1)).unwrap());
            }
            18 => {
                let _ = fs::create_dir_all(subject.parent().unwrap());
                let _ = fs::write(&subject, "again\n");
            }
            19 => {
                let uid = *random.pick(&["1000", "1001"]);
                let path = self.root.join("etc/passwd");
                keeping_time(&path, |path| fs::write(path, PASSWD.replacen("1000", uid, 1)).unwrap());
            }
            // Another entity claims a path in a tree, or gives it up.
            _ => {
                let path = format!("{OVERLAYS}.toml");
                let claimed = *random.pick(&OTHER_FILES);
                if self.root.exists(&path) {
                    fs::remove_file(self.root.join(path)).unwrap();
                } else {
                    self.root.write(path, format!("[[file]]\npath = \"/{claimed}\"\ncontent = \"text\\n\"\n"));
                }
            }
        }
    }

    /// Moves a directory away, and puts a symlink to it, or nothing, in its place.
    fn move_directory(&self, directory: &str, leaves_link: bool) {
        let (path, moved) = (self.root.join(directory), self.root.join(format!("{directory}-moved")));
        if moved.exists() {
            let _ = fs::remove_file(&path);
            let _ = fs::remove_dir_all(&path);
            let _ = fs::rename(&moved, &path);
        } else if fs::rename(&path, &moved).is_ok() && leaves_link {
            let _ = symlink(&moved, &path);
        }
    }

    /// Replaces a directory by a copy of it, as a restored backup does.
    fn copy_directory(&self, directory: &str) {
        let (path, copy) = (self.root.join(directory), self.root.join(format!("{directory}-copy")));
        if self.copy(&path, &copy) {
            let _ = fs::remove_dir_all(&path);
            let _ = fs::rename(&copy, &path);
        }
    }

    /// Mounts a copy of a directory on it, with another content of one file.
    fn mount(&mut self, directory: &str) {
        let (path, copy) = (self.root.join(directory), self.root.join(format!("{directory}-mount")));
        if self.mounted.is_some() || !path.is_dir() || path.is_symlink() {
            return;
        }
        let _ = fs::remove_dir_all(&copy);
        let is_copied = self.copy(&path, &copy);
        flip(&copy.join("overlay1"));
        if is_copied && self.run("mount", ["--bind".as_ref(), copy.as_os_str(), path.as_os_str()]) {
            self.mounted = Some(path);
        }
    }

    /// Saves the state, or restores what was saved.
    fn save_or_restore(&mut self, random: &mut Random) {
        let state = self.root.join("var/lib/holo");
        match self.saved.take() {
            Some(saved) if random.chance(70) => {
                // Only a part of a backup may be restored.
                let part = *random.pick(&["", "files", "state.db"]);
                let (from, to) = (saved.join(part), state.join(part));
                let _ = fs::remove_dir_all(&to);
                for suffix in ["", "-wal", "-shm"].iter().filter(|_| part == "state.db") {
                    let _ = fs::remove_file(state.join(format!("state.db{suffix}")));
                }
                self.copy(&from, &to);
                let _ = fs::remove_dir_all(saved);
            }
            saved => {
                saved.into_iter().for_each(|saved| drop(fs::remove_dir_all(saved)));
                let saved = self.root.join("var/lib/holo.saved");
                if self.copy(&state, &saved) {
                    self.saved = Some(saved);
                }
            }
        }
    }
}

/// Changes the content of a file without changing its size.
fn flip(path: &Path) {
    if let Ok(mut content) = fs::read(path) {
        content.iter_mut().take(1).for_each(|byte| *byte ^= 0x20);
        let _ = fs::write(path, content);
    }
}

fn append(path: &Path) {
    if let Ok(content) = fs::read(path) {
        let _ = fs::write(path, [content, b"more\n".to_vec()].concat());
    }
}

fn set_mode(path: &Path, mode: u32) {
    let _ = fs::set_permissions(path, Permissions::from_mode(mode));
}

/// Changes a file and restores the time of its modification.
fn keeping_time(path: &Path, change: impl FnOnce(&Path)) {
    let Ok(before) = fs::metadata(path) else { return };
    change(path);
    let time = Timespec { tv_sec: before.mtime(), tv_nsec: before.mtime_nsec() };
    let _ = utimensat(CWD, path, &Timestamps { last_access: time, last_modification: time }, AtFlags::empty());
}
