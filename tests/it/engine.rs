//! Communication between plugins and the engine beyond version 3, with short shell plugins.

use bstr::ByteSlice;
use holo_testing::{Run, ScratchRoot, binaries::built};
use libtest_mimic::Trial;

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        handshakes_are_concurrent_but_shown_in_order,
        plugins_of_version_4_get_the_number_of_jobs,
        invalid_number_is_reported,
        invalid_definitions_fail_read_only_verbs_too,
        sent_values_come_with_the_refresh,
        refresh_without_sent_values_receives_none,
        invalid_send_is_an_error_with_a_remedy,
        refusals_and_skips_use_the_plugins_words,
        skipped_entity_does_not_block_others,
        two_owners_of_an_asset_are_refused_with_their_files,
        entity_listed_by_two_plugins_is_not_applied,
        orphan_is_scrubbed_only_after_its_successor_succeeded,
        blocked_orphan_is_reported_only_after_a_failure,
        failure_before_any_change_causes_no_refresh,
        session_reports_a_failure_before_any_change,
        check_failing_for_a_pending_requirement_is_pending_without_a_session,
        refresh_stays_due_while_its_target_is_skipped,
        refresh_is_dropped_only_after_a_complete_scan_without_its_target,
        duplicate_plugin_is_an_error,
        leftover_snippets_are_skipped_with_a_warning,
        snippet_that_is_not_a_file_is_an_error,
        more_sessions_than_descriptors_work,
        uncheckable_requirement_does_not_block,
        unknown_reference_causes_a_warning_with_its_location,
        forced_dry_run_shows_forced_changes,
        repeated_failure_without_a_change_causes_no_refresh,
        failed_scan_ends_only_runs_that_may_involve_its_plugin,
        failed_info_ends_only_runs_that_may_involve_its_plugin,
        run_that_needs_an_entity_of_a_failed_plugin_ends,
        generator_selector_may_involve_a_failed_plugin,
        state_of_a_failed_plugin_is_kept,
        cycle_blocks_only_entities_that_follow_it,
        difference_uses_the_labels_of_the_plugin,
        due_refresh_is_handed_to_the_successor,
    ]
}

/// Returns the rows of the state database in export format.
fn kept(root: &ScratchRoot) -> String {
    let run = root.holo(&["state", "export"]);
    assert!(run.success(), "{run}");
    run.stdout_lossy().into_owned()
}

/// Returns the refreshes in the state database.
fn due(root: &ScratchRoot) -> String {
    kept(root).lines().filter(|line| line.contains("\"table\":\"refresh\"")).collect()
}

fn root(plugins: &[(&str, &str)]) -> ScratchRoot {
    let lines: String = plugins.iter().map(|(id, _)| format!("plugin {id}\n")).collect();
    plugins.iter().fold(ScratchRoot::new().binary(built("holo")).holorc(lines), |root, (id, operations)| {
        let script = format!("#!/bin/sh\ncase $1 in\n{operations}\nesac\n");
        root.script(format!("usr/lib/holo/holo-{id}"), script).dir(format!("usr/share/holo/{id}"))
    })
}

/// Returns the branch of a `case` that answers `info` for version 4, with additional lines.
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

fn handshakes_are_concurrent_but_shown_in_order() {
    // Each waits for the other to start.
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

fn plugins_of_version_4_get_the_number_of_jobs() {
    let plugin = |id: &str, info: &str| {
        let jobs = "${HOLO_JOBS-none}";
        format!("{info}\nscan) echo \"ENTITY: {id}:{jobs}\" ;;\napply) echo \"$2 {jobs}\" ;;")
    };
    let free = plugin("free", &info(""));
    let careful = plugin("careful", &info("CONCURRENCY=1\\n"));
    let version_3 = plugin("three", "info) printf 'MIN_API_VERSION=3\\nMAX_API_VERSION=3\\n' ;;");
    let processors = std::thread::available_parallelism().unwrap().to_string();
    let root = root(&[("free", &free), ("careful", &careful), ("three", &version_3)]);
    let scan = root.holo(&["scan", "-s"]);
    assert_eq!(stdout_lines(&scan), [&*format!("free:{processors}"), "careful:1", "three:none"]);
    let run = root.holo(&["apply", "--jobs", "7"]);
    let said: Vec<String> = stdout_lines(&run).into_iter().filter(|line| !line.starts_with("Working on ")).collect();
    assert_eq!(said, ["free:7 7", "careful:1 1", "three:none none"]);
    let check = root.holo(&["check", "--jobs", "7"]);
    assert!(["free:7", "careful:1", "three:none"].iter().all(|id| check.stdout_lossy().contains(id)), "{check}");
    for (verb, number) in [("apply", "0"), ("apply", "many"), ("check", "-1")] {
        let run = root.holo(&[verb, "--jobs", number]);
        assert_eq!(run.status, Some(2), "{run}");
        assert!(run.stderr_lossy().starts_with("!! "), "{run}");
    }
}

fn invalid_number_is_reported() {
    let run = root(&[("odd", &info("CONCURRENCY=all\\n"))]).holo(&["scan"]);
    assert_eq!(run.status, Some(255), "{run}");
    assert!(run.stderr_lossy().contains("info with plugin odd failed: info says CONCURRENCY=all, where"), "{run}");
}

fn invalid_definitions_fail_read_only_verbs_too() {
    let scan = r"scan) printf 'ENTITY: x:a\n'; printf '!' >&2; sleep 0.1; printf '! a definition is broken' >&2 ;;";
    let harmless = r"scan) printf 'ENTITY: x:a\n'; printf 'it says !! and\n>> takes care\n' >&2 ;;";
    let version_3 = r"info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=3\n' ;;";
    let cases = [
        (info(""), scan, 1),
        (info(""), harmless, 0),
        (version_3.to_owned(), scan, 0),
        (version_3.to_owned(), harmless, 0),
    ];
    for (info, scan, status) in cases {
        let root = root(&[("x", &format!("{info}\n{scan}"))]);
        let lenient =
            |verb: &str| root.run("env", &["HOLO_EXIT_ZERO=1".as_ref(), built("holo").as_os_str(), verb.as_ref()]);
        for verb in ["scan", "diff", "graph"] {
            let run = root.holo(&[verb]);
            assert_eq!(run.status, Some(status), "{verb}: {run}");
            // Selecting a valid entity works.
            assert!(root.holo(&[verb, "x:a"]).success(), "{verb}");
            assert!(root.holo(&[verb, "--exit-zero"]).success(), "{verb}");
            assert!(lenient(verb).success(), "{verb}");
        }
    }
}

/// A plugin of version 4 whose entities are shell files in its resource directory, with the commands of each operation.
const SCRIPTS: &str = r#"scan) for file in "$HOLO_RESOURCE_DIR"/*; do name=${file##*/}
    echo "ENTITY: x:$name"; sed -n 's/^# //p' "$file"; done ;;
check | apply | force-apply) . "$HOLO_RESOURCE_DIR/${2#x:}" ;;"#;

