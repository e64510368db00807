//! The administrator's own resource files, beyond what a scenario can show.

use holo_testing::{Need, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = holo_testing::trials![colon_in_a_path_is_supported, definitions_of_unknown_plugins_are_an_error];
    trials.push(trial_of(
        "missing_resources_are_searched_once_for_all_plugins",
        &[Need::Program("strace")],
        missing_resources_are_searched_once_for_all_plugins,
    ));
    trials
}

/// Returns a root with this name below a scratch root, with an overlay from a package and one of the administrator.
fn root(name: &str) -> ScratchRoot {
    let below = |path: &str| format!("{name}/{path}");
    ScratchRoot::new()
        .file(below("etc/holorc"), format!("plugin files={}\n", built("holo-files").display()))
        .file(below("etc/os-release"), "ID=unittest\n")
        .file(below("etc/motd"), "stock\n")
        .dir(below("run"))
        .file(below("usr/share/holo/files/10-x/etc/motd"), "packaged\n")
        .file(below("etc/holo/resources/files/10-x/etc/motd"), "own\n")
}

fn colon_in_a_path_is_supported() {
    for name in ["plain", "a:b"] {
        let root = root(name);
        let system = root.join(name);
        let variable = format!("HOLO_ROOT_DIR={}", system.display());
        let run = root.run("env", &[variable.as_ref(), built("holo").as_os_str(), "apply".as_ref()]);
        assert!(run.success(), "{name}: {run}");
        let shown = format!("apply {}", system.join("etc/holo/resources/files/10-x/etc/motd").display());
        assert!(run.stdout_lossy().contains(&shown), "{name}: {run}");
        assert_eq!(std::fs::read_to_string(system.join("etc/motd")).unwrap(), "own\n", "{name}");
    }
}

fn definitions_of_unknown_plugins_are_an_error() {
    let root = ScratchRoot::new().plugin("files").file("etc/os-release", "ID=unittest\n");
    let run = root.holo(&["definitions", "fils"]);
    assert!(run.status == Some(255) && run.stdout.is_empty(), "{run}");
    assert_eq!(run.stderr_lossy(), "!! there is no plugin fils, did you mean files?\n", "{run}");
    // A configured plugin need not have definitions, and a directory suffices for a plugin under development.
    for plugin in ["files", "new"] {
        root.write("usr/share/holo/new/x", "");
        let run = root.holo(&["definitions", plugin]);
        assert!(run.success() && run.stdout == "[]\n", "{run}");
    }
}

fn missing_resources_are_searched_once_for_all_plugins() {
    let root = root("system");
    std::fs::remove_dir_all(root.join("system/etc/holo")).unwrap();
    let variable = format!("HOLO_ROOT_DIR={}", root.join("system").display());
    let log = root.join("log");
    let holo = built("holo");
    let words = [
        "-f".as_ref(),
        "-o".as_ref(),
        log.as_os_str(),
        "-E".as_ref(),
        variable.as_ref(),
        holo.as_os_str(),
        "apply".as_ref(),
    ];
    assert!(root.run("strace", &words).success());
    let log = std::fs::read_to_string(log).unwrap();
    let calls: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("etc/holo/resources") && line.contains('(') && !line.contains("execve"))
        .collect();
    // Once for the plugins, and twice each before and after, for the fingerprint of the inputs.
    assert!(
        calls.len() <= 5 && calls.iter().all(|call| call.contains("ENOENT") || call.contains("<unfinished")),
        "{calls:#?}"
    );
}
