//! Generations of inputs, and rollbacks to them: killed at system calls, in random cases, and on a real system.

mod booted;
mod kills;
mod random;

use holo_testing::{Need, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = holo_testing::trials![
        rollback_covers_plugins_of_version_3,
        unusable_generation_is_reported_without_changes,
        symlinks_out_of_the_inputs_are_reported,
        files_outside_of_the_inputs_are_reported,
        disabled_history_keeps_no_files,
        rollback_uses_files_and_directories_that_generators_made,
        messages_name_the_files_that_people_edit,
    ];
    let needs = [Need::Root, Need::Program("setpriv")];
    trials.push(trial_of("others see what they may read", &needs, other_users_see_readable_inputs));
    let needs = [Need::Root, Need::Program("unshare"), Need::Program("mount")];
    trials.push(trial_of("a file system that cannot be written to is no failure", &needs, read_only_root));
    trials.extend(kills::trials());
    trials.extend(random::trials());
    trials.extend(booted::trials());
    trials
}

/// Returns a root with the plugin `files` and an overlay, with history enabled.
fn root() -> ScratchRoot {
    ScratchRoot::in_memory()
        .binary(built("holo"))
        .env("HOLO_HISTORY", "1")
        .plugin("files")
        .file("etc/os-release", "ID=debian\n")
        .file("etc/motd", "stock\n")
        .resource("files/10-x/etc/motd", "one\n")
}

/// Like [`root`], with two generations.
fn root_with_two() -> ScratchRoot {
    let root = root();
    applied(&root);
    root.write("usr/share/holo/files/10-x/etc/motd", "two\n");
    root.write("usr/share/holo/files/own.toml", "[[file]]\npath = \"/etc/own\"\ncontent = \"own\\n\"\n");
    applied(&root);
    root
}

#[track_caller]
fn applied(root: &ScratchRoot) {
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
}

/// Returns the numbers of the existing generations.
#[track_caller]
fn numbers(root: &ScratchRoot) -> Vec<u32> {
    let run = root.holo(&["generations"]);
    assert!(run.success(), "{run}");
    run.stdout_lossy().lines().map(|line| line.split('\t').next().unwrap().parse().unwrap()).collect()
}

fn rollback_covers_plugins_of_version_3() {
    let printer = "#!/bin/sh\ncase $1 in\ninfo) printf 'MIN_API_VERSION=3\\nMAX_API_VERSION=3\\n' ;;\n\
                   scan) for file in \"$HOLO_RESOURCE_DIR\"/*; do printf 'ENTITY: print:%s\\nSOURCE: %s\\nfound at: %s\\n' \"${file##*/}\" \"$file\" \"$file\"; done ;;\n\
                   apply) cp \"$HOLO_RESOURCE_DIR/${2#print:}\" \"$HOLO_ROOT_DIR/etc/printed\" ;;\nesac\n";
    let root = root()
        .script("plugin/holo-print", printer)
        .resource("print/x", "first\n")
        .file("etc/holo/resources/print/y", "own\n");
    let holorc = root.read("etc/holorc");
    root.write("etc/holorc", format!("{holorc}plugin print=plugin/holo-print\n"));
    applied(&root);
    root.write("usr/share/holo/print/x", "second\n");
    std::fs::remove_dir_all(root.join("etc/holo/resources")).unwrap();
    applied(&root);
    assert_eq!(root.read("etc/printed"), "second\n");
    let run = root.holo(&["rollback"]);
    assert!(run.success(), "{run}");
    assert_eq!(root.read("etc/printed"), "own\n");
    let shown = format!("found at {}", root.join("etc/holo/resources/print/y").display());
    let scan = root.holo(&["scan", "print"]);
    assert!(scan.stdout_lossy().contains(&shown) && !scan.stdout_lossy().contains(".engine"), "{shown}: {scan}");
}