/// Returns a root with one plugin, without sessions, and these entities.
fn scripts(entities: &[(&str, &str)]) -> ScratchRoot {
    let root = root(&[("x", &format!("{}\n{SCRIPTS}", info("")))]);
    entities.iter().for_each(|(name, script)| root.write(format!("usr/share/holo/x/{name}"), script));
    root
}

/// Returns the `--json` lines that end an entity, abbreviated.
fn ends(run: &Run) -> Vec<String> {
    let lines = run.stdout.lines().map(|line| serde_json::from_slice::<serde_json::Value>(line).unwrap());
    let end = |mut line: serde_json::Value| {
        let fields = line.as_object_mut()?;
        let is_end = fields.get("event")? == "end";
        ["version", "event", "plugin", "duration"].iter().for_each(|name| drop(fields.remove(*name)));
        is_end.then(|| line.to_string())
    };
    lines.filter_map(end).collect()
}

const LISTENER: &str = "# SUBSCRIBES: x:a\n# SUBSCRIBES: x:b
[ $1 = apply ] || { echo 'not changed' >&3; return; }
[ \"$HOLO_REFRESH\" ] || { echo 'not changed' >&3; return; }
echo \"received: $(echo \"${HOLO_RECEIVED-nothing}\" | tr '\\n' ' ')\"
[ ! -e \"$HOLO_ROOT_DIR/etc/broken\" ]
";

/// Returns an entity that changes once after its file was removed, and then sends these values.
fn sender(name: &str, sends: &str) -> String {
    format!(
        "if [ -e \"$HOLO_ROOT_DIR/etc/{name}\" ]; then echo 'not changed'; elif [ $1 = check ]; then echo 'would change: x'
        else touch \"$HOLO_ROOT_DIR/etc/{name}\"; printf '{sends}'; fi >&3\n"
    )
}

fn sent_values_come_with_the_refresh() {
    let (a, b) =
        (sender("a", "send: MODE=old\\nsend: MODE=new one\\nsend: EMPTY=\\n"), sender("b", "send: OTHER=b=c\\n"));
    let root = scripts(&[("a", &a), ("b", &b), ("listens", LISTENER)]).file("etc/broken", "");
    let run = root.holo(&["apply", "--json"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert_eq!(
        ends(&run),
        [
            r#"{"id":"x:a","result":"changed","sent":["MODE=old","MODE=new one","EMPTY="]}"#,
            r#"{"id":"x:b","result":"changed","sent":["OTHER=b=c"]}"#,
            r#"{"id":"x:listens","reason":"exit status 1","result":"failed"}"#,
        ]
    );
    // The refresh failed, so it is still due, with all values. New values replace the old ones.
    std::fs::remove_file(root.join("etc/broken")).unwrap();
    std::fs::remove_file(root.join("etc/b")).unwrap();
    root.write("usr/share/holo/x/b", sender("b", "send: OTHER=d\\n"));
    let run = root.holo(&["apply"]);
    assert!(stdout_lines(&run).contains(&"received: MODE=new one EMPTY= OTHER=d  ".to_owned()), "{run}");
    assert!(!run.stdout_lossy().contains("send"), "{run}");
    assert!(stdout_lines(&root.holo(&["apply"])).is_empty());
    // The refreshes are done; the last values are kept for receivers.
    assert!(due(&root).is_empty() && kept(&root).contains("\"sent_value\""));
}

fn refresh_without_sent_values_receives_none() {
    let root = scripts(&[("a", &sender("a", "changed: it\\n")), ("listens", LISTENER)]);
    assert!(stdout_lines(&root.holo(&["apply"])).contains(&"received: nothing ".to_owned()));
}

fn invalid_send_is_an_error_with_a_remedy() {
    let root = scripts(&[("a", &sender("a", "send: 2ND=x\\n")), ("listens", LISTENER)]);
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    let message = "!! cannot understand the plugin's message \"send: 2ND=x\": expected \"send: KEY=VALUE\" or \"keep: KEY=VALUE\", with a key";
    assert!(run.stderr_lossy().starts_with(message), "{run}");
    // It may have changed: the refresh is not lost.
    assert!(stdout_lines(&root.holo(&["apply"])).contains(&"received: nothing ".to_owned()));
}

const FORCED: &str =
    "if [ $1 = force-apply ]; then echo forced; else echo 'requires --force: it would remove libc6' >&3; fi";

/// The same entity in a session: refused with a reason, and skipped by its own declaration.
const SESSION: &str = r#"session) n=0; while read -r request; do n=$((n + 1))
    case $request in
    *'"scan"'*) printf '{"answer":"report","request":%s,"text":"ENTITY: x:forced\\nENTITY: x:out\\n"}\n' $n ;;
    *) case $request in
        *'"force-apply"'*) said='"changed: forced"' ;;
        *) said='"requires --force: it would remove libc6"' ;; esac
        printf '{"answer":"result","request":%s,"entity":"x:forced","messages":[%s],"result":"done"}\n' $n "$said"
        printf '{"answer":"result","request":%s,"entity":"x:out","messages":["skipped: no disk"],"result":"done"}\n' $n ;;
    esac >&3; printf '{"answer":"end","request":%s,"result":"done"}\n' $n >&3; done ;;"#;

