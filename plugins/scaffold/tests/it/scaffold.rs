//! Trees that are rendered, changed by users, rendered again, and removed. Each test covers one rule.

use holo_testing::overlay::NEEDS;
use holo_testing::{Need, Overlay, Run, ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

const DEFINITION: &str = "usr/share/holo/scaffold/app.toml";
const SOURCE: &str = "usr/share/holo/scaffold/app";

type Case = (&'static str, &'static [Need], fn());

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [Case; 40] = [
        ("a tree is rendered, names and all, and then there is nothing to do", &[], rendered),
        ("what is undefined is an error with file and line, and nothing is touched", &[], undefined),
        ("data are never templates", &[], rendered_once),
        ("a directory of CCM becomes what it does there", &[], as_the_peer_has_it),
        ("files that are ignored are not rendered", &[], ignored),
        ("partials stay in their folder", &[], partials),
        ("a scaffold's own data are stronger than all other", &[], own_data),
        ("the engine of Go", &[], go),
        ("the engine of Jet, and delimiters of one's own", &[], jet),
        ("names that cannot be are refused", &[], names),
        ("check says what would be done, and does nothing", &[], check),
        ("what a person has edited or given another mode needs force, and is named", &[], changed_by_person),
        ("a changed template changes its file alone", &[], changed_template),
        ("modes are declared, found or the usual ones", &[], modes),
        ("owners are declared by name", &[Need::Root], owners),
        ("what the source has no more becomes what it was", &[], gone_from_source),
        ("what was edited and then dropped by the source needs force", &[], edited_and_gone),
        ("empty files are left out where that is wanted", &[], skip_empty),
        ("a file becomes a directory and a directory a file", &[], file_and_directory),
        ("a directory with somebody's file in it does not become a file", &[], full_directory),
        ("purge removes what is not made, and it comes back", &[], purge),
        ("purge removes what comes again, and the last of it comes back", &[], purge_again),
        ("without purge, what was purged comes back", &[], purge_no_more),
        ("purge does not follow symlinks", &[], purge_symlinks),
        ("purge leaves a scaffold alone whose definition is broken", &[], purge_nested),
        ("purge spares files with edits, overlays and patches", &[], purge_layers),
        ("a purged file comes back when it is edited, and goes when the edit is gone", &[], purge_and_edit),
        ("a file with edits becomes nobody's base", &[], edited_files),
        ("purge leaves sockets and FIFOs alone", &[Need::Program("mkfifo")], purge_special),
        ("purge does not cross mounts, of the same file system neither", NEEDS, purge_mounts),
        ("a symlink inside of the target is not followed", &[], symlink_inside),
        ("the root, symlinks and files are no targets", &[], no_targets),
        ("an orphan leaves what is not ours", &[], orphan),
        ("ensure = absent brings back what was there", &[], absent),
        ("differences of one file and of many are shown", &[], differences),
        ("programs are called once for what has changed, at its real path", NEEDS, programs),
        ("files are validated before any of them is in place, each as a copy of its name", &[], validated),
        ("white space around blocks is left out where that is wanted", &[], blocks),
        ("many scaffolds with many files", &[], many),
        ("the examples of the man page", &[], man_page),
    ];
    cases.map(|(name, needs, test)| trial_of(name, needs, test)).into()
}

/// Returns a root with one scaffold, `/etc/app` from `app/`, with these additional keys.
fn lab(keys: &str) -> ScratchRoot {
    let root = ScratchRoot::new().plugin("scaffold").dir(SOURCE).dir("var/lib/holo/scaffold");
    define(&root, keys);
    root
}

fn define(root: &ScratchRoot, keys: &str) {
    root.write(DEFINITION, format!("[[scaffold]]\ntarget = \"/etc/app\"\nsource = \"app\"\n{keys}\n"));
}

fn template(root: &ScratchRoot, path: &str, text: impl AsRef<[u8]>) {
    root.write(Path::new(SOURCE).join(path), text);
}

#[track_caller]
fn applied(root: &ScratchRoot) -> Run {
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    settled(root);
    run
}

/// Checks that there is nothing to do.
#[track_caller]
fn settled(root: &ScratchRoot) {
    let before = root.dump();
    let run = root.holo(&["check"]);
    assert!(run.success(), "{run}");
    let again = root.holo(&["apply"]);
    assert!(again.success() && again.stdout.is_empty() && again.stderr.is_empty(), "{again}");
    assert_eq!(root.dump(), before);
}

/// Checks that an apply fails or needs force, prints these words, and changes nothing.
#[track_caller]
fn refused(root: &ScratchRoot, words: &str) {
    let before = root.dump();
    let run = root.holo(&["apply"]);
    assert!(run.status == Some(1) && run.stderr_lossy().contains(words), "expected: {words}\n{run}");
    assert_eq!(root.dump(), before, "{run}");
    let check = root.holo(&["check"]);
    assert!([check.stdout_lossy(), check.stderr_lossy()].concat().contains(words), "expected: {words}\n{check}");
}

#[track_caller]
fn forced(root: &ScratchRoot) {
    let run = root.holo(&["apply", "--force"]);
    assert!(run.success(), "{run}");
    settled(root);
}

