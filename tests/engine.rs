//! What plugins and the engine say to each other beyond version 3, with plugins in a few lines of shell.
#![expect(clippy::unwrap_used, reason = "a test says by panicking what is wrong")]

use holo_testing::{Run, ScratchRoot, binaries::built};

/// A root with plugins of these IDs, each with lines of shell, which are those of a `case` over the operation.
fn root(plugins: &[(&str, &str)]) -> ScratchRoot {
    let lines: String = plugins.iter().map(|(id, _)| format!("plugin {id}\n")).collect();
    plugins.iter().fold(ScratchRoot::new().binary(built("holo")).holorc(lines), |root, (id, operations)| {
        let script = format!("#!/bin/sh\ncase $1 in\n{operations}\nesac\n");
        root.script(format!("usr/lib/holo/holo-{id}"), script).dir(format!("usr/share/holo/{id}"))
    })
}

/// The line of a `case` that answers `info` for version 4, with what else is said.
fn info(more: &str) -> String {
    format!(r"info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\n{more}' ;;")
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.is_empty()).collect()
}

#[track_caller]
fn stdout_lines(run: &Run) -> Vec<String> {
    assert!(run.success(), "{run}");
    lines(&run.stdout_lossy()).into_iter().map(str::to_owned).collect()
}

#[test]
fn plugins_are_met_at_the_same_time_and_heard_in_their_order() {
    // Each waits for the other to be there.
    let info = |me: &str, other: &str| {
        format!(
            "info) cd \"$HOLO_ROOT_DIR/tmp\"; : >{me}; while [ ! -e {other} ]; do sleep 0.01; done
            [ {me} = b ] || sleep 0.2; echo \"this is {me}\" >&2; printf 'MIN_API_VERSION=3\\nMAX_API_VERSION=3\\n' ;;"
        )
    };
    let run = root(&[("one", &info("a", "b")), ("two", &info("b", "a"))]).holo(&["scan"]);
    assert!(run.success(), "{run}");
    assert_eq!(lines(&run.stderr_lossy()), ["this is a", "this is b"]);
    let failing = |id: &str, time: &str| format!("info) sleep {time}; echo \"{id} fails\" >&2; exit 7 ;; # {id}");
    let run = root(&[("one", &failing("one", "0.2")), ("two", &failing("two", "0"))]).holo(&["scan"]);
    assert_eq!(run.status, Some(255), "{run}");
    assert_eq!(lines(&run.stderr_lossy()), ["one fails", "!! info with plugin one failed: exit status 7"]);
}

#[test]
fn plugins_of_version_4_hear_how_much_they_may_do_at_a_time() {
    let operations = "scan) echo 'ENTITY: jobs:'\"${HOLO_JOBS-none}\" ;;\napply) echo \"$2 ${HOLO_JOBS-none}\" ;;";
    let free = format!("{}\n{operations}", info(""));
    let careful = format!("{}\n{operations}", info("CONCURRENCY=1\\n"));
    let version_3 = format!("info) printf 'MIN_API_VERSION=3\\nMAX_API_VERSION=3\\n' ;;\n{operations}");
    let processors = std::thread::available_parallelism().unwrap().to_string();
    let root = root(&[("free", &free), ("careful", &careful), ("three", &version_3)]);
    let scan = root.holo(&["scan", "-s"]);
    assert_eq!(stdout_lines(&scan), [format!("jobs:{processors}"), "jobs:1".to_owned(), "jobs:none".to_owned()]);
    let run = root.holo(&["apply", "--jobs", "7"]);
    let said: Vec<String> = stdout_lines(&run).into_iter().filter(|line| line.starts_with("jobs:")).collect();
    assert_eq!(said, ["jobs:7 7", "jobs:1 1", "jobs:none none"]);
    for number in ["0", "many", "-1"] {
        let run = root.holo(&["apply", "--jobs", number]);
        assert_eq!(run.status, Some(2), "{run}");
        assert!(run.stderr_lossy().starts_with("!! "), "{run}");
    }
}

#[test]
fn a_number_that_is_none_is_told() {
    let run = root(&[("odd", &info("CONCURRENCY=all\\n"))]).holo(&["scan"]);
    assert_eq!(run.status, Some(255), "{run}");
    assert!(run.stderr_lossy().contains("info with plugin odd failed: info says CONCURRENCY=all, where"), "{run}");
}