fn unusable_generation_is_reported_without_changes() {
    let root = root_with_two();
    let exported = root.holo(&["state", "export"]).stdout_lossy().into_owned();
    let import = |text: &str| {
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(root.join(format!("var/lib/holo/state.db{suffix}")));
        }
        root.write("tmp/state.jsonl", text);
        let run = root.holo(&["state", "import", root.join("tmp/state.jsonl").to_str().unwrap()]);
        assert!(run.success(), "{run}");
    };
    let damaged = exported.replace(r#""content":"one\n""#, r#""content":"eno\n""#);
    assert_ne!(damaged, exported);
    import(&damaged);
    for arguments in [&["rollback"][..], &["rollback", "--dry-run"], &["generations", "diff", "1"]] {
        let run = root.holo(arguments);
        assert_eq!(run.status, Some(255), "{arguments:?}: {run}");
        assert!(run.stderr_lossy().contains("!! cannot use generation 1: "), "{run}");
        assert!(run.stderr_lossy().contains(" is damaged"), "{run}");
    }
    assert_eq!(root.read("etc/motd"), "two\n");
    assert!(!root.exists("var/lib/holo/.engine/pinned.json"));
    let check = root.holo(&["check"]);
    assert!(check.success() && check.stderr.is_empty(), "{check}");
    import(&exported);
    assert!(root.holo(&["rollback"]).success());
    // The inputs in use are missing.
    std::fs::remove_dir_all(root.join("var/lib/holo/.engine/inputs")).unwrap();
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(255), "{run}");
    assert!(run.stderr_lossy().contains("`holo rollback 1` restores its inputs"), "{run}");
    assert!(root.holo(&["rollback", "1"]).success() && root.holo(&["apply"]).success());
}

fn symlinks_out_of_the_inputs_are_reported() {
    let root = root().file("srv/motd", "elsewhere\n");
    let link = root.join("usr/share/holo/files/20-x/etc/issue");
    std::fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(root.join("srv/motd"), link).unwrap();
    root.write("etc/issue", "stock\n");
    applied(&root);
    root.write("usr/share/holo/files/10-x/etc/motd", "two\n");
    applied(&root);
    let run = root.holo(&["rollback"]);
    let named = format!("not kept with generation 1, and used as it is today: {}", root.join("srv/motd").display());
    assert!(run.success() && run.stderr_lossy().contains(&named), "{named}: {run}");
}

fn messages_name_the_files_that_people_edit() {
    let definitions = "[[file]]\npath = \"/etc/own\"\ncontent = \"\"\nmode = \"888\"\n";
    let script = "usr/share/holo/files/10-x/etc/script.holoscript";
    let root = root()
        .file("etc/script", "stock\n")
        .script(script, "#!/bin/sh\nexit 3\n")
        .resource("files/own.toml", definitions);
    assert!(!root.holo(&["apply"]).success());
    std::fs::remove_dir_all(root.join("usr/share/holo/files/10-x")).unwrap();
    root.write("usr/share/holo/files/own.toml", "");
    applied(&root);
    let run = root.holo(&["rollback", "1"]);
    assert!(!run.success(), "{run}");
    let kept = root.join("var/lib/holo/.engine").display().to_string();
    for path in [script, "usr/share/holo/files/own.toml"] {
        let path = root.join(path).display().to_string();
        assert!(run.stderr_lossy().contains(&path) && !run.stderr_lossy().contains(&kept), "{path}: {run}");
    }
    let doctor = root.holo(&["doctor"]);
    assert!(!doctor.stdout_lossy().contains(&kept), "{doctor}");
}

