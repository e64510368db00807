//! Packages with several names: which entity manages them, and which records they have.

use holo_testing::{Run, ScratchRoot, binaries::built, random};
use libtest_mimic::Trial;
use std::collections::BTreeMap;

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        a_package_under_another_name_keeps_its_base,
        a_package_of_another_architecture_is_another_package,
        two_names_of_a_package_contradict_each_other,
        names_come_and_go,
    ]
}

const DEFINITIONS: &str = "usr/share/holo/packages/10-test.toml";

fn root() -> ScratchRoot {
    ScratchRoot::new().binary(built("holo")).plugin("packages").file("etc/os-release", "ID=debian\n")
}

/// Applies definitions. Returns the run and the commands.
#[track_caller]
fn apply(root: &ScratchRoot, definitions: &str, arguments: &[&str]) -> (Run, Vec<String>) {
    root.write(DEFINITIONS, definitions);
    let run = root.holo(&[&["apply"], arguments].concat());
    let calls = run.stdout_lossy().lines().filter(|line| line.starts_with("MOCK: ")).map(short).collect();
    (run, calls)
}

/// Shortens a command to `install libm`.
fn short(call: &str) -> String {
    let (options, packages) = call.split_once(" -- ").unwrap();
    format!("{} {packages}", options.rsplit(' ').next().unwrap())
}

fn package(keys: &str) -> String {
    format!("[[package]]\n{}\n", keys.replace(' ', "\n"))
}

/// Returns the native architecture.
fn native(root: &ScratchRoot) -> &'static str {
    root.write("var/lib/dpkg/arch", "amd64\ni386\n");
    "amd64"
}

fn a_package_under_another_name_keeps_its_base() {
    let root = root();
    let native = native(&root);
    let names = ["name=\"libm\"".to_owned(), format!("name=\"libm:{native}\"")];
    let ids = ["package:libm".to_owned(), format!("package:libm:{native}")];
    let (run, calls) = apply(&root, &package(&names[0]), &[]);
    assert_eq!(calls, ["install libm"], "{run}");
    for (before, after) in [(0, 1), (1, 0), (0, 1)] {
        let (run, calls) = apply(&root, &package(&names[after]), &[]);
        assert!(run.success() && calls.is_empty(), "{run}");
        assert_eq!(run.stderr_lossy().trim(), format!(">> {} takes over from {}", ids[after], ids[before]), "{run}");
        assert_eq!(root.records("packages"), [ids[after].clone()]);
        let again = root.holo(&["apply"]);
        assert!(again.stdout.is_empty() && again.stderr.is_empty(), "{again}");
    }
    // The package was not installed before the first entity.
    let (run, calls) = apply(&root, "", &[]);
    assert_eq!(calls, ["remove libm"], "{run}");
    assert_eq!(root.records("packages"), [] as [&str; 0]);
}

fn a_package_of_another_architecture_is_another_package() {
    let root = root();
    native(&root);
    apply(&root, &package("name=\"libm\" arch=\"i386\""), &[]);
    // The ID is the same.
    let (run, calls) = apply(&root, &package("name=\"libm\""), &[]);
    assert_eq!(calls, ["install libm", "remove libm:i386"], "{run}");
    assert!(run.stderr.is_empty() && run.stdout_lossy().contains("Scrubbing package:libm:i386 ("), "{run}");
    assert_eq!(root.records("packages"), ["package:libm"]);
    // The next apply completes a partial one.
    let (run, calls) = apply(&root, &package("name=\"libm\" arch=\"i386\""), &["package:libm"]);
    assert_eq!(calls, ["install libm:i386"], "{run}");
    assert_eq!(root.records("packages"), ["package:libm", "package:libm:amd64"]);
    let (run, calls) = apply(&root, &package("name=\"libm\" arch=\"i386\""), &[]);
    assert_eq!(calls, ["remove libm"], "{run}");
    let (run, calls) = apply(&root, "", &[]);
    assert_eq!(calls, ["remove libm:i386"], "{run}");
    assert_eq!(root.records("packages"), [] as [&str; 0]);
}