fn refusals_and_skips_use_the_plugins_words() {
    let processes = scripts(&[("forced", FORCED), ("out", "echo 'skipped: no disk' >&3")]);
    let session = root(&[("x", &format!("{}\n{SESSION}", info("SESSION=1\\n")))]);
    for root in [processes, session] {
        for (arguments, status) in [(&["apply"][..], 1), (&["check"], 3), (&["apply", "--dry-run"], 3)] {
            let run = root.holo(arguments);
            assert_eq!(run.status, Some(status), "{run}");
            assert_eq!(run.stdout_lossy(), "\nWorking on x:forced\n\n\n", "{run}");
            assert_eq!(run.stderr_lossy(), "!! it would remove libc6 (use --force to proceed)\n", "{run}");
            let run = root.holo(&[arguments, &["--json"]].concat());
            let refused =
                r#"{"id":"x:forced","refused":[{"kind":"other","reason":"it would remove libc6"}],"result":"refused"}"#;
            assert_eq!(ends(&run), [refused, r#"{"id":"x:out","reason":"no disk","result":"skipped"}"#], "{run}");
            assert!(run.stdout_lossy().contains(r#""skipped":1,"failed":0"#), "{run}");
        }
        // A skipped entity is not a failure, and is not shown.
        let run = root.holo(&["apply", "x:out"]);
        assert!(stdout_lines(&run).is_empty() && run.stderr.is_empty(), "{run}");
        assert!(root.holo(&["check", "x:out"]).success());
        assert!(stdout_lines(&root.holo(&["apply", "--force"])).contains(&"forced".to_owned()));
    }
}

fn skipped_entity_does_not_block_others() {
    let root = scripts(&[
        ("a", "echo 'skipped: not here' >&3"),
        ("b", "# REQUIRES: x:a\n# SUBSCRIBES: x:a\necho \"b ${HOLO_REFRESH-}\""),
    ]);
    let run = root.holo(&["apply"]);
    assert_eq!(stdout_lines(&run), ["Working on x:b", "b "]);
    assert!(!root.exists("var/lib/holo/state.db"));
}

/// The answer of an unchanged entity that owns an asset.
const CONTENT: &str = "echo 'not changed' >&3\n";

fn two_owners_of_an_asset_are_refused_with_their_files() {
    let owner = |more: &str| {
        format!("# OWNS: unit nginx.service\n# SOURCE: /etc/x/{more}.toml\ntouch \"$HOLO_ROOT_DIR/etc/done\"\n")
    };
    let (a, b) = (owner("a"), owner("b"));
    let root =
        scripts(&[("a", &a), ("b", &b), ("c", "# REQUIRES: x:b\ntouch \"$HOLO_ROOT_DIR/etc/done\""), ("d", CONTENT)]);
    let message = "unit nginx.service is owned by x:a in /etc/x/a.toml and x:b in /etc/x/b.toml; neither is applied";
    for verb in ["apply", "check"] {
        let run = root.holo(&[verb]);
        assert_eq!(run.status, Some(1), "{run}");
        let skipped = ">> Skipped: requires x:b, which failed".to_owned();
        assert_eq!(
            lines(&run.stderr_lossy()),
            [&*format!("!! {message}"), &*format!("!! {message}"), &skipped],
            "{run}"
        );
        let run = root.holo(&[verb, "--json"]);
        assert_eq!(ends(&run)[0], format!(r#"{{"id":"x:a","reason":"{message}","result":"failed"}}"#));
        // The requirement is only checked, silently.
        assert_eq!(root.holo(&[verb, "x:c"]).status, Some(if verb == "apply" { 1 } else { 3 }));
    }
    assert!(!root.exists("etc/done"));
    for arguments in [&["scan"][..], &["scan", "-s"], &["diff"], &["graph"], &["diff", "x:b"]] {
        let run = root.holo(arguments);
        assert_eq!(run.status, Some(1), "{run}");
        assert_eq!(run.stderr_lossy(), format!("!! {message}\n"), "{run}");
    }
    let run = root.holo(&["scan", "--json"]);
    for id in ["x:a", "x:b"] {
        let line = format!(r#"{{"version":1,"event":"error","id":"{id}","text":"{message}"}}"#);
        assert!(run.stdout_lossy().lines().any(|found| found == line), "{run}");
    }
    for arguments in [&["scan", "x:d"][..], &["apply", "x:d"], &["diff", "x:d"]] {
        let run = root.holo(arguments);
        assert!(run.success() && run.stderr.is_empty(), "{run}");
    }
}

fn entity_listed_by_two_plugins_is_not_applied() {
    let list = |id: &str| {
        format!(
            "info) printf 'MIN_API_VERSION=3\\nMAX_API_VERSION=3\\n' ;;\nscan) printf 'ENTITY: x:same\\nSOURCE: /{id}\\n'; echo ENTITY: x:{id} ;;\napply) echo \"$2\" ;;"
        )
    };
    let root = root(&[("a", &list("a")), ("b", &list("b"))]);
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    let message = "!! x:same is listed by the plugin a in /a and the plugin b in /b; neither is applied";
    assert_eq!(lines(&run.stderr_lossy()), [message, message]);
    assert_eq!(
        lines(&run.stdout_lossy()).into_iter().filter(|line| line.starts_with("x:")).collect::<Vec<_>>(),
        ["x:a", "x:b"]
    );
    assert_eq!(root.holo(&["scan"]).status, Some(1));
}

/// An orphan that changes once and reports it.
const LEAVER: &str = "# ORPHAN: yes\n# ACTION: Scrubbing\n# OWNS: unit x\n
case $1 in check) echo 'would change: would go' >&3 ;; *) echo 'changed: went' >&3 ;; esac\n";

fn orphan_is_scrubbed_only_after_its_successor_succeeded() {
    let heir = |does: &str| format!("# OWNS: unit x\n# AFTER: x:old\n{does}\n");
    let run = |does: &str, arguments: &[&str]| {
        let root = scripts(&[("new", &heir(does)), ("old", LEAVER)]);
        let run = root.holo(&[arguments, &["--json"]].concat());
        (run.status, ends(&run))
    };
    let end = |id: &str, rest: &str, result: &str| format!(r#"{{"id":"x:{id}",{rest}"result":"{result}"}}"#);
    let went = |id: &str| format!(r#"{{"changed":["went"],"id":"x:{id}","result":"changed"}}"#);
    let new = |result: &str| end("new", "", result);
    assert_eq!(run("echo 'not changed' >&3", &["apply"]), (Some(0), vec![new("unchanged"), went("old")]));
    assert_eq!(run("true", &["apply"]), (Some(0), vec![new("changed"), went("old")]));
    let failed = end("old", r#""reason":"x:new takes over from it, which failed","#, "skipped");
    assert_eq!(
        run("exit 1", &["apply"]),
        (Some(1), vec![end("new", r#""reason":"exit status 1","#, "failed"), failed])
    );
    let refused = end(
        "old",
        r#""reason":"x:new takes over from it, which is not in its desired state (--force is needed)","#,
        "skipped",
    );
    let forced = r#""refused":[{"kind":"other","reason":"no"}],"#;
    assert_eq!(
        run("echo 'requires --force: no' >&3", &["apply"]),
        (Some(1), vec![end("new", forced, "refused"), refused])
    );
    let left_out = end("old", r#""reason":"x:new takes over from it, and is left out","#, "skipped");
    let out = end("new", r#""reason":"no","#, "skipped");
    assert_eq!(run("echo 'skipped: no' >&3", &["apply"]), (Some(0), vec![out, left_out]));
    let not_selected = end("old", r#""reason":"x:new takes over from it, and is not selected","#, "skipped");
    assert_eq!(run("true", &["apply", "x:old"]), (Some(0), vec![not_selected]));
    // Until then it is unknown what will be left to do.
    let pending = r#"{"id":"x:new","result":"pending","would_change":["x"]}"#.to_owned();
    assert_eq!(run("echo 'would change: x' >&3", &["check"]), (Some(3), vec![pending, end("old", "", "pending")]));
    let go = r#"{"id":"x:old","result":"pending","would_change":["would go"]}"#.to_owned();
    assert_eq!(run("echo 'not changed' >&3", &["check"]), (Some(3), vec![new("unchanged"), go]));
}

fn blocked_orphan_is_reported_only_after_a_failure() {
    let root = scripts(&[("new", "# OWNS: unit x\n[ ! -e \"$HOLO_ROOT_DIR/etc/broken\" ]\n"), ("old", LEAVER)]);
    let run = root.holo(&["apply", "x:old"]);
    assert!(run.success() && run.stdout.is_empty() && run.stderr.is_empty(), "{run}");
    root.write("etc/broken", "");
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert_eq!(lines(&run.stderr_lossy()), ["!! exit status 1", ">> Skipped: x:new takes over from it, which failed"]);
    let run = root.holo(&["check", "x:old", "x:new"]);
    assert_eq!(run.status, Some(1), "{run}");
    std::fs::remove_file(root.join("etc/broken")).unwrap();
    let run = root.holo(&["check"]);
    assert_eq!(lines(&run.stderr_lossy()), [">> x:new takes over from it"], "{run}");
    assert!(root.holo(&["graph"]).stdout_lossy().contains("unit x"));
}

/// Returns an entity that cannot be brought into its desired state, and sends this message.
fn failing(says: &str) -> String {
    format!("[ $1 = check ] && {{ echo 'would change: x' >&3; return; }}\n{says}\nexit 1\n")
}

fn failure_before_any_change_causes_no_refresh() {
    for (says, is_due) in [
        ("echo 'not changed' >&3", false),
        ("true", true),
        ("printf 'changed: it\\nnot changed\\n' >&3", true),
        ("echo 'not changed' >&3; kill -KILL $$", true),
    ] {
        let root = scripts(&[("a", &failing(says)), ("listens", LISTENER)]);
        let runs: Vec<Run> = (0..2).map(|_| root.holo(&["apply"])).collect();
        assert!(runs.iter().all(|run| run.status == Some(1)), "{}{}", runs[0], runs[1]);
        assert_eq!(runs[1].stdout_lossy().contains("received: "), is_due, "{says}\n{}", runs[1]);
    }
}

/// Returns a session in which `x:a` fails with these messages; `x:b` would be refreshed.
fn failing_session(messages: &str) -> String {
    SESSION.replace("ENTITY: x:forced\\\\nENTITY: x:out", "ENTITY: x:a\\\\nNOTIFIES: x:b\\\\nENTITY: x:b").replace(
        "*) case $request in",
        &format!(
            r#"*'"check"'*'"x:a"'*) printf '{{"answer":"result","request":%s,"entity":"x:a","messages":["would change: x"],"result":"done"}}\n' $n ;;
    *'"x:a"'*) printf '{{"answer":"result","request":%s,"entity":"x:a","messages":[{messages}],"result":"failed"}}\n' $n ;;
    *'"refresh":["x:b"]'*) printf '{{"answer":"result","request":%s,"entity":"x:b","messages":["changed: refreshed"],"result":"done"}}\n' $n ;;
    *'"x:b"'*) printf '{{"answer":"result","request":%s,"entity":"x:b","messages":["not changed"],"result":"done"}}\n' $n ;;
    *) case $request in"#
        ),
    )
}

fn session_reports_a_failure_before_any_change() {
    for (messages, refreshes) in [(r#""not changed""#, 0), ("", 1), (r#""changed: x","not changed""#, 1)] {
        let root = root(&[("x", &format!("{}\n{}", info("SESSION=1\\n"), failing_session(messages)))]);
        let runs: Vec<Run> = (0..2).map(|_| root.holo(&["apply"])).collect();
        assert!(runs.iter().all(|run| run.status == Some(1)), "{}{}", runs[0], runs[1]);
        let refreshed = runs.iter().filter(|run| run.stdout_lossy().contains("refreshed")).count();
        assert_eq!(refreshed, refreshes, "{messages}\n{}{}", runs[0], runs[1]);
    }
}

fn check_failing_for_a_pending_requirement_is_pending_without_a_session() {
    let pending = "echo 'would change: x' >&3\n";
    let fails = "# AFTER: x:a\necho '!! there is no user fred' >&2\nexit 1\n";
    let dies = "# AFTER: x:a\nkill -SEGV $$\n";
    let root = scripts(&[("a", pending), ("b", fails)]);
    let run = root.holo(&["check"]);
    assert_eq!(run.status, Some(3), "{run}");
    let expected = [
        "!! there is no user fred",
        ">> x:a comes first, and would be changed",
        ">> The effect of applying it is unknown",
    ];
    assert_eq!(lines(&run.stderr_lossy()), expected, "{run}");
    let run = root.holo(&["check", "x:b"]);
    assert_eq!(run.status, Some(1), "{run}");
    let run = scripts(&[("a", pending), ("b", dies)]).holo(&["check"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains("!! signal: segmentation fault"), "{run}");
}

fn refresh_stays_due_while_its_target_is_skipped() {
    let target = "# SUBSCRIBES: x:a\nif [ -e \"$HOLO_ROOT_DIR/etc/out\" ]; then echo 'skipped: not now' >&3
        elif [ $1 = check ]; then echo 'would change: x' >&3
        elif [ \"$HOLO_REFRESH\" ]; then echo refreshed; else echo 'not changed' >&3; fi\n";
    let root = scripts(&[("a", &sender("a", "changed: it\\n")), ("b", target)]).file("etc/out", "");
    let refreshed = |run: &Run| run.stdout_lossy().contains("refreshed");
    assert!(!refreshed(&root.holo(&["apply"])));
    // It stays skipped, and is not shown.
    for arguments in [&["apply"][..], &["check"], &["apply", "--dry-run"]] {
        let run = root.holo(arguments);
        assert!(run.success() && run.stdout.is_empty() && run.stderr.is_empty(), "{run}");
    }
    assert!(!root.holo(&["check", "--json"]).stdout_lossy().contains(r#""event":"refresh""#));
    std::fs::remove_file(root.join("etc/out")).unwrap();
    let run = root.holo(&["check"]);
    assert!(run.stderr_lossy().contains(">> Would be refreshed"), "{run}");
    assert!(refreshed(&root.holo(&["apply"])));
    assert!(!refreshed(&root.holo(&["apply"])) && !root.exists("var/lib/holo/state.db"));
}

fn refresh_is_dropped_only_after_a_complete_scan_without_its_target() {
    let sends = format!("{}\n{SCRIPTS}", info(""));
    // Lists the entities in a file, and reports an error while another file exists.
    let listens = format!(
        "{}\nscan) [ ! -e \"$HOLO_RESOURCE_DIR/flaw\" ] || echo '!! a definition cannot be read' >&2
            cat \"$HOLO_RESOURCE_DIR/list\" ;;
        apply) if [ \"$HOLO_REFRESH\" ]; then [ -e \"$HOLO_ROOT_DIR/etc/ready\" ] && echo refreshed; else echo 'not changed' >&3; fi ;;",
        info("")
    );
    let list = "usr/share/holo/y/list";
    let prepared = || {
        let root = root(&[("x", &sends), ("y", &listens)]);
        root.write("usr/share/holo/x/a", sender("a", "changed: it\\n"));
        root.write(list, "ENTITY: y:t\nSUBSCRIBES: x:a\n");
        assert_eq!(root.holo(&["apply"]).status, Some(1));
        assert!(!due(&root).is_empty());
        root
    };
    let is_done_later = |root: &ScratchRoot| {
        assert!(!due(root).is_empty());
        root.write("etc/ready", "");
        let run = root.holo(&["apply"]);
        assert!(run.success() && run.stdout_lossy().contains("refreshed") && due(root).is_empty(), "{run}");
    };
    // Its line is missing for a run.
    let root = prepared();
    let holorc = root.read("etc/holorc");
    root.write("etc/holorc", "plugin x\n");
    assert!(root.holo(&["apply"]).success());
    root.write("etc/holorc", holorc);
    is_done_later(&root);
    // Its program is missing for a run.
    let root = prepared();
    let (program, elsewhere) = (root.join("usr/lib/holo/holo-y"), root.join("usr/lib/holo/elsewhere"));
    std::fs::rename(&program, &elsewhere).unwrap();
    assert!(root.holo(&["apply"]).success());
    std::fs::rename(&elsewhere, &program).unwrap();
    is_done_later(&root);
    // Its definition is unreadable for a run.
    let root = prepared();
    let wanted = root.read(list);
    root.write(list, "");
    root.write("usr/share/holo/y/flaw", "");
    assert_eq!(root.holo(&["apply"]).status, Some(1));
    std::fs::remove_file(root.join("usr/share/holo/y/flaw")).unwrap();
    root.write(list, wanted);
    is_done_later(&root);
    // Its definition is removed.
    let root = prepared();
    root.write(list, "");
    assert!(root.holo(&["apply"]).success());
    assert!(due(&root).is_empty());
}

const LISTS: &str = "scan) echo \"ENTITY: ${0##*/}:x\" ;;\napply) echo applied ;;";

fn duplicate_plugin_is_an_error() {
    let root = root(&[("a", &format!("{}\n{LISTS}", info(""))), ("b", &format!("{}\n{LISTS}", info("")))]);
    root.write("etc/holorc.d/10-a", "# first\nplugin a\n");
    for verb in ["apply", "scan", "check"] {
        let run = root.holo(&[verb]);
        assert_eq!(run.status, Some(255), "{run}");
        let folder = root.path().display();
        let message = format!(
            "!! cannot parse configuration: plugin a is configured twice: in {folder}/etc/holorc.d/10-a, line 2 and in {folder}/etc/holorc, line 1\n"
        );
        assert_eq!(run.stderr_lossy(), message, "{run}");
        assert!(!run.stdout_lossy().contains("applied"));
    }
}

fn leftover_snippets_are_skipped_with_a_warning() {
    let root = root(&[("a", &format!("{}\n{LISTS}", info("")))]);
    let leftovers = [".10-a.swp", "10-a.dpkg-dist", "10-a.rpmsave", "10-a~"];
    leftovers.iter().for_each(|name| root.write(format!("etc/holorc.d/{name}"), "plugin a\n\u{0}garbage\n"));
    let run = root.holo(&["scan", "-s"]);
    assert_eq!(stdout_lines(&run), ["holo-a:x"]);
    let folder = root.path().display();
    let expected: Vec<String> = leftovers
        .iter()
        .map(|name| format!(">> Skipping {folder}/etc/holorc.d/{name}: its name is that of a leftover or a backup"))
        .collect();
    assert_eq!(lines(&run.stderr_lossy()), expected, "{run}");
}

fn snippet_that_is_not_a_file_is_an_error() {
    let root = root(&[("a", &format!("{}\n{LISTS}", info("")))]).symlink("etc/holorc.d/05-null", "/dev/null");
    assert!(root.holo(&["scan"]).success());
    assert!(root.run("mkfifo", &["etc/holorc.d/10-fifo"]).success());
    let run = root.holo(&["scan"]);
    assert_eq!(run.status, Some(255), "{run}");
    assert!(run.stderr_lossy().contains("etc/holorc.d/10-fifo: not a regular file"), "{run}");
}

fn more_sessions_than_descriptors_work() {
    const PLUGINS: usize = 120;
    let session = r#"session) n=0; while read -r request; do n=$((n + 1))
    case $request in
    *'"scan"'*) printf '{"answer":"report","request":%s,"text":"ENTITY: %s:x\\n"}\n' $n "${0##*/}" ;;
    *) printf '{"answer":"result","request":%s,"entity":"%s:x","messages":["changed: it"],"result":"done"}\n' $n "${0##*/}" ;;
    esac >&3; printf '{"answer":"end","request":%s,"result":"done"}\n' $n >&3; done ;;"#;
    let ids: Vec<String> = (0..PLUGINS).map(|number| format!("p{number:03}")).collect();
    let script = format!("{}\n{session}", info("SESSION=1\\n"));
    let root = root(&ids.iter().map(|id| (&**id, &*script)).collect::<Vec<_>>());
    let holo = built("holo");
    // A limit that can be raised, and one that cannot.
    for limit in ["ulimit -Sn 128", "ulimit -n 128"] {
        let run = root.run("/bin/sh", &["-c", &format!("{limit} && exec '{}' apply", holo.display())]);
        let changed = stdout_lines(&run).iter().filter(|line| *line == "it").count();
        assert_eq!(changed, PLUGINS, "{limit}\n{run}");
        assert!(run.stderr.is_empty(), "{limit}\n{run}");
    }
}

fn uncheckable_requirement_does_not_block() {
    let version_3 = "info) printf 'MIN_API_VERSION=3\\nMAX_API_VERSION=3\\n' ;;\nscan) echo 'ENTITY: old:x' ;;
        diff) [ ! -e \"$HOLO_ROOT_DIR/etc/a\" ] || printf '%s\\0%s\\0' \"$HOLO_ROOT_DIR/etc/a\" \"$HOLO_ROOT_DIR/etc/b\" >&3 ;;";
    let version_4 = format!("{}\nscan) echo 'ENTITY: old:x' ;;", info(""));
    for requirement in [version_3, &version_4] {
        let needs = format!(
            "{}\nscan) printf 'ENTITY: new:y\\nREQUIRES: old:x\\n' ;;\ncheck) echo 'would change: y' >&3 ;;\napply) echo done ;;",
            info("")
        );
        let root = root(&[("old", requirement), ("new", &needs)]);
        assert_eq!(stdout_lines(&root.holo(&["apply", "new:y"])), ["Working on new:y", "done"]);
        let run = root.holo(&["check", "new:y"]);
        assert!(run.status == Some(3) && run.stderr.is_empty(), "{run}");
        if requirement != version_3 {
            continue;
        }
        // A manual change is known in any case.
        root.write("etc/a", "a\n");
        root.write("etc/b", "b\n");
        for verb in ["apply", "check"] {
            let run = root.holo(&[verb, "new:y"]);
            let message = ">> Skipped: requires old:x, which is not in its desired state\n";
            assert_eq!(run.stderr_lossy(), message, "{run}");
        }
    }
}

fn unknown_reference_causes_a_warning_with_its_location() {
    let definitions = r#"
[[exec]]
name = "a"
command = "true"
after = ["exec:b", "exec:gone"]
subscribes = ["exec:bb",
    "exec:quite-another-name"]
requires = ["exec:b"]

[[exec]]
name = "b"
command = "true"
before = ["script:fisrt"]
notifies = ["user:fred"]
"#;
    let root = ScratchRoot::new().binary(built("holo")).plugin("exec").plugin("run-scripts").plugin("users-groups");
    let root = root
        .resource("exec/01.toml", definitions)
        .resource("users-groups/01.toml", "[[user]]\nname = \"fred\"\nafter = [\"exec:bbb\"]\n")
        .script("usr/share/holo/run-scripts/first", "#!/bin/sh\n# holo: notifies exec:B\n# holo: after exec:a\n")
        .file("etc/passwd", "")
        .file("etc/group", "");
    let at = |file: &str| format!(">> {}/usr/share/holo/{file}", root.path().display());
    let exec = [
        format!("{}:5: exec:a: comes after exec:gone, which does not exist", at("exec/01.toml")),
        format!("{}:6: exec:a: subscribes to exec:bb, which does not exist; did you mean exec:b?", at("exec/01.toml")),
        format!("{}:7: exec:a: subscribes to exec:quite-another-name, which does not exist", at("exec/01.toml")),
        format!(
            "{}:13: exec:b: comes before script:fisrt, which does not exist; did you mean script:first?",
            at("exec/01.toml")
        ),
    ];
    let user = format!("{}:3: user:fred: comes after exec:bbb, which does not exist", at("users-groups/01.toml"));
    let script = format!(
        "{}:2: script:first: notifies exec:B, which does not exist; did you mean exec:b?",
        at("run-scripts/first")
    );
    let expected: Vec<String> = exec.iter().cloned().chain([script.clone(), user]).collect();
    let run = root.holo(&["scan", "-s"]);
    assert!(run.success(), "{run}");
    assert_eq!(lines(&run.stderr_lossy()), expected, "{run}");
    let run = root.holo(&["check", "script:first"]);
    assert_eq!(lines(&run.stderr_lossy()), [&*script], "{run}");
    let run = root.holo(&["scan", "--json", "exec:b"]);
    let text = exec[3].strip_prefix(">> ").unwrap();
    assert!(run.stdout_lossy().contains(&format!(r#""event":"warning","id":"exec:b","text":"{text}""#)), "{run}");
    // If a definition is invalid, the name may be correct.
    root.write("usr/share/holo/exec/02.toml", "[[exec]]\nname = \"bb\"\n");
    let run = root.holo(&["scan", "-s"]);
    assert!(!run.stderr_lossy().contains("does not exist"), "{run}");
    // An ID that the plugin adds itself is not a typo, and version 3 has no such check.
    let run = scripts(&[("a", "# AFTER: x:nobody\n# SUBSCRIBES: x:c\n"), ("b", "")]).holo(&["scan", "-s"]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    let run = scripts(&[("a", "# AFTER: x:nobody\n# WRITTEN: here:\n")]).holo(&["scan"]);
    assert_eq!(run.status, Some(255));
    assert!(run.stderr_lossy().contains("line 3: expected \"WRITTEN: LOCATION: ID\""), "{run}");
}

fn forced_dry_run_shows_forced_changes() {
    let operations = r#"
scan) for name in a b c d; do echo "ENTITY: demo:$name"; done ;;
check) case $2 in
    demo:a) echo 'requires --force to overwrite' >&3 ;;
    demo:b) echo 'requires --force to restore' >&3 ;;
    demo:c) echo 'requires --force: it is newer than declared' >&3 ;;
    demo:d) echo 'not changed' >&3 ;;
    esac ;;
"#;
    let root = root(&[("demo", &format!("{}{operations}", info("")))])
        .plugin("files")
        .file("etc/os-release", "ID=unittest\n")
        .file("etc/motd", "stock\n")
        .resource("files/10-ours/etc/motd", "ours\n");
    assert!(root.holo(&["apply", "file:/etc/motd"]).success());
    root.write("etc/motd", "mine\n");
    let before = root.dump();
    let refused = root.holo(&["apply", "--dry-run"]);
    assert_eq!((refused.status, refused.stdout.contains_str("would")), (Some(3), false), "{refused}");
    let forced = root.holo(&["apply", "--dry-run", "--force"]);
    assert_eq!((forced.status, forced.stderr.as_bstr()), (Some(3), b"".as_bstr()), "{forced}");
    let stdout = forced.stdout_lossy();
    let said: Vec<&str> = stdout.lines().filter(|line| line.starts_with("would ")).collect();
    let expected = [
        "would overwrite what a user has changed",
        "would restore what a user has deleted",
        "would proceed, although it is newer than declared",
        "would overwrite what a user has changed",
    ];
    assert_eq!(said, expected, "{forced}");
    assert!(stdout.contains("    -ours\n    +mine\n") && !stdout.contains("demo:d"), "{forced}");
    assert_eq!(root.dump(), before);
    // Without a refusal, force makes no difference.
    root.write("etc/motd", "ours\n");
    let forced = root.holo(&["apply", "--dry-run", "--force", "file:/etc/motd", "demo:d"]);
    assert!(forced.success() && forced.stdout.is_empty(), "{forced}");
}

fn repeated_failure_without_a_change_causes_no_refresh() {
    let failing = r#"
[[exec]]
name = "listens"
command = "sh -c 'echo refreshed >>log'"
cwd = "/tmp"
refresh_only = true
subscribes = ["file:/etc/motd", "file:/etc/missing"]
"#;
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .plugin("files")
        .plugin("exec")
        .file("etc/os-release", "ID=unittest\n")
        .file("etc/motd", "stock\n")
        .script("usr/share/holo/files/10-x/etc/motd.holoscript", "#!/bin/sh\nexit 7\n")
        .resource("files/10-x/etc/missing", "wanted\n")
        .resource("exec/01.toml", failing);
    for _ in 0..4 {
        let run = root.holo(&["apply"]);
        assert_eq!(run.status, Some(1), "{run}");
        assert!(!run.stdout_lossy().contains("exec:listens"), "{run}");
        assert!(!root.exists("var/lib/holo/state.db"), "{run}");
    }
}

const INFO_3: &str = r"info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=3\n' ;;";

/// Returns a root with a plugin with these operations, and one with two entities that report when they are applied.
fn beside(broken: &str, reports: &str) -> ScratchRoot {
    let works = format!(
        "{}\nscan) echo 'good scans' >&2; printf {reports} ;;
        check) echo 'would change: it' >&3 ;;\napply) echo \"applied $2\" ;;",
        info("")
    );
    root(&[("bad", broken), ("good", &works)]).resource("good/a", "")
}

/// The entities of most of these tests.
const TWO: &str = "'ENTITY: good:a\\nSOURCE: %s/a\\nENTITY: good:b\\n' \"$HOLO_RESOURCE_DIR\"";

/// Asserts that the first failure ends a run.
#[track_caller]
fn check_fatal(root: &ScratchRoot, arguments: &[&str], errors: &str) {
    let run = root.holo(arguments);
    assert_eq!(run.status, Some(255), "{arguments:?}: {run}");
    // No output follows the failure.
    assert_eq!((run.stderr_lossy().as_ref(), run.stdout_lossy().trim()), (errors, ""), "{arguments:?}");
    let run = root.holo(&[arguments, &["--json"]].concat());
    let last = serde_json::Value::from(errors.lines().last().unwrap().strip_prefix("!! ").unwrap());
    assert!(run.stdout_lossy().ends_with(&format!("\"exit_code\":255,\"error\":{last}}}\n")), "{run}");
    assert!(!run.stdout_lossy().contains("good scans"), "{run}");
}

/// Asserts that a run continues without the plugin.
#[track_caller]
fn check_goes_on(root: &ScratchRoot, arguments: &[&str], status: i32, errors: &str, stdout: &[&str]) {
    let run = root.holo(arguments);
    assert_eq!(run.status, Some(status), "{arguments:?}: {run}");
    let warning = ">> Continuing without plugin bad, which no selected entity needs";
    assert_eq!(run.stderr_lossy(), format!("{errors}{warning}\ngood scans\n"), "{arguments:?}: {run}");
    assert_eq!(lines(&run.stdout_lossy()), stdout, "{arguments:?}: {run}");
}

fn failed_scan_ends_only_runs_that_may_involve_its_plugin() {
    let fails = "scan) echo 'ENTITY: bad:x'; echo 'it burns' >&2; exit 4 ;;";
    let garbage = "scan) echo 'it burns' >&2; echo nonsense ;;";
    let messages = [
        (fails, "it burns\n!! scan with plugin bad failed: exit status 4\n"),
        (garbage, "it burns\n!! error in scan report of bad, line 1: parse error (line was \"nonsense\")\n"),
    ];
    for (scan, errors) in messages {
        for version in [INFO_3, &info("")] {
            let root = beside(&format!("{version}\n{scan}"), TWO);
            let folder = root.path().to_str().unwrap();
            let resource = format!("{folder}/usr/share/holo/good/a");
            for selection in [&[][..], &["bad"], &["bad:x"], &["nobody", "good:a"], &["good:a", "bad"]] {
                for verb in ["scan", "diff", "check", "apply", "graph"] {
                    check_fatal_of(&root, verb, selection, errors);
                }
            }
            for selector in ["good:a", &resource, &format!("{folder}/./usr/share/holo/good//a")] {
                check_goes_on(&root, &["scan", "-s", selector], 0, errors, &["good:a"]);
                check_goes_on(&root, &["diff", selector], 0, errors, &[]);
                check_goes_on(&root, &["check", selector], 3, errors, &["Working on good:a", "it"]);
                if version == INFO_3 {
                    let applied = ["Working on good:a", "applied good:a"];
                    check_goes_on(&root, &["apply", selector], 0, errors, &applied);
                } else {
                    // Its entities may subscribe to the changed ones.
                    check_fatal(&root, &["apply", selector], errors);
                }
            }
            check_goes_on(&root, &["scan", "-s", "good"], 0, errors, &["good:a", "good:b"]);
            check_fatal(&root, &["scan", "usr/share/holo/bad/x"], errors);
        }
    }
}

/// Like [`check_fatal`], but handles `graph`, which has no JSON.
#[track_caller]
fn check_fatal_of(root: &ScratchRoot, verb: &str, selection: &[&str], errors: &str) {
    let arguments = [&[verb], selection].concat();
    if verb != "graph" {
        return check_fatal(root, &arguments, errors);
    }
    let run = root.holo(&arguments);
    assert_eq!((run.status, run.stderr_lossy().as_ref()), (Some(255), errors), "{run}");
}

fn failed_info_ends_only_runs_that_may_involve_its_plugin() {
    let messages = [
        ("info) echo 'it burns' >&2; exit 7 ;;", "it burns\n!! info with plugin bad failed: exit status 7\n"),
        (
            r"info) printf 'MIN_API_VERSION=5\nMAX_API_VERSION=6\n' ;;",
            "!! plugin holo-bad is incompatible with this Holo (plugin min: 5, plugin max: 6, Holo: 3)\n",
        ),
    ];
    for (broken, errors) in messages {
        let root = beside(broken, TWO);
        // A failing generator comes too late, as before.
        for selection in [&[][..], &["bad"], &["bad:x"], &["nobody", "good:a"]] {
            for verb in ["scan", "diff", "check", "apply", "graph"] {
                check_fatal_of(&root, verb, selection, errors);
            }
        }
        check_goes_on(&root, &["scan", "-s", "good:a"], 0, errors, &["good:a"]);
        check_goes_on(&root, &["diff", "good"], 0, errors, &[]);
        check_goes_on(&root, &["apply", "--dry-run", "good:b"], 3, errors, &["Working on good:b", "it"]);
        // It failed before declaring that it has no subscriptions.
        check_fatal(&root, &["apply", "good:a"], errors);
        assert!(!root.exists("var/lib/holo/good"));
        let root = root.script("usr/share/holo/generators/g", "#!/bin/sh\nexit 1\n");
        check_fatal(&root, &["scan", "good:a"], errors);
    }
}

fn run_that_needs_an_entity_of_a_failed_plugin_ends() {
    let scan = "scan) exit 4 ;;";
    let fatal_verbs = |version: &str, edges: &str| -> Vec<&str> {
        let root = beside(&format!("{version}\n{scan}"), &format!("'ENTITY: good:a\\n{edges}ENTITY: good:b\\n'"));
        let mut verbs = vec!["scan", "diff", "check", "apply"];
        verbs.retain(|verb| root.holo(&[verb, "good:a"]).status == Some(255));
        verbs
    };
    assert_eq!(fatal_verbs(INFO_3, "AFTER: bad:x\\nSUBSCRIBES: bad:x\\nBEFORE: bad:x\\n"), [""; 0]);
    assert_eq!(fatal_verbs(INFO_3, "REQUIRES: bad:x\\n"), ["check", "apply"]);
    assert_eq!(fatal_verbs(INFO_3, "NOTIFIES: bad:x\\n"), ["apply"]);
    assert_eq!(fatal_verbs(INFO_3, "REQUIRES: good:b\\n"), [""; 0]);
    assert_eq!(fatal_verbs(INFO_3, "NOTIFIES: good:b\\n"), [""; 0]);
    assert_eq!(fatal_verbs(INFO_3, "ORPHAN: yes\\nOWNS: unit x\\n"), [""; 0]);
    assert_eq!(fatal_verbs(&info(""), "ORPHAN: yes\\nOWNS: unit x\\n"), ["check", "apply"]);
    assert_eq!(fatal_verbs(&info(""), "OWNS: unit x\\n"), ["apply"]);
}

fn generator_selector_may_involve_a_failed_plugin() {
    let generator = "#!/bin/sh\nfor plugin in $MAKES; do mkdir \"$OUT/$plugin\"; echo >\"$OUT/$plugin/a\"; done\n";
    for (makes, status) in [("good", 0), ("good bad", 255)] {
        let root = beside(&format!("{INFO_3}\nscan) exit 4 ;;"), TWO)
            .script("usr/share/holo/generators/g", generator.replace("$MAKES", makes));
        let generator = format!("{}/usr/share/holo/generators/g", root.path().display());
        assert_eq!(root.holo(&["scan", &generator]).status, Some(status));
        assert_eq!(root.holo(&["scan", &format!("{generator}::good/a")]).status, Some(0));
    }
}

fn state_of_a_failed_plugin_is_kept() {
    let listens = "scan) [ ! -e \"$HOLO_ROOT_DIR/etc/burns\" ] || exit 4; echo 'ENTITY: bad:x' ;;
        apply) [ -e \"$HOLO_ROOT_DIR/etc/ready\" ] && echo \"applied $2\" ;;";
    let root = beside(&format!("{INFO_3}\n{listens}"), "'ENTITY: good:a\\nNOTIFIES: bad:x\\nENTITY: good:b\\n'");
    assert_eq!(root.holo(&["apply"]).status, Some(1));
    assert!(due(&root).contains("bad:x"), "{}", due(&root));
    root.write("etc/burns", "");
    assert!(root.holo(&["apply", "good:b"]).success());
    assert!(due(&root).contains("bad:x"));
    std::fs::remove_file(root.join("etc/burns")).unwrap();
    root.write("etc/ready", "");
    assert!(root.holo(&["apply", "bad:x"]).success() && due(&root).is_empty());
}

fn cycle_blocks_only_entities_that_follow_it() {
    let root = scripts(&[
        ("a", "# AFTER: x:b\n"),
        ("b", "# REQUIRES: x:a\n"),
        ("c", "# BEFORE: x:a\n# NOTIFIES: x:b\necho c"),
        ("d", "# AFTER: x:b\n"),
        ("e", "# AFTER: x:d\n"),
        ("f", "# BEFORE: x:c\necho f"),
    ]);
    let cycle = "!! cycle, each waiting for the next: x:a → x:b (AFTER) → x:a (REQUIRES)\n";
    for selection in [&[][..], &["x"], &["x:a"], &["x:c", "x:d"], &["x:e"], &["x:c", "nobody"]] {
        for verb in ["scan", "diff", "check", "apply"] {
            check_fatal(&root, &[&[verb], selection].concat(), cycle);
        }
    }
    let warning = ">> Continuing, because no selected entity is in the cycle or depends on it\n";
    let run = root.holo(&["apply", "x:c", "x:f"]);
    assert_eq!(run.stderr_lossy(), format!("{cycle}{warning}"), "{run}");
    assert_eq!(stdout_lines(&run), ["Working on x:f", "f", "Working on x:c", "c"]);
    // A refresh that is blocked for now must not be forgotten.
    assert!(due(&root).contains("x:b"));
    for verb in ["scan", "diff", "check", "graph"] {
        let run = root.holo(&[verb, "x:c"]);
        assert_eq!(run.stderr_lossy(), format!("{cycle}{warning}"), "{run}");
    }
}

fn difference_uses_the_labels_of_the_plugin() {
    let operations = r#"scan) echo 'ENTITY: x:a' ;;
        check | apply) echo 'requires --force to overwrite' >&3 ;;
        diff) cd "$HOLO_CACHE_DIR"; echo old >old; printf '%s/old\0%s/etc/a\0LABELS\0' "$PWD" "$HOLO_ROOT_DIR" >&3 ;;"#;
    let session = r#"session) n=0; cd "$HOLO_CACHE_DIR"; echo old >old; while read -r request; do n=$((n + 1))
        case $request in
        *'"scan"'*) printf '{"answer":"report","request":%s,"text":"ENTITY: x:a\\n"}\n' $n ;;
        *) printf '{"answer":"diff","request":%s,"entity":"x:a","from":"%s/old","to":"%s/etc/a"LABELS}\n' $n "$PWD" "$HOLO_ROOT_DIR"
            printf '{"answer":"result","request":%s,"entity":"x:a","messages":["requires --force to overwrite"],"result":"done"}\n' $n ;;
        esac >&3; printf '{"answer":"end","request":%s,"result":"done"}\n' $n >&3; done ;;"#;

    let by_process = |info: &str, labels: &str| format!("{info}\n{}", operations.replace("LABELS", labels));
    let by_session = |labels: &str| format!("{}\n{}", info("SESSION=1\\n"), session.replace("LABELS", labels));
    let (old, new) = ("CACHE/x/old", "ROOT/etc/a");
    for (plugin, from, to) in [
        (by_process(&info(""), r"x:a (old)\0x:a (new)"), "x:a (old)", "x:a (new)"),
        (by_process(&info(""), r"x:a (old)\0"), "x:a (old)", new),
        (by_process(&info(""), r"\0x:a (new)"), old, "x:a (new)"),
        // Neither additional lines nor control sequences get through.
        (by_process(&info(""), r"x\n+y\033[2J\0z\0and more"), "x\u{fffd}+y\u{fffd}[2J", "z"),
        // Labels come in pairs.
        (by_process(&info(""), "half"), old, new),
        (by_process(INFO_3, r"x:a (old)\0x:a (new)"), old, new),
        (by_session(r#","from_label":"x:a (old)","to_label":"x\\n:a""#), "x:a (old)", "x\u{fffd}:a"),
        (by_session(r#","to_label":"x:a (new)""#), old, "x:a (new)"),
        (by_session(r#","from_label":"""#), old, new),
    ] {
        let root = root(&[("x", &plugin)]).file("etc/a", "new\n");
        let shown = |arguments: &[&str]| {
            let text = root.holo(arguments).stdout_lossy().replace(root.path().to_str().unwrap(), "ROOT");
            // Labels contain no paths of the cache directory; where such a path is shown, it differs in each run.
            match text.split_once("ROOT/tmp/holo.") {
                Some((_, rest)) => {
                    let number: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
                    text.replace(&format!("ROOT/tmp/holo.{number}"), "CACHE")
                }
                None => text,
            }
        };
        let difference = format!("diff --holo {from} {to}\n--- {from}\n+++ {to}\n@@ -1 +1 @@\n-old\n+new\n");
        assert_eq!(shown(&["diff"]), difference, "{plugin}");
        let indented: String = difference.lines().map(|line| format!("    {line}\n")).collect();
        assert!(shown(&["apply"]).ends_with(&format!("\n\n{indented}\n")), "{plugin}\n{}", shown(&["apply"]));
        let in_json = serde_json::to_string(&difference).unwrap();
        assert!(shown(&["diff", "--json"]).contains(&in_json), "{plugin}\n{}", shown(&["diff", "--json"]));
    }
}

fn due_refresh_is_handed_to_the_successor() {
    let a = sender("a", "send: MODE=new\\n");
    let owner = format!("# OWNS: unit x\n{LISTENER}");
    let root = scripts(&[("a", &a), ("old", &owner)]).file("etc/broken", "");
    assert_eq!(root.holo(&["apply"]).status, Some(1));
    std::fs::remove_file(root.join("etc/broken")).unwrap();
    // The entity is renamed, and the old one is an orphan.
    root.write("usr/share/holo/x/renamed", &owner);
    root.write("usr/share/holo/x/old", "# ORPHAN: yes\n# OWNS: unit x\necho \"old ${HOLO_REFRESH-}\"\n");
    let run = root.holo(&["check", "x:renamed"]);
    assert!(run.stderr_lossy().contains(">> Would be refreshed"), "{run}");
    // While it is not selected, the refresh stays due.
    let run = root.holo(&["apply", "x:a"]);
    assert!(run.success() && run.stdout.is_empty(), "{run}");
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stdout_lossy().contains("received: MODE=new "), "{run}");
    assert!(!run.stdout_lossy().contains("old 1"), "{run}");
    assert!(due(&root).is_empty());
    assert!(!root.holo(&["apply"]).stdout_lossy().contains("received"));
}