fn files_outside_of_the_inputs_are_reported() {
    let root = root()
        .plugin("scaffold")
        .file("srv/templates/a.conf", "a\n")
        .file("srv/made/b.conf", "b\n")
        .resource("scaffold/10.toml", "[[scaffold]]\ntarget = \"/etc/web\"\nsource = \"/srv/templates\"\n")
        .resource("scaffold/20.toml", "[[scaffold]]\ntarget = \"/etc/made\"\nsource = \"/srv/made\"\n")
        .resource("files/made.toml", "[[file]]\npath = \"/srv/made\"\nensure = \"directory\"\n");
    applied(&root);
    root.write("usr/share/holo/files/10-x/etc/motd", "two\n");
    applied(&root);
    let run = root.holo(&["rollback"]);
    let named = format!("used as it is today: {}\n", root.join("srv/templates").display());
    assert!(run.success() && run.stderr_lossy().contains(&named), "{named}: {run}");
}

fn disabled_history_keeps_no_files() {
    let root = root().env("HOLO_HISTORY", "0");
    applied(&root);
    assert!(!root.exists("var/lib/holo/.engine"));
    assert_eq!(numbers(&root), [] as [u32; 0]);
    let run = root.holo(&["rollback"]);
    assert_eq!(run.status, Some(255), "{run}");
    assert!(run.stderr_lossy().contains("!! no generation has been saved yet"), "{run}");
}

fn other_users_see_readable_inputs() {
    let root = root();
    applied(&root);
    root.write("usr/share/holo/files/10-x/etc/motd", "two\n");
    applied(&root);
    let holo = built("holo");
    let as_nobody = |arguments: &[&str]| {
        let words = [&["--reuid=65534", "--regid=65534", "--clear-groups", holo.to_str().unwrap()], arguments].concat();
        root.run("setpriv", &words)
    };
    std::fs::set_permissions(root.join("tmp"), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    // Without a rollback, other users need no information about it.
    let run = as_nobody(&["scan", "--short"]);
    assert!(run.success() && !run.stderr_lossy().contains("generation"), "{run}");
    let run = as_nobody(&["generations"]);
    assert_eq!(run.status, Some(255), "{run}");
    assert!(run.stderr_lossy().contains("permission denied"), "{run}");
    assert!(root.holo(&["rollback"]).success());
    let run = as_nobody(&["scan", "--short"]);
    assert_eq!(run.stdout_lossy().trim_start(), "file:/etc/motd\n", "{run}");
    assert!(run.stderr_lossy().contains(">> using generation 1 of "), "{run}");
}

fn read_only_root() {
    let root = root().dir("var/lib/holo/files").dir("var/lib/holo/.engine");
    let state = root.join("var/lib/holo/.engine");
    let script = "mount --bind \"$1\" \"$1\" && mount -o remount,ro,bind \"$1\" && exec \"$2\" apply";
    let (state, holo) = (state.display().to_string(), built("holo").display().to_string());
    let run = root.run("unshare", &["--mount", "sh", "-ec", script, "sh", &state, &holo]);
    assert!(run.success(), "{run}");
    assert_eq!(root.read("etc/motd"), "one\n");
    assert_eq!(run.stderr_lossy().matches("read-only file system").count(), 1, "{run}");
}

fn rollback_uses_files_and_directories_that_generators_made() {
    let generator = "#!/bin/sh\nmkdir -p \"$OUT/files/10-x/etc/motd\"\n\
                     printf 'generated\\n' >\"$OUT/files/10-x/etc/issue\"\n";
    let root = root().file("etc/issue", "stock\n").script("usr/share/holo/generators/10-make", generator);
    applied(&root);
    let contents = || (root.read("etc/issue").to_string(), root.read("etc/motd").to_string());
    assert_eq!(contents(), ("generated\n".to_owned(), "stock\n".to_owned()));
    std::fs::remove_file(root.join("usr/share/holo/generators/10-make")).unwrap();
    applied(&root);
    assert_eq!(contents(), ("stock\n".to_owned(), "one\n".to_owned()));
    let run = root.holo(&["rollback", "1"]);
    assert!(run.success(), "{run}");
    assert_eq!(contents(), ("generated\n".to_owned(), "stock\n".to_owned()));
}