fn two_names_of_a_package_contradict_each_other() {
    let root = root();
    native(&root);
    let both = package("name=\"libm\"") + &package("name=\"libm:amd64\" ensure=\"absent\"");
    let (run, calls) = apply(&root, &both, &[]);
    assert!(run.status == Some(1) && calls.is_empty(), "{run}");
    let said = run.stderr_lossy();
    assert!(said.contains("package libm:amd64 is owned by package:libm in "), "{run}");
    assert!(said.contains("10-test.toml and package:libm:amd64 in "), "{run}");
    assert_eq!(root.holo(&["scan"]).status, Some(1));
    assert_eq!(root.records("packages"), [] as [&str; 0]);
    // A dispatcher of version 3 does not check ownership, and so the plugin reports the conflict.
    let environment = "export HOLO_ROOT_DIR=$R HOLO_API_VERSION=3 HOLO_RESOURCE_DIR=$R/usr/share/holo/packages \
        HOLO_STATE_DIR=$R/var/lib/holo/packages HOLO_CACHE_DIR=$R/tmp/cache";
    let plugin = built("holo-packages");
    let script = format!("R={}; {environment}; {} scan", root.path().display(), plugin.display());
    let run = root.run("/bin/sh", &["-ec", &script]);
    assert!(run.success() && run.stdout.is_empty(), "{run}");
    assert_eq!(run.stderr_lossy().matches("is what").count(), 2, "{run}");
    // Packages of different architectures are different packages.
    let (run, calls) =
        apply(&root, &(package("name=\"libm\"") + &package("name=\"libm:i386\" ensure=\"absent\"")), &[]);
    assert_eq!(calls, ["install libm"], "{run}");
    assert!(run.success(), "{run}");
}

/// Random names and selections: packages become as defined, and as they were originally in the end.
fn names_come_and_go() {
    random::cases(40, |random| {
        let root = root();
        native(&root);
        let before: Vec<&str> = ["aa", "aa:i386", "bb", "bb:i386"].into_iter().filter(|_| random.chance(50)).collect();
        let entry = |key: &&str| match key.split_once(':') {
            Some((name, arch)) => format!("\"{key}\":{{\"name\":\"{name}\",\"arch\":\"{arch}\"}}"),
            None => format!("\"{key}\":{{\"name\":\"{key}\"}}"),
        };
        let state = before.iter().map(entry).collect::<Vec<_>>().join(",");
        root.write("var/lib/holo/packages/mock-apt.json", format!("{{{state}}}"));
        let mut history = Vec::new();
        for _ in 0..6 {
            let mut wanted = BTreeMap::new();
            let mut definitions = String::new();
            for id in ["aa", "aa:amd64", "aa:i386", "bb", "bb:amd64", "bb:i386"] {
                // An architecture in the name equals one in the key.
                let arch = if id.len() == 2 { *random.pick(&["", "", "arch=\"i386\"", "arch=\"amd64\""]) } else { "" };
                let is_wanted = random.chance(50);
                if random.chance(30) {
                    let full =
                        if arch.is_empty() { id.to_owned() } else { format!("{id}:{}", &arch[6..arch.len() - 1]) };
                    let full = full.trim_end_matches(":amd64").to_owned();
                    wanted.entry(full).or_insert_with(Vec::new).push(is_wanted);
                    let ensure = if is_wanted { "present" } else { "absent" };
                    definitions += &package(&format!("name=\"{id}\" ensure=\"{ensure}\" {arch}"));
                }
            }
            let selector = *random.pick(&["package:aa", "package:bb:i386", "packages", "packages", "packages"]);
            let (run, _) = apply(&root, &definitions, &[selector]);
            history.push(format!("{definitions}apply {selector}\n{run}"));
            let log = history.join("\n");
            let has_conflict = wanted.values().any(|all| all.len() > 1);
            assert!(run.success() || has_conflict || run.stderr_lossy().contains("Unrecognized argument"), "{log}");
            for (full, all) in wanted {
                if selector == "packages" && all.len() == 1 {
                    assert_eq!(is_installed(&root, &full), all[0], "{full}: {log}");
                }
            }
        }
        let (run, _) = apply(&root, "", &[]);
        let log = history.join("\n");
        assert!(run.success(), "{log}{run}");
        for key in ["aa", "aa:i386", "bb", "bb:i386"] {
            assert_eq!(is_installed(&root, key), before.contains(&key), "{key}: {log}{run}");
        }
        assert_eq!(root.records("packages"), [] as [&str; 0], "{log}{run}");
    });
}

fn is_installed(root: &ScratchRoot, key: &str) -> bool {
    let path = "var/lib/holo/packages/mock-apt.json";
    root.exists(path) && root.read(path).to_string().replace("\": {", "\":{").contains(&format!("\"{key}\":{{"))
}