/// Removes the definition, and checks that all its paths are removed.
#[track_caller]
fn scrubbed(root: &ScratchRoot) {
    fs::remove_file(root.join(DEFINITION)).unwrap();
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    // Provisioned directories that contain files of others stay recorded until they can be removed.
    let left = fs::read_dir(root.join("var/lib/holo/scaffold")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(left.into_iter().all(|name| name == "directories"), "{}", root.dump());
}

fn mode(root: &ScratchRoot, path: &str) -> u32 {
    fs::metadata(root.join(path)).unwrap().mode() & 0o7777
}

fn set_mode(root: &ScratchRoot, path: &str, mode: u32) {
    fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
}

/// Returns all paths below the target, with a slash after directories.
fn tree(root: &ScratchRoot) -> String {
    fn walk(folder: &Path, below: &str, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{below}{}", entry.file_name().to_string_lossy());
            if entry.file_type().unwrap().is_dir() {
                walk(&entry.path(), &format!("{name}/"), found);
                found.push(format!("{name}/"));
            } else {
                found.push(name);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root.join("etc/app"), "", &mut found);
    found.sort();
    found.join(" ")
}

fn rendered() {
    let root = lab("");
    template(&root, "app.conf.jinja", "kernel = {{ facts.kernel.name }}\n{% include \"common\" %}");
    template(&root, "_partials/common.j2", "common\n");
    template(&root, "{{ facts.kernel.name }}.d/{{ 1 + 1 }}.conf.j2", "x");
    template(&root, "{% if false %}left-out{% endif %}/deep/file", "{{ undefined }}");
    template(&root, "{% if false %}left-out{% endif %}.jinja", "{{ undefined }}");
    template(&root, "image", b"\x89PNG\0{{ undefined }}");
    template(&root, "latin1", b"\xe4 {{ undefined }}");
    template(&root, ".jinja", "a name");
    template(&root, "deep/_partials/kept", "only the topmost folder is special");
    template(&root, "run.sh", "#!/bin/sh\n");
    set_mode(&root, &format!("{SOURCE}/run.sh"), 0o700);
    symlink("app.conf", root.join(SOURCE).join("link.jinja")).unwrap();
    fs::create_dir(root.join(SOURCE).join("empty")).unwrap();
    let run = applied(&root);
    assert!(run.stdout_lossy().contains("made "), "{run}");
    assert_eq!(
        tree(&root),
        ".jinja Linux.d/ Linux.d/2.conf app.conf deep/ deep/_partials/ deep/_partials/kept empty/ image latin1 link.jinja run.sh"
    );
    assert_eq!(root.read("etc/app/app.conf"), "kernel = Linux\ncommon\n");
    assert_eq!(fs::read(root.join("etc/app/image")).unwrap(), b"\x89PNG\0{{ undefined }}");
    assert_eq!(fs::read_link(root.join("etc/app/link.jinja")).unwrap(), Path::new("app.conf"));
    assert_eq!((mode(&root, "etc/app/run.sh"), mode(&root, "etc/app/app.conf")), (0o755, 0o644));
    let report = root.holo(&["scan"]);
    assert!(report.stdout_lossy().contains("scaffold:/etc/app\n"), "{report}");
    scrubbed(&root);
    assert!(!root.exists("etc/app"));
}

fn undefined() {
    let root = lab("");
    template(&root, "a", "fine\n");
    template(&root, "b.conf", "one\ntwo {{ nothing }}\n");
    refused(&root, "usr/share/holo/scaffold/app/b.conf:2: ");
    refused(&root, "nothing");
    template(&root, "b.conf", "{{ facts.nothing }}\n");
    refused(&root, "nothing");
    template(&root, "b.conf", "{% include \"other\" %}\n");
    template(&root, "_partials/other", "\n\n{{ data.nothing }}");
    refused(&root, "other:3: ");
    fs::remove_dir_all(root.join(SOURCE)).unwrap();
    refused(&root, "does not exist");
}

fn rendered_once() {
    let root = lab("");
    root.write("usr/share/holo/data/common.toml", "text = \"{{ facts.kernel.name }}\"\n");
    root.write("usr/share/holo/data/hierarchy.toml", "layers = [\"common\"]\n");
    template(&root, "a", "{{ data.text }} {{ lookup('text') }} {% raw %}{{ x }}{% endraw %}");
    template(&root, "{{ data.text }}", "x");
    applied(&root);
    assert_eq!(root.read("etc/app/a"), "{{ facts.kernel.name }} {{ facts.kernel.name }} {{ x }}");
    assert!(root.exists("etc/app/{{ facts.kernel.name }}"));
}

fn partials() {
    let root = lab("");
    root.write("usr/share/holo/scaffold/secret", "secret");
    symlink("../../secret", root.join("usr/share/holo/scaffold/app/_link")).unwrap();
    template(&root, "_partials/deep/a", "a");
    symlink("../../secret", root.join(SOURCE).join("_partials/link")).unwrap();
    template(&root, "a", "{% include \"deep/a\" %}{% include \"_partials/deep/a\" %}");
    applied(&root);
    assert_eq!(root.read("etc/app/a"), "aa");
    for name in ["../../secret", "/etc/passwd", "deep/../../../secret", "link", "", "deep"] {
        template(&root, "a", format!("{{% include \"{name}\" %}}"));
        let run = root.holo(&["apply"]);
        assert!(run.status == Some(1) && run.stderr_lossy().contains("app/a:1: "), "{name}\n{run}");
    }
}

fn own_data() {
    let own = "data = { port = 81, since = 1979-05-27 }";
    let root = lab(&format!("{own}\ndata_merge = true"));
    root.write("usr/share/holo/data/common.toml", "port = 80\nname = \"web\"\nlist = [1, 2]\n");
    root.write("usr/share/holo/data/hierarchy.toml", "layers = [\"common\"]\n");
    template(&root, "a", "{{ data.name }} {{ data.port }} {{ lookup('port') }} {{ data.since }}");
    applied(&root);
    assert_eq!(root.read("etc/app/a"), "web 81 81 1979-05-27");
    define(&root, own);
    template(&root, "a", "{{ data.port }} {{ lookup('data.name', 'none') }}");
    applied(&root);
    assert_eq!(root.read("etc/app/a"), "81 none");
    define(&root, "");
    template(&root, "a", "{{ data.name }} {{ data.port }}");
    applied(&root);
    assert_eq!(root.read("etc/app/a"), "web 80");
    define(&root, "data = { ratio = nan }");
    refused(&root, "NaN");
    let expressions = r#"data = { port = "{{ lookup('data.port') + 1 }}", list = "${ Data.list }", text = "a {{ Facts.kernel.name }} ${data.name}" }"#;
    define(&root, expressions);
    template(&root, "a", "{{ data.port + 1 }} {{ data.list[1] }} {{ data.text }}");
    applied(&root);
    assert_eq!(root.read("etc/app/a"), "82 2 a Linux web");
    for (wrong, words) in
        [("{{ nothing }}", "data.x: {{ nothing }}: nothing is undefined"), ("${ 1 +", "${ is not closed")]
    {
        define(&root, &format!("data = {{ x = {wrong:?} }}"));
        refused(&root, words);
    }
}

fn go() {
    let root = lab("engine = \"go\"\ndata = { names = [\"a\", \"b\"] }");
    template(
        &root,
        "{{ .facts.kernel.name }}.conf.tmpl",
        "{{ range .data.names }}{{ . }}\n{{ end }}{{ template \"x\" . }}",
    );
    template(&root, "_partials/x.gotmpl", "{{ .facts.kernel.name }}");
    applied(&root);
    assert_eq!(root.read("etc/app/Linux.conf"), "a\nb\nLinux");
    template(&root, "bad.gotmpl", "\n{{ .data.name }}");
    refused(&root, "app/bad.gotmpl:2: there is no name");
    template(&root, "bad.gotmpl", "\n{{ uuidv4 }}");
    refused(&root, "app/bad.gotmpl:2: the function uuidv4 of Sprig is not supported");
    template(&root, "bad.gotmpl", "{{ dateInZone \"2006\" now \"UTC\" }}");
    let run = root.holo(&["check"]);
    assert!(run.stderr_lossy().contains("now: the file becomes another one with each apply"), "{run}");
}

/// A realistic directory for users of CCM: partials, names from facts, a program for scripts, and obstacles.
fn as_the_peer_has_it() {
    for (engine, open, close, suffix, dot) in [("go", "{{", "}}", ".tmpl", "."), ("jet", "[[", "]]", ".jet", "")] {
        let root = lab(&format!(
            "engine = {engine:?}\npurge = true\ndata = {{ port = 8080, log_level = \"info\", workers = \"{{{{ lookup('facts.nothing', 4) }}}}\" }}\n\
             [[scaffold.post]]\nglob = \"*.sh\"\ncommand = \"chmod +x {{}}\""
        ));
        let value = |text: &str| format!("{open} {dot}{text} {close}");
        let call = if engine == "go" { "render \"_partials/log\" ." } else { "render(\"_partials/log\", .)" };
        template(&root, "_partials/log", format!("[log]\nlevel = {}\n", value("Data.log_level")));
        template(
            &root,
            &format!("{}.conf{suffix}", value("Facts.kernel.name")),
            format!(
                "{open} {call} {close}[server]\nport = {}\nworkers = {}\n",
                value("data.port"),
                value("Data.workers")
            ),
        );
        let write =
            if engine == "go" { "write \"more/a.txt\" \"written\"" } else { "write(\"more/a.txt\", \"written\")" };
        template(
            &root,
            "run.sh",
            format!("#!/bin/sh\n{open} {write} {close}exec server --port {}\n", value("data.port")),
        );
        root.write("etc/app/old", "");
        let run = root.holo(&["apply"]);
        assert!(run.success() && run.stdout_lossy().contains("MOCK: chmod +x "), "{run}");
        assert_eq!(root.read("etc/app/Linux.conf"), "[log]\nlevel = info\n[server]\nport = 8080\nworkers = 4\n");
        assert_eq!(root.read("etc/app/run.sh"), "#!/bin/sh\nexec server --port 8080\n");
        assert_eq!(root.read("etc/app/more/a.txt"), "written");
        assert!(!root.exists("etc/app/old"));
        settled(&root);
        // Two templates that provide the same path are an error.
        template(&root, "more/a.txt", "");
        refused(&root, "writes more/a.txt, which");
        template(&root, "second", format!("{open} {write} {close}"));
        fs::remove_dir_all(root.join(SOURCE).join("more")).unwrap();
        refused(&root, "both write more/a.txt");
        fs::remove_file(root.join(SOURCE).join("second")).unwrap();
        // If the call is removed, its file is, too.
        template(&root, "run.sh", "#!/bin/sh\n");
        applied(&root);
        assert!(!root.exists("etc/app/more"));
    }
}

fn ignored() {
    let root = lab("");
    for path in [".git/config", "a", "b.bak", "sub/c.bak", "sub/d"] {
        template(&root, path, "x");
    }
    applied(&root);
    assert!(!root.exists("etc/app/.git") && root.exists("etc/app/b.bak"));
    define(&root, "ignore = [\"*.bak\", \"sub/d\"]");
    applied(&root);
    for (path, is_there) in
        [(".git/config", true), ("a", true), ("b.bak", false), ("sub/c.bak", false), ("sub/d", false)]
    {
        assert_eq!(root.exists(format!("etc/app/{path}")), is_there, "{path}");
    }
    define(&root, "ignore = [\"[\"]");
    refused(&root, "is not a valid pattern");
}

fn jet() {
    let root = lab("engine = \"jet\"\ndelimiters = [\"<<\", \">>\"]\ndata = { names = [\"a\", \"b\"] }");
    template(
        &root,
        "<< facts.kernel.name | lower >>.conf.jet",
        "<< range i, n := data.names >><< i >>=<< n >>\n<< end >>",
    );
    applied(&root);
    assert_eq!(root.read("etc/app/linux.conf"), "0=a\n1=b\n");
}

fn names() {
    for (name, words) in [
        ("{{ '..' }}", "becomes \"..\", which is not a valid file name"),
        ("{{ '.' }}", "which is not a valid file name"),
        ("{{ 'a' ~ facts.nothing }}", "name of "),
        ("{{ '\\n' }}", "which is not a valid file name"),
        ("{{ data.path }}", "becomes \"../../passwd\", which is not a valid file name"),
        ("{{ 'a' }}", "both become a"),
    ] {
        let root = lab("data = { path = \"../../passwd\" }");
        template(&root, "a", "x");
        template(&root, name, "x");
        refused(&root, words);
    }
}

fn check() {
    let root = lab("purge = true").file("etc/app/old", "old\n").file("etc/app/a", "before\n");
    template(&root, "a", "a\n");
    template(&root, "sub/b", "b\n");
    let before = root.dump();
    let run = root.holo(&["check"]);
    assert_eq!(run.status, Some(3), "{run}");
    let lines: Vec<String> =
        run.stdout_lossy().lines().filter(|line| line.starts_with("would")).map(str::to_owned).collect();
    let path = |path: &str| root.join("etc/app").join(path).display().to_string();
    assert_eq!(
        lines,
        [
            format!("would write {}", path("a")),
            format!("would remove {}", path("old")),
            format!("would make {}", path("sub")),
            format!("would make {}", path("sub/b")),
        ]
    );
    assert_eq!(root.dump(), before);
    applied(&root);
}

fn changed_by_person() {
    let root = lab("");
    for name in ["a", "b", "c", "d"] {
        template(&root, name, format!("{name}\n"));
    }
    applied(&root);
    root.write("etc/app/a", "mine\n");
    fs::remove_file(root.join("etc/app/b")).unwrap();
    set_mode(&root, "etc/app/c", 0o600);
    template(&root, "d", "new\n");
    let path = |path: &str| root.join("etc/app").join(path).display().to_string();
    let words = format!("{} has been changed, {} has been changed (use --force to proceed)", path("a"), path("c"));
    refused(&root, &words);
    assert!(root.read("etc/app/d") == "d\n" && !root.exists("etc/app/b"));
    forced(&root);
    assert_eq!((root.read("etc/app/a"), root.read("etc/app/d")), ("a\n".into(), "new\n".into()));
    assert_eq!(mode(&root, "etc/app/c"), 0o644);
    // A missing file is not a manual change.
    fs::remove_file(root.join("etc/app/b")).unwrap();
    applied(&root);
    assert_eq!(root.read("etc/app/b"), "b\n");
    // A path that already has the desired state is not changed, but recorded.
    root.write("etc/app/a", "soon\n");
    template(&root, "a", "soon\n");
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stdout.is_empty() && root.read("etc/app/a") == "soon\n", "{run}");
    settled(&root);
}

fn changed_template() {
    let root = lab("");
    template(&root, "a", "a\n");
    template(&root, "b", "b\n");
    applied(&root);
    let inode = |path: &str| fs::metadata(root.join(path)).unwrap().ino();
    let b = inode("etc/app/b");
    template(&root, "a", "new\n");
    let run = applied(&root);
    assert!(run.stdout_lossy().contains(&format!("wrote {}\n", root.join("etc/app/a").display())), "{run}");
    assert!(!run.stdout_lossy().contains("etc/app/b"), "{run}");
    assert_eq!((root.read("etc/app/a"), inode("etc/app/b")), ("new\n".into(), b));
}

fn modes() {
    let root = lab("").file("etc/app/found", "before\n").mode("etc/app/found", 0o640).mode("etc/app", 0o750);
    template(&root, "found", "x");
    template(&root, "new", "x");
    template(&root, "sub/run", "x");
    set_mode(&root, &format!("{SOURCE}/sub/run"), 0o755);
    applied(&root);
    let modes = || ["", "/found", "/new", "/sub", "/sub/run"].map(|path| mode(&root, &format!("etc/app{path}")));
    assert_eq!(modes(), [0o750, 0o640, 0o644, 0o755, 0o755]);
    define(&root, "mode = \"0600\"\ndir_mode = \"0o2711\"");
    let run = applied(&root);
    assert!(run.stdout_lossy().contains("changed the mode of "), "{run}");
    assert_eq!(modes(), [0o2711, 0o600, 0o600, 0o2711, 0o700]);
    scrubbed(&root);
    assert_eq!((mode(&root, "etc/app"), mode(&root, "etc/app/found")), (0o750, 0o640));
    assert_eq!(tree(&root), "found");
}

fn owners() {
    let root = lab("owner = \"fred\"\ngroup = \"4322\"\nmode = \"6755\"");
    template(&root, "a", "x");
    symlink("a", root.join(SOURCE).join("link")).unwrap();
    refused(&root, "there is no user \"fred\"");
    root.write("etc/passwd", "fred:x:4321:1:::\n");
    applied(&root);
    for path in ["etc/app", "etc/app/a", "etc/app/link"] {
        let found = fs::symlink_metadata(root.join(path)).unwrap();
        assert_eq!((found.uid(), found.gid()), (4321, 4322), "{path}");
    }
    assert_eq!(mode(&root, "etc/app/a"), 0o6755);
    chown(root.join("etc/app/a"), Some(0), None).unwrap();
    refused(&root, "etc/app/a has been changed");
    forced(&root);
}

fn gone_from_source() {
    let root = lab("").file("etc/app/before", "before\n");
    template(&root, "before", "ours\n");
    template(&root, "new", "ours\n");
    template(&root, "sub/deep/new", "ours\n");
    template(&root, "shared/new", "ours\n");
    template(&root, "stays", "x");
    applied(&root);
    root.write("etc/app/shared/theirs", "x");
    fs::remove_dir_all(root.join(SOURCE)).unwrap();
    template(&root, "stays", "x");
    let run = applied(&root);
    assert!(run.stdout_lossy().contains("restored "), "{run}");
    assert_eq!(tree(&root), "before shared/ shared/theirs stays");
    assert_eq!(root.read("etc/app/before"), "before\n");
    scrubbed(&root);
    assert_eq!(tree(&root), "before shared/ shared/theirs");
}

fn edited_and_gone() {
    let root = lab("");
    template(&root, "a", "a");
    template(&root, "b", "b");
    applied(&root);
    root.write("etc/app/a", "mine");
    fs::remove_file(root.join(SOURCE).join("a")).unwrap();
    refused(&root, "etc/app/a has been changed");
    forced(&root);
    assert_eq!(tree(&root), "b");
    // If a path was already removed manually, there is nothing to do.
    fs::remove_file(root.join(SOURCE).join("b")).unwrap();
    fs::remove_file(root.join("etc/app/b")).unwrap();
    settled(&root);
}

fn skip_empty() {
    let root = lab("skip_empty = true");
    template(&root, "a", "{% if false %}x{% endif %}\n");
    template(&root, "sub/deep/a", "");
    template(&root, "sub-b/a", "x");
    template(&root, "b", "{% if true %}x{% endif %}\n");
    applied(&root);
    assert_eq!(tree(&root), "b sub-b/ sub-b/a");
    define(&root, "");
    applied(&root);
    assert_eq!(tree(&root), "a b sub-b/ sub-b/a sub/ sub/deep/ sub/deep/a");
    define(&root, "skip_empty = true");
    applied(&root);
    assert_eq!(tree(&root), "b sub-b/ sub-b/a");
}

fn file_and_directory() {
    let root = lab("").file("etc/app/found", "before\n");
    template(&root, "a", "file");
    template(&root, "b/c", "in a directory");
    template(&root, "found/x", "in a directory");
    applied(&root);
    fs::remove_dir_all(root.join(SOURCE)).unwrap();
    template(&root, "a/c", "in a directory");
    template(&root, "b", "file");
    applied(&root);
    assert_eq!(tree(&root), "a/ a/c b found");
    assert_eq!(root.read("etc/app/found"), "before\n");
    scrubbed(&root);
    assert_eq!(tree(&root), "found");
}

fn full_directory() {
    let root = lab("").file("etc/app/a/theirs", "x");
    template(&root, "a", "file");
    refused(&root, "etc/app/a is a directory that is not empty");
    define(&root, "purge = true");
    applied(&root);
    assert_eq!((tree(&root).as_str(), root.read("etc/app/a")), ("a", "file".into()));
    scrubbed(&root);
    assert_eq!((tree(&root).as_str(), root.read("etc/app/a/theirs")), ("a/ a/theirs", "x".into()));
}

fn purge() {
    let root = lab("purge = true")
        .file("etc/app/old", "old\n")
        .file("etc/app/sub/deep/old", "old\n")
        .dir("etc/app/empty")
        .symlink("etc/app/link", "nowhere")
        .file("etc/beside", "x");
    set_mode(&root, "etc/app/sub/deep", 0o700);
    template(&root, "sub/a", "a");
    template(&root, "sub/b/c", "c");
    let before = root.dump();
    let run = applied(&root);
    for path in ["old", "sub/deep/old", "sub/deep", "empty", "link"] {
        let line = format!("removed {}\n", root.join("etc/app").join(path).display());
        assert!(run.stdout_lossy().contains(&line), "{path}\n{run}");
    }
    assert_eq!(tree(&root), "sub/ sub/a sub/b/ sub/b/c");
    fs::remove_dir_all(root.join(SOURCE)).unwrap();
    template(&root, "d", "d");
    applied(&root);
    assert_eq!(tree(&root), "d");
    fs::remove_file(root.join(DEFINITION)).unwrap();
    fs::remove_dir_all(root.join(SOURCE)).unwrap();
    assert!(root.holo(&["apply"]).success());
    root.write(DEFINITION, "[[scaffold]]\ntarget = \"/etc/app\"\nsource = \"app\"\npurge = true\n");
    template(&root, "sub/a", "a");
    template(&root, "sub/b/c", "c");
    assert_eq!(root.dump(), before);
    assert_eq!(mode(&root, "etc/app/sub/deep"), 0o700);
}

fn purge_again() {
    let root = lab("purge = true").file("etc/app/old", "first\n");
    template(&root, "a", "a");
    applied(&root);
    root.write("etc/app/old", "second\n");
    let run = applied(&root);
    assert!(run.stdout_lossy().contains("removed "), "{run}");
    scrubbed(&root);
    assert_eq!((tree(&root).as_str(), root.read("etc/app/old")), ("old", "second\n".into()));
}

fn purge_no_more() {
    let root = lab("purge = true").file("etc/app/sub/old", "old\n");
    template(&root, "a", "a");
    applied(&root);
    assert_eq!(tree(&root), "a");
    define(&root, "");
    applied(&root);
    assert_eq!((tree(&root).as_str(), root.read("etc/app/sub/old")), ("a sub/ sub/old", "old\n".into()));
}

fn purge_symlinks() {
    let root = lab("purge = true")
        .file("srv/precious", "x")
        .symlink("etc/app/link", "../../srv")
        .symlink("etc/app/sub", "../../srv");
    template(&root, "sub/a", "a");
    applied(&root);
    assert_eq!(tree(&root), "sub/ sub/a");
    assert_eq!((root.read("srv/precious"), root.exists("srv/a")), ("x".into(), false));
    scrubbed(&root);
    assert_eq!(fs::read_link(root.join("etc/app/sub")).unwrap(), Path::new("../../srv"));
}

fn purge_nested() {
    let root = lab("purge = true");
    let app = root.read("usr/share/holo/scaffold/app.toml");
    fs::remove_file(root.join("usr/share/holo/scaffold/app.toml")).unwrap();
    let other = "[[scaffold]]\ntarget = \"/etc/app/sub/other\"\nsource = \"other\"\n";
    root.write("usr/share/holo/scaffold/other.toml", other);
    root.write("usr/share/holo/scaffold/other/x", "x");
    applied(&root);
    root.write("usr/share/holo/scaffold/other.toml", format!("{other}mode = \"x\"\n"));
    root.write("usr/share/holo/scaffold/app.toml", app);
    template(&root, "a", "a");
    root.write("etc/app/theirs", "x");
    let run = root.holo(&["apply"]);
    assert!(run.stderr_lossy().contains("mode"), "{run}");
    assert_eq!(tree(&root), "a sub/ sub/other/ sub/other/x");
}

const EDIT: &str = "[[line]]\npath = \"/etc/app/edited\"\nname = \"ours\"\nline = \"our line\"\n";
const EDITS: &str = "usr/share/holo/files/edit.toml";

/// A root with a scaffold that purges, and a plugin that lays files over others and edits them.
fn lab_with_files(keys: &str) -> ScratchRoot {
    lab(keys)
        .plugin("files")
        .dir("usr/share/holo/files")
        .dir("var/lib/holo/files/base")
        .dir("var/lib/holo/files/provisioned")
        .file("etc/os-release", "ID=debian\n")
}

fn purge_layers() {
    let root = lab_with_files("purge = true");
    template(&root, "made", "made\n");
    for (path, content) in [("edited", "stock\n"), ("laid", "stock\n"), ("sub/patched", "one\ntwo\n"), ("old", "old\n")]
    {
        root.write(Path::new("etc/app").join(path), content);
    }
    symlink("edited", root.join("etc/app/link")).unwrap();
    let before = root.dump();
    root.write(EDITS, format!("{EDIT}\n{}", EDIT.replace("edited", "link").replace("our line", "another line")));
    root.write("usr/share/holo/files/01-x/etc/app/laid", "laid over\n");
    let patch = "--- a\n+++ b\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n";
    root.write("usr/share/holo/files/01-x/etc/app/sub/patched.holopatch", patch);
    // Before anything is laid over the files, also if the run is about the scaffold alone.
    let run = root.holo(&["apply", "scaffold:/etc/app"]);
    assert!(run.success(), "{run}");
    assert!(!root.exists("etc/app/old") && root.exists("etc/app/edited") && root.exists("etc/app/link"), "{run}");
    assert!(root.exists("etc/app/laid") && root.exists("etc/app/sub/patched"), "{run}");
    applied(&root);
    assert_eq!(root.read("etc/app/edited"), "stock\nour line\nanother line\n");
    assert_eq!(
        (root.read("etc/app/laid"), root.read("etc/app/sub/patched")),
        ("laid over\n".into(), "one\nthree\n".into())
    );
    fs::remove_file(root.join(EDITS)).unwrap();
    fs::remove_dir_all(root.join("usr/share/holo/files/01-x")).unwrap();
    fs::remove_file(root.join(DEFINITION)).unwrap();
    applied(&root);
    define(&root, "purge = true");
    assert_eq!(root.dump(), before);
}

fn purge_and_edit() {
    let root = lab_with_files("purge = true").file("etc/app/edited", "stock\n");
    template(&root, "made", "made\n");
    applied(&root);
    assert!(!root.exists("etc/app/edited"));
    root.write(EDITS, EDIT);
    applied(&root);
    assert_eq!(root.read("etc/app/edited"), "stock\nour line\n");
    // The edit is reverted first, so that its line does not come back with the rest.
    fs::remove_file(root.join(EDITS)).unwrap();
    applied(&root);
    assert!(!root.exists("etc/app/edited"));
    fs::remove_file(root.join(DEFINITION)).unwrap();
    applied(&root);
    assert_eq!(root.read("etc/app/edited"), "stock\n");
}

fn edited_files() {
    let root = lab_with_files("").file("etc/app/edited", "stock\n");
    fs::remove_file(root.join(DEFINITION)).unwrap();
    root.write(EDITS, EDIT);
    applied(&root);
    template(&root, "edited", "made\n");
    define(&root, "");
    refused(&root, "/etc/app/edited is made by scaffold:/etc/app");
    refused(&root, "and edited by line:/etc/app/edited#ours; one of both has to go");
    // An edit that is not reverted, as its line was changed, keeps the file as well.
    root.write("etc/app/edited", "stock\nour other line\n");
    fs::remove_file(root.join(EDITS)).unwrap();
    let run = root.holo(&["apply"]);
    assert!(run.stderr_lossy().contains("/etc/app/edited is edited by line:/etc/app/edited#ours"), "{run}");
    assert_eq!((run.status, root.read("etc/app/edited")), (Some(1), "stock\nour other line\n".into()));
    forced(&root);
    assert_eq!(root.read("etc/app/edited"), "made\n");
    fs::remove_file(root.join(DEFINITION)).unwrap();
    applied(&root);
    assert_eq!(root.read("etc/app/edited"), "stock\n");
}

fn purge_special() {
    let root = lab("purge = true").dir("etc/app/run").file("etc/app/run/old", "x");
    assert!(root.run("mkfifo", &["etc/app/run/fifo"]).success());
    template(&root, "a", "a");
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    assert_eq!(tree(&root), "a run/ run/fifo");
}

fn purge_mounts() {
    let system = Overlay::new().plugin("scaffold");
    system.must(
        "mkdir -p /etc/app/same /etc/app/other/x /srv/data/deep; echo precious >/srv/data/deep/file; echo x >/etc/app/file
         mount --bind /srv/data /etc/app/same; mount -t tmpfs none /etc/app/other; echo precious >/etc/app/other/file
         mount --bind /srv/data/deep/file /etc/app/file; echo old >/etc/app/old",
    );
    let system = system
        .resource("scaffold/app.toml", "[[scaffold]]\ntarget = \"/etc/app\"\nsource = \"app\"\npurge = true\n")
        .resource("scaffold/app/a", "a");
    let run = system.holo(&["apply"]);
    assert!(run.success(), "{run}");
    let left = system.must("cd /etc/app; find . | sort | tr '\\n' ' '");
    assert_eq!(left, ". ./a ./file ./other ./other/file ./same ./same/deep ./same/deep/file ");
    assert_eq!(system.read("/etc/app/file"), "precious\n");
}

fn symlink_inside() {
    let root = lab("").file("srv/file", "theirs\n");
    template(&root, "sub/file", "ours\n");
    template(&root, "sub/other", "ours\n");
    applied(&root);
    fs::remove_dir_all(root.join("etc/app/sub")).unwrap();
    symlink("../../srv", root.join("etc/app/sub")).unwrap();
    refused(&root, "etc/app/sub has been changed");
    forced(&root);
    assert_eq!((tree(&root).as_str(), root.read("srv/file")), ("sub/ sub/file sub/other", "theirs\n".into()));
    // The same if there are only paths to remove.
    fs::remove_dir_all(root.join("etc/app/sub")).unwrap();
    fs::rename(root.join("srv/file"), root.join("srv/other")).unwrap();
    root.write("srv/file", "ours\n");
    symlink("../../srv", root.join("etc/app/sub")).unwrap();
    fs::remove_file(root.join(DEFINITION)).unwrap();
    assert!(root.holo(&["apply", "--force"]).success());
    assert_eq!((root.read("srv/file"), root.read("srv/other")), ("ours\n".into(), "theirs\n".into()));
}

fn no_targets() {
    let root = lab("").symlink("etc/app", "../srv").dir("srv");
    template(&root, "a", "a");
    refused(&root, "etc/app is a symlink, and would have to be a directory");
    fs::remove_file(root.join("etc/app")).unwrap();
    root.write("etc/app", "a file");
    refused(&root, "etc/app is a file");
    fs::remove_file(root.join("etc/app")).unwrap();
    root.write("etc/file", "");
    root.write(DEFINITION, "[[scaffold]]\ntarget = \"/etc/file/app\"\nsource = \"app\"\n");
    refused(&root, "etc/file is not a directory");
    let run = root.holo(&["check"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains("etc/file is not a directory"), "{run}");
    root.write(DEFINITION, "[[scaffold]]\ntarget = \"/\"\nsource = \"app\"\n");
    let run = root.holo(&["apply"]);
    assert!(run.stderr_lossy().contains("app.toml:2: scaffold:/: target: \"/\" is the root itself"), "{run}");
}

fn orphan() {
    let root = lab("").file("etc/app/found", "before\n");
    template(&root, "found", "ours\n");
    template(&root, "a/b/c", "ours\n");
    template(&root, "a/d", "ours\n");
    applied(&root);
    root.write("etc/app/a/theirs", "x");
    root.write("etc/app/found", "mine\n");
    fs::remove_file(root.join(DEFINITION)).unwrap();
    refused(&root, "etc/app/found has been changed");
    // The removal of a directory is only announced if it takes place, which it does not while there is a file of others
    // in it.
    let of = |words: &str, name: &str| format!("{words} {}\n", root.join("etc/app").join(name).display());
    root.write("etc/app/found", "ours\n");
    let run = root.holo(&["check"]);
    let all: Vec<String> =
        run.stdout_lossy().lines().filter(|line| line.contains("would ")).map(|line| format!("{line}\n")).collect();
    let expected =
        [("would remove", "a/b"), ("would remove", "a/b/c"), ("would remove", "a/d"), ("would restore", "found")];
    assert_eq!(all, expected.map(|(words, name)| of(words, name)), "{run}");
    root.write("etc/app/found", "mine\n");
    let run = root.holo(&["apply", "--force"]);
    assert!(run.success() && run.stdout_lossy().contains(&of("removed", "a/b")), "{run}");
    assert!(!run.stdout_lossy().contains(&of("removed", "a")), "{run}");
    assert_eq!((tree(&root).as_str(), root.read("etc/app/found")), ("a/ a/theirs found", "before\n".into()));
    assert_eq!(root.holo(&["scan"]).stdout, "");
}

fn absent() {
    let root = lab("").file("etc/app/found", "before\n");
    template(&root, "found", "ours\n");
    template(&root, "new", "ours\n");
    applied(&root);
    fs::remove_dir_all(root.join(SOURCE)).unwrap();
    define(&root, "ensure = \"absent\"");
    let run = root.holo(&["check"]);
    assert!(run.status == Some(3) && run.stdout_lossy().contains("would restore "), "{run}");
    applied(&root);
    assert_eq!((tree(&root).as_str(), root.read("etc/app/found")), ("found", "before\n".into()));
}

fn differences() {
    let root = lab("");
    template(&root, "a", "one\ntwo\n");
    template(&root, "b", "b");
    applied(&root);
    assert_eq!(root.holo(&["diff"]).stdout, "");
    root.write("etc/app/a", "one\nmine\n");
    let run = root.holo(&["diff"]);
    let headers = |to: &str| {
        let (from, to) = ("scaffold:/etc/app (applied)", root.join(to));
        format!("diff --holo {from} {to}\n--- {from}\n+++ {to}\n@@ ", to = to.display())
    };
    let expected = format!("{}-1,2 +1,2 @@\n one\n-two\n+mine\n", headers("etc/app/a"));
    assert_eq!(run.stdout_lossy(), expected);
    assert_eq!(root.holo(&["diff"]).stdout, run.stdout);
    set_mode(&root, "etc/app/b", 0o600);
    let run = root.holo(&["diff"]);
    let found = run.stdout_lossy();
    assert!(found.starts_with(&headers("etc/app")), "{run}");
    assert_eq!(root.holo(&["diff"]).stdout, run.stdout);
    for line in ["\n-a| two\n", "\n+a| mine\n", "\n-b: file, mode 0644\n", "\n+b: file, mode 0600\n"] {
        assert!(found.contains(line), "{line}\n{run}");
    }
    fs::remove_file(root.join("etc/app/b")).unwrap();
    let run = root.holo(&["diff"]);
    assert!(run.stdout_lossy().contains("\n+b: nothing\n"), "{run}");
}

fn programs() {
    let system = Overlay::new()
        .plugin("scaffold")
        .resource(
            "scaffold/app.toml",
            r#"[[scaffold]]
target = "/etc/app"
source = "app"
timeout = "5s"
post = [
    { glob = "*.conf", command = "sh -c 'echo \"$0\" >>/opt/log; sort -o \"$0\" \"$0\"' {}" },
    { glob = "sub/*.sh", command = ["/bin/sh", "/opt/check"] },
]
"#,
        )
        .resource("scaffold/app/a.conf", "b\na\n")
        .resource("scaffold/app/b.conf", "b\n")
        .resource("scaffold/app/sub/x.sh", "x\n");
    system.write("/opt/check", "echo checked \"$1\" >>/opt/log; ! grep -q bad \"$1\"");
    let log = || system.must("touch /opt/log; cat /opt/log; rm /opt/log").to_string();
    let settled = || {
        let run = system.holo(&["apply"]);
        assert!(run.success() && run.stdout.is_empty() && run.stderr.is_empty(), "{run}");
        assert!(system.holo(&["check"]).success());
        assert_eq!(log(), "");
    };
    assert_eq!(system.holo(&["check"]).status, Some(3));
    assert_eq!(log(), "");
    let run = system.holo(&["apply"]);
    assert!(run.success(), "{run}");
    assert_eq!(log(), "/etc/app/a.conf\n/etc/app/b.conf\nchecked /etc/app/sub/x.sh\n");
    // The result of a program counts as provisioned.
    assert_eq!(system.read("/etc/app/a.conf"), "a\nb\n");
    settled();
    let system = system.resource("scaffold/app/a.conf", "d\nc\n");
    let log = || system.must("touch /opt/log; cat /opt/log; rm /opt/log").to_string();
    assert!(system.holo(&["apply"]).success());
    assert_eq!((log().as_str(), system.read("/etc/app/a.conf")), ("/etc/app/a.conf\n", "c\nd\n".into()));
    // A manual change does not.
    system.write("/etc/app/a.conf", "c\n");
    let run = system.holo(&["apply"]);
    assert!(run.stderr_lossy().contains("/etc/app/a.conf has been changed (use --force to proceed)"), "{run}");
    assert!(system.holo(&["apply", "--force"]).success());
    assert_eq!((log().as_str(), system.read("/etc/app/a.conf")), ("/etc/app/a.conf\n", "c\nd\n".into()));
    // A program that fails is run again, until it succeeds.
    let system = system.resource("scaffold/app/sub/x.sh", "bad\n");
    let log = || system.must("touch /opt/log; cat /opt/log; rm /opt/log").to_string();
    for _ in 0..2 {
        let run = system.holo(&["apply"]);
        assert!(
            run.status == Some(1) && run.stderr_lossy().contains("`/bin/sh /opt/check /etc/app/sub/x.sh` failed"),
            "{run}"
        );
        assert_eq!(log(), "checked /etc/app/sub/x.sh\n");
    }
    let run = system.holo(&["check"]);
    assert!(run.stdout_lossy().contains("would run the programs for /etc/app/sub/x.sh"), "{run}");
    system.write("/opt/check", "exit 0");
    let run = system.holo(&["apply"]);
    assert!(run.success() && run.stdout_lossy().contains("ran the programs for /etc/app/sub/x.sh"), "{run}");
    let run = system.holo(&["apply"]);
    assert!(run.success() && run.stdout.is_empty(), "{run}");
    // A program that exceeds the timeout is killed.
    let system = system.resource("scaffold/app/sub/x.sh", "good\n");
    system.write("/opt/check", "sleep 1000");
    let run = system.holo(&["apply"]);
    assert!(run.status == Some(1) && run.stderr_lossy().contains("failed: "), "{run}");
}

fn validated() {
    let root = lab(r#"validate = [
    { glob = "*.conf", command = "sh -c 'basename \"$0\"; ! grep bad \"$0\"' {}" },
    { glob = "sub/*", command = ["test", "-s", "{}"] },
]"#);
    template(&root, "a.conf", "{{ 'good' }}\n");
    template(&root, "b.txt", "bad\n");
    template(&root, "sub/c", "x");
    let run = applied(&root);
    assert!(run.stdout_lossy().contains("a.conf\n") && !run.stdout_lossy().contains("b.txt\n\n"), "{run}");
    // All problems are reported, and no file is changed.
    template(&root, "a.conf", "bad\n");
    template(&root, "b.txt", "new\n");
    template(&root, "sub/c", "");
    let before = root.dump();
    let run = root.holo(&["apply"]);
    let said = run.stderr_lossy();
    assert!(run.status == Some(1) && said.contains("/etc/app/a.conf: validation by `sh -c"), "{run}");
    assert!(said.contains("/etc/app/sub/c: validation by `test -s {}` failed: exit status 1"), "{run}");
    assert_eq!(root.dump(), before);
    // A file that does not change is not validated again.
    template(&root, "a.conf", "good\n");
    template(&root, "sub/c", "x");
    let run = applied(&root);
    assert!(!run.stdout_lossy().contains("\na.conf\n"), "{run}");
    assert_eq!(root.read("etc/app/b.txt"), "new\n");
    define(&root, "validate = [{ glob = \"*\", command = \"true\" }]");
    refused(&root, "`true` has no {}, which stands for the file that is looked at");
}

fn blocks() {
    let text = "a\n  {% if true %}\n  b\n  {% endif %}\nc\n{% include 'd' %}";
    for (keys, wanted) in [
        ("", "a\n  \n  b\n  \nc\n\nd\n\n"),
        ("trim_blocks = true", "a\n    b\n  c\nd\n"),
        ("lstrip_blocks = true", "a\n\n  b\n\nc\n\nd\n\n"),
        ("trim_blocks = true\nlstrip_blocks = true", "a\n  b\nc\nd\n"),
        ("trim_blocks = true\nlstrip_blocks = true\ndelimiters = [\"[[\", \"]]\"]", "a\n  b\nc\nd\n"),
    ] {
        let root = lab(keys);
        let form = |text: &str| match keys.contains("delimiters") {
            true => text.replace("{%", "[%").replace("%}", "%]"),
            false => text.to_owned(),
        };
        template(&root, "file", form(text));
        template(&root, "_partials/d", form("{% if true %}\nd\n{% endif %}\n"));
        applied(&root);
        assert_eq!(root.read("etc/app/file"), wanted, "{keys}");
    }
    for engine in ["go", "jet"] {
        let root = lab(&format!("engine = {engine:?}\ntrim_blocks = true"));
        refused(&root, &format!("trim_blocks: the engine {engine} has no blocks"));
    }
}

fn many() {
    let root = ScratchRoot::new().plugin("scaffold");
    let mut definitions = String::new();
    for scaffold in 0..8 {
        definitions += &format!(
            "[[scaffold]]\ntarget = \"/srv/{scaffold}\"\nsource = \"app\"\ndata = {{ number = {scaffold} }}\n"
        );
    }
    root.write(DEFINITION, definitions);
    for file in 0..100 {
        template(&root, &format!("{}/{file}", file % 7), format!("{{{{ data.number }}}} {}", file % 3));
    }
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    settled(&root);
    for scaffold in 0..8 {
        assert_eq!(root.read(format!("srv/{scaffold}/1/99")), format!("{scaffold} 0"));
    }
    fs::remove_file(root.join(DEFINITION)).unwrap();
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    assert!(!root.exists("srv"), "{}", root.dump());
}

/// Returns the files in the examples, by their paths.
fn examples() -> Vec<(String, String)> {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../man/holo-scaffold.8")).unwrap();
    let examples = page.split(".Sh EXAMPLES\n").nth(1).unwrap().split(".Sh ").next().unwrap();
    let items = examples.split(".It Pa ").skip(1).map(|item| {
        let (path, rest) = item.split_once("\n.Bd -literal\n").unwrap();
        let text = rest.split(".Ed\n").next().unwrap();
        (path.trim_matches(['/', '"']).to_owned(), text.replace("\\e", "\\"))
    });
    items.collect()
}

fn man_page() {
    let (written, made): (Vec<_>, Vec<_>) = examples().into_iter().partition(|(path, _)| path.starts_with("usr/"));
    assert_eq!((written.len(), made.len()), (9, 4));
    let root = ScratchRoot::new().plugin("scaffold");
    for (path, text) in written {
        root.write(path, text);
    }
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    // This plugin does not provide the service of the example.
    let stderr = run.stderr.to_string();
    assert_eq!(stderr.trim().lines().count(), 1, "{run}");
    assert!(stderr.trim().ends_with("notifies service:web, which does not exist"), "{run}");
    for (path, text) in made {
        assert_eq!(root.read(&path), text, "{path}");
    }
}
