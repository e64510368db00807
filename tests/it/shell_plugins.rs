//! Cases beyond scenarios: plugins with hangs and excessive output, signals, closed streams, unprivileged users, and a
//! plugin of ours called directly like by version 3.

use bstr::{BString, ByteSlice};
use holo_process::{Event, Process, Program, Status};
use holo_testing::processes::send;
use holo_testing::{Need, Run, ScratchRoot, binaries::built, copy_program, trial};
use libtest_mimic::{Failed, Trial};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time limit of each test, far less than the minute for which a broken plugin leaves a process running.
const PATIENCE: Duration = Duration::from_secs(40);
/// The exit codes listed in `holo(8)`, except those of signals.
const EXIT_CODES: [i32; 4] = [0, 1, 2, 255];

/// A named test function.
type Case = (&'static str, fn() -> Result<(), Failed>);

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = FAULTS.iter().map(Fault::trial).collect();
    trials.extend(held_open());
    trials.extend(signals());
    trials.extend(locks());
    trials.push(Trial::test("limits/slow_entity_fails_alone", limits));
    trials.push(Trial::test("limits/before_the_first_entity", limits_of_the_beginning));
    trials.push(Trial::test("limits/endless_output", endless_output));
    trials.extend(streams());
    trials.extend(unprivileged());
    trials.extend(by_hand());
    trials.push(Trial::test("no_interpreter/plugin_generator_and_holoscript", no_interpreter));
    trials.push(trial("python/a_life", &[Need::Program("python3")], a_life_in_python));
    trials
}

/// Programs whose output never ends are ended, with an error that names them, and the dispatcher does not grow.
fn endless_output() -> Result<(), Failed> {
    let scan = "scan) echo 'ENTITY: demo:x' ;;";
    let is_ended = "ended because it wrote more than 64 MiB";
    for (operations, verb, status, error) in [
        (
            "scan) yes 'ENTITY: demo:x' ;;",
            "scan",
            255,
            "scan with plugin demo failed: ended because it wrote more than 256 MiB",
        ),
        (&format!("{scan}\napply) yes $(printf %01000d 0) >&2 ;;"), "apply", 1, is_ended),
        (&format!("{scan}\napply) yes $(printf %01000d 0) >&3 ;;"), "apply", 1, is_ended),
        (&format!("{scan}\ndiff) yes | tr -d '\\n' ;;"), "diff", 1, is_ended),
    ] {
        let root = root_of(operations);
        let limited = format!("ulimit -v 1500000; exec {} {verb} >out 2>err", built("holo").display());
        let run = root.run("sh", &["-c", &limited]);
        let said = [root.read("out"), root.read("err")].concat();
        let end = said[said.len().saturating_sub(2000)..].as_bstr();
        ensure(
            run.status == Some(status) && said.contains_str(error),
            &format!("{verb}: should end, not {end:?}"),
            &run,
        )?;
    }
    let root = ScratchRoot::new()
        .holorc("plugin demo\n")
        .script("usr/lib/holo/holo-demo", "#!/bin/sh\nyes MIN_API_VERSION=3\n")
        .time_limit(PATIENCE);
    let run = root.holo(&["scan"]);
    let error = format!("!! info with plugin demo failed: {is_ended}");
    ensure(run.status == Some(255) && run.stderr.contains_str(&error), "info should end", &run)?;
    let root = root_of(&format!("{scan}\napply) seq 1000 ;;"));
    for (limit, status) in [("1 KiB", 1), ("1 MiB", 0)] {
        root.write("etc/holo/engine.toml", format!("[limits]\noutput = \"{limit}\"\n"));
        let run = root.holo(&["apply"]);
        let is_ended = run.stderr.contains_str("ended because it wrote more than 1024 bytes; [limits] in");
        ensure(run.status == Some(status) && is_ended == (status == 1), &format!("the limit should be {limit}"), &run)?;
    }
    let root = root_of(scan).script("usr/share/holo/generators/10-endless", "#!/bin/sh\nyes | tr -d '\\n'\n");
    let run = root.run(
        "sh",
        &["-c", &format!("{} scan 2>err; status=$?; tail -c 200 err; exit $status", built("holo").display())],
    );
    ensure(run.status == Some(1) && run.stdout.contains_str(is_ended), "the generator should end", &run)
}

/// Returns a root with one of the shell plugins.
fn root_with(plugin: &str) -> ScratchRoot {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("test-scenarios/plugins").join(plugin);
    ScratchRoot::new()
        .holorc(format!("plugin {plugin}={}\n", program.display()))
        .dir(format!("usr/share/holo/{plugin}"))
        .time_limit(PATIENCE)
}

/// Returns a root with a plugin `demo`, given the branches of a `case` over the operation.
fn root_of(operations: &str) -> ScratchRoot {
    let info = r"info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=3\n' ;;";
    ScratchRoot::new()
        .holorc("plugin demo\n")
        .script("usr/lib/holo/holo-demo", format!("#!/bin/sh\ncase $1 in\n{info}\n{operations}\nesac\n"))
        .dir("usr/share/holo/demo")
        .time_limit(PATIENCE)
}

/// Fails with the details of the run unless the condition holds.
fn ensure(holds: bool, what: &str, run: &Run) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(format!("{what}\n{run}").into()) }
}

/// Returns true if neither the lock nor a cache directory is left.
fn is_clean(root: &ScratchRoot) -> bool {
    fs::read_dir(root.join("tmp")).unwrap().count() == 0 && !root.exists("run/holo.pid")
}

/// Returns the processes of the plugin `broken`, and those that it has left behind.
fn left_behind(root: &ScratchRoot) -> Vec<Pid> {
    let list = if root.exists("run/left-behind") { root.read("run/left-behind") } else { BString::default() };
    list.to_str_lossy().lines().map(|number| Pid::from_raw(number.parse().unwrap()).unwrap()).collect()
}

/// A zombie counts as gone: in a container whose first process does not reap children, it stays.
fn is_gone(process: Pid) -> bool {
    !holo_testing::processes::is_running(process.as_raw_nonzero().get().unsigned_abs())
}

// The faults of the plugin `broken`.

/// A fault, and the expected behaviour of holo.
struct Fault {
    /// The name of the fault, as the plugin knows it.
    name: &'static str,
    verb: &'static str,
    status: i32,
    /// Expected output on either stream; any output is accepted if empty.
    says: &'static str,
}

const fn fault(name: &'static str, verb: &'static str, status: i32, says: &'static str) -> Fault {
    Fault { name, verb, status, says }
}

const FAULTS: [Fault; 39] = [
    fault("bad-version", "scan", 255, "incompatible with this Holo (plugin min: 1, plugin max: 2, "),
    fault("future-version", "scan", 255, "incompatible with this Holo (plugin min: 99, plugin max: 100, "),
    fault("empty-info", "scan", 255, "!! info with plugin broken failed: "),
    fault("words-in-info", "scan", 255, "MIN_API_VERSION=three"),
    fault("half-info", "scan", 255, "MAX_API_VERSION"),
    fault("garbage-info", "scan", 255, "!! info with plugin broken failed: "),
    fault("megabyte-in-info", "scan", 255, "!! info with plugin broken failed: "),
    fault("failing-info", "scan", 255, "!! info with plugin broken failed: exit status 9"),
    fault("killed-info", "scan", 255, "!! info with plugin broken failed: signal: segmentation fault"),
    fault("garbage-report", "scan", 255, "line 1: expected entity ID, found attribute \"no entity yet: x\""),
    fault("garbage-report", "scan", 255, "line 2: parse error (line was \"ENTITY broken\")"),
    fault("megabyte-line", "scan", 255, "line 1: parse error (line was \"xxx"),
    fault("failing-scan", "scan", 255, "!! scan with plugin broken failed: exit status 9"),
    fault("killed-scan", "scan", 255, "!! scan with plugin broken failed: signal: aborted"),
    fault("held-scan", "scan", 0, "broken:held"),
    fault("nul-report", "scan", 0, ""),
    // Arguments cannot contain NUL.
    fault("nul-report", "apply", 1, "!! "),
    fault("nul-report", "diff", 1, "!! cannot diff "),
    fault("dies", "apply", 1, "!! signal: killed"),
    fault("segfaults", "apply", 1, "!! signal: segmentation fault"),
    fault("fails-unchanged", "apply", 1, "!! exit status 9"),
    fault("megabyte-on-stderr", "apply", 0, "Working on broken:megabyte-on-stderr\n"),
    fault("megabyte-on-stdout", "apply", 0, "Working on broken:megabyte-on-stdout\n"),
    fault("no-newline", "apply", 0, "no newline\n\n"),
    fault("garbage-on-3", "apply", 0, "Working on broken:garbage-on-3\n"),
    fault("megabyte-on-3", "apply", 0, "Working on broken:megabyte-on-3\n"),
    fault("all-messages", "apply", 1, "--force to restore"),
    fault("closes-everything", "apply", 0, "Working on broken:closes-everything\n"),
    fault("held-3", "apply", 0, "has left a process behind that holds its file descriptor 3 open"),
    fault("held-stdout", "apply", 0, "has left a process behind that holds its standard output open"),
    fault("held-stderr", "apply", 0, "has left a process behind that holds its standard error open"),
    fault("failing-diff", "diff", 1, "!! cannot diff broken:entity: exit status 9"),
    fault("one-path", "diff", 0, ""),
    fault("long-path", "diff", 1, "!! cannot diff broken:entity: "),
    fault("device", "diff", 1, "!! cannot diff broken:entity: file /dev/zero has wrong file type"),
    fault("held-diff", "diff", 0, ""),
    fault("no-exec-bit", "scan", 255, "/holo-broken: permission denied"),
    fault("no-interpreter", "scan", 255, "/holo-broken: no such file or directory"),
    fault("directory", "scan", 255, "/holo-broken: permission denied"),
];

impl Fault {
    fn trial(&'static self) -> Trial {
        let Fault { name, verb, says, .. } = self;
        let says: String = says.chars().filter(|letter| letter.is_alphanumeric()).take(12).collect();
        Trial::test(format!("broken/{verb}/{name}/{says}"), || self.try_it())
    }

    fn root(&self) -> ScratchRoot {
        let usual = "usr/lib/holo/holo-broken";
        let by_path = || ScratchRoot::new().holorc("plugin broken\n").dir("usr/share/holo/broken").time_limit(PATIENCE);
        match self.name {
            "no-exec-bit" => by_path().file(usual, "#!/bin/sh\n"),
            "no-interpreter" => by_path().script(usual, "#!/no/such/interpreter\n"),
            "directory" => by_path().dir(usual),
            name if self.verb == "apply" && name != "nul-report" => {
                root_with("broken").resource(format!("broken/{name}"), "")
            }
            name => root_with("broken").resource("broken/entity", "").file("etc/broken", name),
        }
    }

    fn try_it(&self) -> Result<(), Failed> {
        let root = self.root();
        let start = Instant::now();
        let run = root.holo(&[self.verb]);
        let took = start.elapsed();
        for process in left_behind(&root) {
            // It may have ended.
            let _ = kill_process(process, Signal::KILL);
        }
        ensure(took < PATIENCE, &format!("took {took:?}"), &run)?;
        ensure(run.status == Some(self.status), &format!("should exit with {}", self.status), &run)?;
        ensure(EXIT_CODES.contains(&self.status), "no documented exit code", &run)?;
        ensure(!run.stderr.contains_str("panicked"), "panicked", &run)?;
        let says = run.stdout.contains_str(self.says) || run.stderr.contains_str(self.says);
        ensure(says, &format!("should say: {}", self.says), &run)?;
        ensure(is_clean(&root), "left something behind", &run)?;
        match self.name {
            "megabyte-on-stderr" => ensure(count(&run.stderr, b'e') == 1 << 20, "something is lost", &run),
            "megabyte-on-stdout" => ensure(count(&run.stdout, b'o') >= 1 << 20, "something is lost", &run),
            _ => Ok(()),
        }
    }
}

fn count(text: &[u8], letter: u8) -> usize {
    text.iter().filter(|&&byte| byte == letter).count()
}

/// Generators and holoscripts can leave processes behind as well.
fn held_open() -> Vec<Trial> {
    let linger = "sleep 60 &\necho $! >>\"$HOLO_ROOT_DIR/run/left-behind\"\n";
    let generator = Trial::test("held_open/generator", move || {
        let path = "usr/share/holo/generators/10-lingers";
        let root = root_with("well-behaved").script(path, format!("#!/bin/sh\n{linger}echo made\n"));
        ends_in_time(&root, "scan", "10-lingers: made\n")
    });
    let holoscript = Trial::test("held_open/holoscript", move || {
        let root = ScratchRoot::new()
            .plugin("files")
            .file("etc/os-release", "ID=unittest\n")
            .file("etc/motd", "stock\n")
            .script("usr/share/holo/files/10-ours/etc/motd.holoscript", format!("#!/bin/sh\n{linger}echo made\n"))
            .time_limit(PATIENCE);
        ends_in_time(&root, "apply", "file:/etc/motd\n")?;
        if root.read("etc/motd") == "made\n" { Ok(()) } else { Err("nothing was applied".into()) }
    });
    vec![generator, holoscript]
}

fn ends_in_time(root: &ScratchRoot, verb: &str, says: &str) -> Result<(), Failed> {
    let run = root.holo(&[verb]);
    for process in left_behind(root) {
        let _ = kill_process(process, Signal::KILL);
    }
    let says = run.stdout.contains_str(says) || run.stderr.contains_str(says);
    ensure(run.success() && says && is_clean(root), "should end well", &run)
}

// Signals.

fn signals() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        trials.push(Trial::test(format!("signals/apply/{code}"), move || {
            interrupted(&root_with("broken").resource("broken/stays", ""), "apply", signal, code)
        }));
        trials.push(Trial::test(format!("signals/scan/{code}"), move || {
            interrupted(&root_with("broken").file("etc/broken", "staying-scan"), "scan", signal, code)
        }));
    }
    trials.push(Trial::test("signals/a_child_that_ignores_it_is_killed", || {
        interrupted(&root_with("broken").resource("broken/stays-stubbornly", ""), "apply", Signal::TERM, 143)
    }));
    trials.push(Trial::test("signals/what_must_not_be_cut_off_is_waited_for", || {
        // Longer than the grace period of processes that may be killed.
        let plugin = "#!/bin/sh\ncase $1 in\ninfo) printf 'MIN_API_VERSION=3\\nMAX_API_VERSION=4\\n' ;;\nscan) echo 'ENTITY: slow:x' ;;\n\
                      apply) trap '' TERM; exec 9>\"$HOLO_CACHE_DIR/uninterrupted\"; flock 9\n\
                      echo $$ >\"$HOLO_ROOT_DIR/run/left-behind\"; sleep 6; echo is whole ;;\nesac\n";
        let root = ScratchRoot::new().binary(built("holo")).script("usr/lib/holo/holo-slow", plugin);
        let holorc = format!("plugin slow={}\n", root.path().join("usr/lib/holo/holo-slow").display());
        let root = root.holorc(holorc).file("etc/os-release", "ID=unittest\n").dir("run").dir("usr/share/holo/slow");
        let output = interrupted_output(&root, "apply", Signal::TERM, 143)?;
        if output.contains_str("is whole") { Ok(()) } else { Err(output.to_string().into()) }
    }));
    trials.push(Trial::test("signals/generator", || {
        let generator = "#!/bin/sh\necho $$ >\"$HOLO_ROOT_DIR/run/left-behind\"\nexec sleep 60\n";
        let root = root_with("well-behaved").script("usr/share/holo/generators/10-stays", generator);
        interrupted(&root, "scan", Signal::INT, 130)
    }));
    trials.push(Trial::test("signals/a_refresh_is_not_lost", a_refresh_is_interrupted));
    trials.push(Trial::test("signals/what_is_ignored_stays_ignored", ignored_signals_stay_ignored));
    trials.push(Trial::test("signals/nothing_is_begun_afterwards", || {
        let root = root_with("broken").resource("broken/stays", "").resource("broken/zzz", "");
        let output = interrupted_output(&root, "apply", Signal::TERM, 143)?;
        if output.contains_str("broken:zzz") { Err(output.to_string().into()) } else { Ok(()) }
    }));
    trials
}

/// Like under nohup(1), or in the background of a script.
fn ignored_signals_stay_ignored() -> Result<(), Failed> {
    let root =
        root_of("scan) echo 'ENTITY: demo:a' ;;\napply) kill -HUP $PPID; kill -INT $PPID; sleep 0.2; echo done ;;");
    for (trap, status) in [("trap '' HUP INT; ", Some(0)), ("trap '' INT; ", Some(129)), ("trap '' HUP; ", Some(130))] {
        let run = shell(&root, &format!("{trap}exec \"$0\" apply"));
        ensure(run.status == status, &format!("{trap}should end with {status:?}"), &run)?;
        ensure(is_clean(&root), "should leave nothing behind", &run)?;
    }
    Ok(())
}

/// A refresh is interrupted: the next run does exactly this refresh, once.
fn a_refresh_is_interrupted() -> Result<(), Failed> {
    let script =
        "# subscribes file:/etc/a\ncd \"$HOLO_ROOT_DIR\"\necho refreshed >>etc/count\n[ ! -e etc/patience ] || exit 0
        sleep 60 & printf '%s\\n' $$ $! >run/left-behind; wait\n";
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("test-scenarios/plugins/hooks");
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .holorc(format!("plugin files\nplugin hooks={}\n", hooks.display()))
        .file("etc/os-release", "ID=unittest\n")
        .file("etc/a", "stock\n")
        .resource("files/10-ours/etc/a", "ours\n")
        .resource("hooks/reload", script)
        .time_limit(PATIENCE);
    interrupted(&root, "apply", Signal::INT, 130)?;
    let due = || root.holo(&["state", "export"]).stdout.contains_str("\"table\":\"refresh\"");
    if root.read("etc/a") != "ours\n" || !due() {
        return Err("the file was not changed, or the refresh is forgotten".into());
    }
    fs::remove_file(root.join("run/left-behind")).unwrap();
    root.write("etc/patience", "");
    let run = root.holo(&["apply"]);
    ensure(run.success() && run.stdout.contains_str("Working on hook:reload\n"), "the refresh should be done", &run)?;
    ensure(!run.stdout.contains_str("file:/etc/a"), "nothing else should be", &run)?;
    ensure(!due(), "the refresh should be struck out", &run)?;
    let run = root.holo(&["apply"]);
    ensure(run.success() && run.stdout.is_empty() && run.stderr.is_empty(), "there is nothing more to do", &run)?;
    // Interrupted once, and completed once.
    ensure(root.read("etc/count") == "refreshed\nrefreshed\n", "it should have been done once", &run)
}

/// All features of version 3, with a plugin that is neither ours nor a shell script.
fn a_life_in_python() -> Result<(), Failed> {
    let root = root_with("in-python")
        .file("usr/share/holo/in-python/a", "one\n")
        .file("usr/share/holo/in-python/b", "two\n")
        // Python starts slowly, and is started often.
        .time_limit(4 * PATIENCE);
    let expect = |arguments: &[&str], status: i32, stdout: &str, stderr: &str| {
        let run = root.holo(arguments);
        let shown = |text: &[u8]| text.replace(root.path().to_str().unwrap(), "ROOT");
        let is_right = run.status == Some(status) && shown(&run.stdout) == stdout.as_bytes() && run.stderr == stderr;
        ensure(
            is_right && is_clean(&root),
            &format!("after {arguments:?}, expected {status}, {stdout:?} and {stderr:?}"),
            &run,
        )
    };
    let report = |name: &str| format!("line from ROOT/usr/share/holo/in-python/{name}\nwritten to ROOT/etc/{name}\n\n");
    let working = |name: &str| format!("Working on line:{name}\n {}", report(name));
    expect(&["scan", "-s"], 0, "line:a\nline:b\n", "")?;
    expect(&["apply"], 0, &format!("\n{}{}", working("a"), working("b")), "")?;
    expect(&["apply"], 0, "", "")?;
    root.write("etc/a", "mine\n");
    let difference = "diff --holo ROOT/var/lib/holo/in-python/a ROOT/etc/a\n--- ROOT/var/lib/holo/in-python/a\n+++ ROOT/etc/a\n@@ -1 +1 @@\n-one\n+mine\n";
    expect(&["diff"], 0, difference, "")?;
    let indented: String = difference.lines().map(|line| format!("    {line}\n")).collect();
    let refusal = "!! Entity has been modified by user (use --force to overwrite)\n";
    expect(&["apply"], 1, &format!("\n{}\n{indented}\n", working("a")), refusal)?;
    expect(&["check"], 3, &format!("\n{}{indented}\n", working("a")), "")?;
    expect(&["check", "line:b"], 0, "", "")?;
    expect(&["apply", "--force", "line:a"], 0, &format!("\n{}", working("a")), "")?;
    fs::remove_file(root.join("usr/share/holo/in-python/b")).unwrap();
    expect(&["apply"], 0, "\nScrubbing line:b (no resource file any more)\nwritten to ROOT/etc/b\n\n", "")?;
    expect(&["scan", "-s"], 0, "line:a\n", "")?;
    if root.exists("etc/b") || root.read("etc/a") != "one\n" {
        return Err("the files are not what they should be".into());
    }
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("test-scenarios/plugins/in-python");
    let run = root.holo(&["plugin", "check", program.to_str().unwrap()]);
    ensure(run.success() && run.stdout.contains_str(" passed, 0 failed, 0 warnings"), "it keeps to the interface", &run)
}

fn interrupted(root: &ScratchRoot, verb: &str, signal: Signal, code: i32) -> Result<(), Failed> {
    interrupted_output(root, verb, signal, code).map(drop)
}

/// Starts holo, sends it the signal once its child is running, and checks that no processes or files are left.
fn interrupted_output(root: &ScratchRoot, verb: &str, signal: Signal, code: i32) -> Result<BString, Failed> {
    let output = File::create(root.join("output")).unwrap();
    let mut holo = holo(root, &[verb]).stdout_file(output.try_clone().unwrap()).stderr_file(output).start().unwrap();
    let ended = wait_until(|| !left_behind(root).is_empty())
        .then(|| send(holo.id(), signal))
        .and_then(|()| wait_for(&mut holo));
    let children_are_gone = wait_until(|| left_behind(root).into_iter().all(is_gone));
    // Whatever failed, kill the processes of this test.
    drop(holo);
    for child in left_behind(root) {
        let _ = kill_process(child, Signal::KILL);
    }
    let output = root.read("output");
    if ended != Some(code) {
        return Err(format!("should exit with {code}, but: {ended:?}\n{output}").into());
    }
    if !children_are_gone {
        return Err(format!("the child is still there\n{output}").into());
    }
    if !is_clean(root) || output.contains_str("panicked") {
        return Err(format!("the lock, the cache directory or a panic is left\n{output}").into());
    }
    if !output.contains_str("!! Interrupted while ") || !output.contains_str(" was at work\n") {
        return Err(format!("should say what was at work\n{output}").into());
    }
    Ok(output)
}

/// Returns holo as a program on this root, for tests that watch it while it runs, unlike [`ScratchRoot::holo`].
fn holo(root: &ScratchRoot, arguments: &[&str]) -> Program {
    let mut holo = Program::new(built("holo"));
    holo.args(arguments).current_dir(root.path());
    holo.env("HOLO_ROOT_DIR", root.path()).env("TMPDIR", root.join("tmp")).env_remove("HOLO_EXIT_ZERO");
    holo
}

fn wait_until(mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Returns the exit code, if it ends in time by itself.
pub(crate) fn wait_for(process: &mut Process) -> Option<i32> {
    let (begun, mut status) = (Instant::now(), None);
    while status.is_none() && begun.elapsed() < PATIENCE {
        let waited = process.wait(None, &mut |event| {
            if let Event::Ended(exit) = event {
                status = Some(exit.status);
            }
        });
        waited.unwrap();
    }
    status.and_then(Status::code)
}

/// Each operation has a time limit, and all processes of a late one are ended.
fn limits() -> Result<(), Failed> {
    let root = root_of(
        r#"
scan) for name in a b c; do echo "ENTITY: demo:$name"; done ;;
apply) cd "$HOLO_ROOT_DIR"
    case $2 in
    demo:a) sleep 60 & echo $! $$ | tr ' ' '\n' >run/left-behind; wait ;;
    demo:b) trap '' TERM; exec >&- 2>&- 3>&-; while :; do sleep 1; done ;;
    demo:c) echo half; sleep 0.1; echo done >&2 ;;
    esac ;;
"#,
    );
    let root = root.env("HOLO_TIMEOUT", "3s");
    let began = Instant::now();
    let run = root.holo(&["apply"]);
    ensure(run.status == Some(1) && began.elapsed() < PATIENCE, "should fail in time", &run)?;
    let errors: Vec<&[u8]> = run.stderr.lines().collect();
    ensure(errors == [&b"!! timed out after 3s"[..], b"!! timed out after 3s", b"done"], "two should fail", &run)?;
    let gone = left_behind(&root).into_iter().all(|child| wait_until(|| is_gone(child)));
    ensure(gone && is_clean(&root), "nothing should be left", &run)?;
    let run = root.env("HOLO_TIMEOUT", "2").holo(&["scan"]);
    ensure(
        run.status == Some(255) && run.stderr == "!! HOLO_TIMEOUT: a duration needs a unit, as in 2s, 2m or 2h\n",
        "no unit",
        &run,
    )
}

fn limits_of_the_beginning() -> Result<(), Failed> {
    let scan = root_with("broken").file("etc/broken", "staying-scan");
    let generator = "usr/share/holo/generators/10-stays";
    let generator = root_with("well-behaved").script(generator, "#!/bin/sh\nexec sleep 60\n");
    let info = ScratchRoot::new()
        .holorc("plugin demo\n")
        .script("usr/lib/holo/holo-demo", "#!/bin/sh\nexec sleep 60\n")
        .dir("usr/share/holo/demo");
    for (root, status, says) in [
        (scan, 255, "!! scan with plugin broken failed: timed out after 3s\n"),
        (generator, 1, "10-stays: timed out after 3s\n"),
        (info, 255, "!! info with plugin demo failed: timed out after 3s\n"),
    ] {
        let run = root.env("HOLO_TIMEOUT", "3s").time_limit(PATIENCE).holo(&["scan"]);
        ensure(
            run.status == Some(status) && run.stderr.ends_with(says.as_bytes()),
            &format!("should say {says}"),
            &run,
        )?;
    }
    Ok(())
}

/// A script without an interpreter line is run by the shell.
fn no_interpreter() -> Result<(), Failed> {
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .plugin("files")
        .file("etc/os-release", "ID=unittest\n")
        .file("etc/motd", "stock\n")
        .script("usr/share/holo/files/10-ours/etc/motd.holoscript", "cat; echo more\n")
        .script("usr/share/holo/generators/10-plain", "mkdir -p \"$OUT/demo\"; : >\"$OUT/demo/a\"; echo made\n")
        .dir("usr/share/holo/demo")
        .script(
            "demo",
            "case $1 in info) printf 'MIN_API_VERSION=3\\nMAX_API_VERSION=3\\n' ;;\n\
             scan) for file in \"$HOLO_RESOURCE_DIR\"/*; do echo \"ENTITY: demo:${file##*/}\"; done ;;\n\
             apply) echo \"done $2\" ;; esac\n",
        );
    let holorc = format!("{}plugin demo={}\n", root.read("etc/holorc"), root.join("demo").display());
    let root = root.holorc(holorc);
    let run = root.holo(&["apply"]);
    ensure(run.success() && run.stderr.ends_with(b"10-plain: made\n"), "should apply", &run)?;
    ensure(run.stdout.contains_str("done demo:a\n") && root.read("etc/motd") == "stock\nmore\n", "all should run", &run)
}

// Locks.

fn locks() -> Vec<Trial> {
    let cases: [Case; 5] = [
        ("second_apply_is_refused", second_apply_is_refused),
        ("left_by_a_killed_apply", left_by_a_killed_apply),
        ("plugins_of_a_killed_apply_are_waited_for", survivors_are_waited_for),
        ("plugins_of_a_killed_apply_are_not_waited_for_without_end", survivors_are_named),
        ("programs_of_a_killed_plugin_are_waited_for", programs_of_survivors_are_waited_for),
    ];
    let mut trials: Vec<Trial> =
        cases.into_iter().map(|(name, test)| Trial::test(format!("locks/{name}"), test)).collect();
    let container = [Need::Root, Need::Program("unshare")];
    trials.push(trial("locks/process_1_of_a_container_is_ourselves", &container, own_number_is_no_obstacle));
    trials.push(trial("locks/daemons_are_not_waited_for", &[Need::Program("setsid")], daemons_are_not_waited_for));
    trials.push(trial("locks/whose_number_it_is_by_now", &[Need::Program("sleep")], numbers_are_given_again));
    trials
}

/// Starts an apply that keeps running, calls `act`, and ends the apply with the signal.
fn beside_an_apply(root: &ScratchRoot, signal: Signal, act: impl FnOnce() -> Result<(), Failed>) -> Result<(), Failed> {
    let mut holo = holo(root, &["apply"]).start().unwrap();
    let done =
        if wait_until(|| !left_behind(root).is_empty()) { act() } else { Err("the apply does not begin".into()) };
    send(holo.id(), signal);
    wait_for(&mut holo);
    for child in left_behind(root) {
        let _ = kill_process(child, Signal::KILL);
    }
    done
}

fn second_apply_is_refused() -> Result<(), Failed> {
    let root = root_with("broken").resource("broken/stays", "");
    beside_an_apply(&root, Signal::TERM, || {
        let run = root.holo(&["apply"]);
        ensure(run.status == Some(255), "should be refused", &run)?;
        ensure(run.stderr.contains_str("/run/holo.pid: file exists\nThis usually means"), "should say why", &run)?;
        ensure(root.exists("run/holo.pid"), "the lock is another's", &run)?;
        let run = root.holo(&["scan"]);
        ensure(run.success(), "a scan should need no lock", &run)
    })?;
    if root.exists("run/holo.pid") { Err("the lock is left".into()) } else { Ok(()) }
}

fn left_by_a_killed_apply() -> Result<(), Failed> {
    let root = root_with("broken").resource("broken/stays", "");
    beside_an_apply(&root, Signal::KILL, || Ok(()))?;
    assert!(root.exists("run/holo.pid"));
    fs::remove_file(root.join("usr/share/holo/broken/stays")).unwrap();
    let run = root.holo(&["apply"]);
    ensure(run.success() && run.stderr.starts_with(b">> "), "should take the lock over with a warning", &run)?;
    ensure(!root.exists("run/holo.pid"), "should give the lock back", &run)
}

/// Logs the beginning and the end of each operation, and outlives a killed apply.
const WORKS: &str = r#"
scan) echo 'ENTITY: demo:a'; echo 'ENTITY: demo:b' ;;
apply) cd "$HOLO_ROOT_DIR"
    echo "begin $2" >>etc/log; echo $$ >>run/left-behind; sleep 2; echo "end $2" >>etc/log ;;
"#;

/// Starts an apply, and kills it when a plugin or program has written its process ID.
fn kill_apply(root: &ScratchRoot) -> Result<(), Failed> {
    let mut holo = holo(root, &["apply"]).start().unwrap();
    let has_begun = wait_until(|| !left_behind(root).is_empty());
    send(holo.id(), Signal::KILL);
    wait_for(&mut holo);
    if has_begun { Ok(()) } else { Err("the apply does not begin".into()) }
}

fn survivors_are_waited_for() -> Result<(), Failed> {
    let root = root_of(WORKS);
    kill_apply(&root)?;
    let run = root.holo(&["apply"]);
    ensure(run.success(), "should apply in the end", &run)?;
    let says = run.stderr.starts_with(b">> Waiting: process ")
        && run.stderr.contains_str(" was killed, and programs that it started are still running: process ");
    ensure(says, "should say what it waits for", &run)?;
    ensure(run.stderr.contains_str("(holo-demo)\n>> Taking over lock file "), "should name the plugin", &run)?;
    let pairs = "begin demo:a\nend demo:a\nbegin demo:a\nend demo:a\nbegin demo:b\nend demo:b\n";
    ensure(root.read("etc/log") == pairs, &format!("nothing should run side by side\n{}", root.read("etc/log")), &run)?;
    ensure(!root.exists("run/holo.pid"), "should give the lock back", &run)
}

fn survivors_are_named() -> Result<(), Failed> {
    let root = root_with("broken").resource("broken/stays", "");
    kill_apply(&root)?;
    let began = Instant::now();
    let run = root.holo(&["apply"]);
    ensure(run.status == Some(255) && began.elapsed() < PATIENCE, "should be refused in time", &run)?;
    let child = left_behind(&root)[0];
    let says = format!("programs that it started are still running: process {} (sleep)\n", child.as_raw_nonzero());
    let refusal = run.stderr.find("!! Cannot create lock file ").map(|at| &run.stderr[at..]);
    ensure(refusal.is_some_and(|text| text.contains_str(&says)), &format!("should say: {says}"), &run)?;
    kill_process(child, Signal::KILL).unwrap();
    fs::remove_file(root.join("usr/share/holo/broken/stays")).unwrap();
    let run = root.holo(&["apply"]);
    ensure(run.success() && !root.exists("run/holo.pid"), "should apply afterwards", &run)
}

fn programs_of_survivors_are_waited_for() -> Result<(), Failed> {
    let ticks = "trap '' TERM; echo $PPID >>run/left-behind\n\
                 for i in 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0; do echo $$ >>etc/log; sleep 0.1; done\n";
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .plugin("run-scripts")
        .script("usr/share/holo/run-scripts/a", format!("#!/bin/sh\n{ticks}"))
        .time_limit(PATIENCE);
    kill_apply(&root)?;
    left_behind(&root).into_iter().for_each(|plugin| kill_process(plugin, Signal::KILL).unwrap());
    let run = root.holo(&["apply"]);
    ensure(run.success(), "should apply in the end", &run)?;
    let log = root.read("etc/log");
    let mut runs: Vec<&[u8]> = log.lines().collect();
    runs.dedup();
    ensure(runs.len() == 2, &format!("one script after the other\n{log}"), &run)
}

fn daemons_are_not_waited_for() -> Result<(), Failed> {
    let root = root_of(
        r#"
scan) echo 'ENTITY: demo:a'; echo 'ENTITY: demo:b' ;;
apply) cd "$HOLO_ROOT_DIR"
    # One that is a daemon in every respect, and one that is left in the background by somebody who has ended.
    setsid sleep 60 >/dev/null 2>&1 3>&- & echo $! >>run/daemons
    [ "$2" = demo:b ] || { sleep 60 >/dev/null 2>&1 3>&- & echo $! >>run/daemons; }
    [ "$2" = demo:a ] || { echo $$ >>run/left-behind; sleep 1; } ;;
"#,
    );
    kill_apply(&root)?;
    let began = Instant::now();
    let run = root.holo(&["apply"]);
    let took = began.elapsed();
    let daemons = root.read("run/daemons");
    let daemons = daemons.to_str_lossy();
    let mut daemons = daemons.lines().map(|number| Pid::from_raw(number.parse().unwrap()).unwrap());
    let all_live = daemons.all(|daemon| kill_process(daemon, Signal::KILL).is_ok());
    ensure(run.success() && took < PATIENCE, &format!("should wait for the plugin alone: {took:?}"), &run)?;
    ensure(all_live, "nobody should end the daemons", &run)
}

fn own_number_is_no_obstacle() -> Result<(), Failed> {
    let root = root_of("scan) echo 'ENTITY: demo:a' ;;\napply) cat \"$HOLO_ROOT_DIR/run/holo.pid\" ;;");
    let root = root.file("run/holo.pid", "1\n");
    let holo = built("holo").display().to_string();
    let run = root.run("unshare", &["--pid", "--fork", "--mount-proc", &holo, "apply"]);
    ensure(run.success() && run.stdout.ends_with(b"\n1\n\n"), "should apply as process 1", &run)?;
    ensure(run.stderr.starts_with(b">> Taking over lock file "), "should say so", &run)?;
    ensure(!root.exists("run/holo.pid"), "should give the lock back", &run)
}

fn numbers_are_given_again() -> Result<(), Failed> {
    let root = root_of("scan) echo 'ENTITY: demo:a' ;;\napply) ;;").dir("bin");
    let sleep = root.run("sh", &["-c", "command -v sleep"]);
    copy_program(sleep.stdout_lossy().trim(), root.join("bin/holo"));
    for (program, is_respected) in [("bin/holo", true), ("sleep", false)] {
        let program = if is_respected { root.join(program) } else { program.into() };
        let other = Program::new(program).arg("60").start().unwrap();
        let content = format!("{}\n", other.id());
        root.write("run/holo.pid", &content);
        let run = root.holo(&["apply"]);
        let left = root.exists("run/holo.pid").then(|| root.read("run/holo.pid"));
        drop(other);
        if is_respected {
            ensure(run.status == Some(255), "another holo should be respected", &run)?;
            ensure(run.stderr.contains_str("/run/holo.pid: file exists\nThis usually means"), "should say why", &run)?;
            ensure(left.is_some_and(|left| left == content), "should not touch the lock", &run)?;
            fs::remove_file(root.join("run/holo.pid")).unwrap();
        } else {
            ensure(run.success() && left.is_none(), "anybody else does not hold it", &run)?;
        }
    }
    Ok(())
}

// Streams.

/// A plugin with so many entities that their output exceeds the capacity of a pipe.
const MANY: &str = r#"
scan) seq 10000 | sed 's/.*/ENTITY: demo:&\nfound in: some place or other/' ;;
diff) printf '/dev/null/no\0%s\0' "$HOLO_ROOT_DIR/etc/holorc" >&3 ;;
"#;
/// A plugin with a few entities that leaves a mark for each applied one.
const FEW: &str = r#"
scan) seq 50 | sed 's/.*/ENTITY: demo:&/' ;;
apply) head -c 10000 /dev/zero | tr '\0' x; echo; : >"$HOLO_STATE_DIR/$2" ;;
"#;

fn streams() -> Vec<Trial> {
    let mut trials = Vec::new();
    for arguments in [&["scan"][..], &["scan", "--short"], &["scan", "--porcelain"], &["selectors"], &["diff"]] {
        let name = format!("streams/the_reader_of_{}_goes_away", arguments.join("_"));
        trials.push(Trial::test(name, move || reader_goes_away(&root_of(MANY), arguments)));
    }
    trials.push(Trial::test("streams/an_apply_goes_on_without_a_reader", || {
        let root = root_of(FEW);
        reader_goes_away(&root, &["apply"])?;
        let applied = fs::read_dir(root.join("var/lib/holo/demo")).unwrap().count();
        if applied == 50 { Ok(()) } else { Err(format!("only {applied} were applied").into()) }
    }));
    for arguments in ["scan", "scan -s", "selectors", "apply", "help", "version"] {
        trials.push(trial(
            &format!("streams/full_disk/{}", arguments.replace(' ', "_")),
            &[Need::Path("/dev/full")],
            move || {
                let run = shell(&root_of(FEW), &format!("\"$0\" {arguments} >/dev/full"));
                ensure(run.status == Some(255), "should exit with 255", &run)?;
                let says = run.stderr.contains_str("standard output: no space left on device");
                ensure(says && !run.stderr.contains_str("panicked"), "should say why", &run)
            },
        ));
    }
    for (name, redirection) in [
        ("stdin", "<&-"),
        ("stdout", ">&-"),
        ("stderr", "2>&-"),
        ("all_of_them", "<&- >&- 2>&-"),
        ("stdin_and_with_3_open", "<&- 3>&1"),
    ] {
        trials.push(Trial::test(format!("streams/closed/{name}"), move || {
            let root = root_of(FEW);
            let run = shell(&root, &format!("\"$0\" apply {redirection}"));
            ensure(run.success() && !run.stderr.contains_str("panicked"), "should end well", &run)?;
            let applied = fs::read_dir(root.join("var/lib/holo/demo")).unwrap().count();
            ensure(applied == 50 && is_clean(&root), "should apply all the same", &run)
        }));
    }
    trials.push(trial("streams/no_terminal", &[Need::Program("setsid")], || {
        let run = shell(&root_of(FEW), "setsid --wait \"$0\" scan -s");
        ensure(run.success() && run.stdout.starts_with(b"demo:1\n") && run.stderr.is_empty(), "should end well", &run)
    }));
    trials
}

/// Runs a shell command in which `$0` is holo.
fn shell(root: &ScratchRoot, line: &str) -> Run {
    let holo = built("holo");
    root.run("sh", &["-c".as_ref(), line.as_ref(), holo.as_os_str()])
}

/// Reads a little and closes the pipe, as `head -1` does. Holo must exit with 0, soon and silently.
fn reader_goes_away(root: &ScratchRoot, arguments: &[&str]) -> Result<(), Failed> {
    let (mut reader, stdout) = std::io::pipe().unwrap();
    let stderr = File::create(root.join("stderr")).unwrap();
    let mut holo = holo(root, arguments);
    let mut running = holo.stdout_file(OwnedFd::from(stdout).into()).stderr_file(stderr).start().unwrap();
    // It holds the other end of the pipe.
    drop(holo);
    let read = reader.read(&mut [0; 16]).unwrap();
    drop(reader);
    let ended = wait_for(&mut running);
    // It has ended, or is no longer needed.
    drop(running);
    let stderr = root.read("stderr");
    match (ended, stderr.as_slice()) {
        (Some(0), b"") if read > 0 && is_clean(root) => Ok(()),
        _ => Err(format!("should end well and quietly, but: {ended:?}\n{stderr}").into()),
    }
}

// Unprivileged users.

/// The UID of the user nobody on nearly all systems.
const NOBODY: u32 = 65534;
const NEEDS: [Need; 2] = [Need::Root, Need::Program("setpriv")];

fn unprivileged() -> Vec<Trial> {
    let cases: [Case; 9] = [
        ("foreign_root", foreign_root),
        ("no_cache_directory", no_cache_directory),
        ("no_lock", no_lock),
        ("own_root", own_root),
        ("unreadable_configuration", unreadable_configuration),
        ("unreadable_target", unreadable_target),
        ("unreadable_resources", unreadable_resources),
        ("unreadable_generators", unreadable_generators),
        ("foreign_target", foreign_target),
    ];
    let mut trials: Vec<Trial> =
        cases.into_iter().map(|(name, test)| trial(&format!("unprivileged/{name}"), &NEEDS, test)).collect();
    trials.push(trial("root/owners_are_kept", &[Need::Root], owners_are_kept));
    trials
}

/// Returns a root with the plugin `files` and one target. It contains the binaries, because the build directory may be
/// accessible to root only.
fn root_for_nobody() -> ScratchRoot {
    let root = ScratchRoot::new()
        .holorc("plugin files\n")
        .file("etc/os-release", "ID=unittest\n")
        .file("etc/motd", "stock\n")
        .resource("files/10-ours/etc/motd", "ours\n")
        .dir("bin")
        .time_limit(PATIENCE);
    for name in ["holo", "holo-files"] {
        copy_program(built(name), root.join("bin").join(name));
    }
    root
}

/// Gives the root, and everything below it, to nobody.
fn give_away(root: &ScratchRoot) {
    let mut paths = vec![root.path().to_owned()];
    while let Some(path) = paths.pop() {
        chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
        if path.is_dir() {
            paths.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
}

/// Gives a path back to root, with this mode.
fn take_back(path: &Path, mode: u32) {
    chown(path, Some(0), Some(0)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn as_nobody(root: &ScratchRoot, arguments: &[&str]) -> Run {
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"].map(str::to_owned);
    let holo = root.join("bin/holo").display().to_string();
    let words = nobody.into_iter().chain([holo]).chain(arguments.iter().map(ToString::to_string));
    root.run("setpriv", &words.collect::<Vec<_>>())
}

/// Asserts that the run ends with this status and this text on stderr, with `ROOT` for the path of the root.
fn ends_saying(root: &ScratchRoot, run: &Run, status: i32, says: &str) -> Result<(), Failed> {
    let says = says.replace("ROOT", &root.path().display().to_string());
    ensure(run.status == Some(status), &format!("should exit with {status}"), run)?;
    ensure(run.stderr.contains_str(&says), &format!("should say: {says}"), run)?;
    ensure(!run.stderr.contains_str("panicked") && is_clean(root), "should leave nothing behind", run)
}

fn foreign_root() -> Result<(), Failed> {
    let root = root_for_nobody().mode("tmp", 0o1777);
    let run = as_nobody(&root, &["apply"]);
    ends_saying(&root, &run, 255, "!! mkdir ROOT/var/lib/holo/files: permission denied")?;
    let run = as_nobody(&root, &["scan"]);
    ends_saying(&root, &run, 0, "")
}

fn no_cache_directory() -> Result<(), Failed> {
    let root = root_for_nobody();
    let run = as_nobody(&root, &["scan"]);
    ends_saying(&root, &run, 255, "!! cannot create cache directory: mkdir ROOT/tmp/holo.")?;
    ensure(run.stderr.trim_end().ends_with(b": permission denied"), "should say why", &run)
}

fn no_lock() -> Result<(), Failed> {
    let root = root_for_nobody();
    give_away(&root);
    take_back(&root.join("run"), 0o755);
    let run = as_nobody(&root, &["apply"]);
    let says = "!! Cannot create lock file ROOT/run/holo.pid: open ROOT/run/holo.pid: permission denied";
    ends_saying(&root, &run, 255, says)?;
    ensure(!run.stderr.contains_str("another instance"), "nobody else is to blame", &run)?;
    ensure(root.read("etc/motd") == "stock\n", "should apply nothing", &run)
}

fn own_root() -> Result<(), Failed> {
    let root = root_for_nobody();
    give_away(&root);
    let run = as_nobody(&root, &["apply"]);
    ends_saying(&root, &run, 0, "")?;
    ensure(root.read("etc/motd") == "ours\n", "should apply", &run)
}

fn unreadable_configuration() -> Result<(), Failed> {
    let root = root_for_nobody();
    give_away(&root);
    take_back(&root.join("etc/holorc"), 0o600);
    let run = as_nobody(&root, &["scan"]);
    ends_saying(&root, &run, 255, "!! cannot parse configuration: open ROOT/etc/holorc: permission denied")
}

fn unreadable_target() -> Result<(), Failed> {
    let root = root_for_nobody();
    give_away(&root);
    take_back(&root.join("etc/motd"), 0o600);
    let run = as_nobody(&root, &["diff"]);
    ends_saying(&root, &run, 1, "!! cannot diff file:/etc/motd: open ROOT/etc/motd: permission denied")?;
    let run = as_nobody(&root, &["apply"]);
    ends_saying(&root, &run, 1, "!! skipping target: open ROOT/etc/motd: permission denied")?;
    ensure(root.read("etc/motd") == "stock\n", "should leave it alone", &run)
}

fn unreadable_resources() -> Result<(), Failed> {
    let root = root_for_nobody();
    give_away(&root);
    let resource = "usr/share/holo/files/10-ours/etc/motd";
    take_back(&root.join(resource), 0o600);
    let run = as_nobody(&root, &["apply"]);
    ends_saying(&root, &run, 1, &format!("!! skipping target: open ROOT/{resource}: permission denied"))?;
    ensure(root.read("etc/motd") == "stock\n", "should leave it alone", &run)?;
    take_back(&root.join("usr/share/holo/files/10-ours"), 0o700);
    let run = as_nobody(&root, &["scan"]);
    ends_saying(&root, &run, 255, "!! open ROOT/usr/share/holo/files/10-ours: permission denied")?;
    ensure(run.stderr.contains_str("!! scan with plugin files failed: exit status 1"), "should say who failed", &run)
}

fn unreadable_generators() -> Result<(), Failed> {
    let root = root_for_nobody()
        .script(
            "usr/share/holo/generators/10-make",
            "#!/bin/sh\nmkdir -p \"$OUT/files/20-x/etc\"; : >\"$OUT/files/20-x/etc/motd\"\n",
        )
        .dir("usr/share/holo/generators/20-more");
    give_away(&root);
    let resource = "usr/share/holo/files/10-ours/etc/motd";
    take_back(&root.join(resource), 0o600);
    let run = as_nobody(&root, &["scan"]);
    ends_saying(&root, &run, 255, &format!("ROOT/{resource}: permission denied"))?;
    take_back(&root.join("usr/share/holo/generators/20-more"), 0o700);
    let run = as_nobody(&root, &["scan"]);
    ends_saying(&root, &run, 255, "!! open ROOT/usr/share/holo/generators/20-more: permission denied")
}

/// Without root privileges, a new file cannot get the owner of the old one, so the old file stays.
fn foreign_target() -> Result<(), Failed> {
    let root = root_for_nobody();
    give_away(&root);
    take_back(&root.join("etc/motd"), 0o644);
    let run = as_nobody(&root, &["apply"]);
    ends_saying(&root, &run, 1, "operation not permitted")?;
    ensure(root.read("etc/motd") == "stock\n" && !root.exists("etc/motd.holonew"), "should leave it alone", &run)
}

fn owners_are_kept() -> Result<(), Failed> {
    let root =
        root_for_nobody().script("usr/share/holo/files/20-more/etc/motd.holoscript", "#!/bin/sh\ncat\necho more\n");
    chown(root.join("etc/motd"), Some(1234), Some(5678)).unwrap();
    let run = root.run(root.join("bin/holo"), &["apply"]);
    ensure(run.success() && root.read("etc/motd") == "ours\nmore\n", "should apply", &run)?;
    let state = root.join("var/lib/holo/files");
    for path in [root.join("etc/motd"), state.join("base/etc/motd"), state.join("provisioned/etc/motd")] {
        let found = fs::metadata(&path).unwrap();
        let is_kept = (found.uid(), found.gid(), found.mode() & 0o7777) == (1234, 5678, 0o644);
        ensure(is_kept, &format!("{} has another owner or mode", path.display()), &run)?;
    }
    Ok(())
}

// A plugin of ours that is called directly.

fn by_hand() -> Vec<Trial> {
    let cases: [Case; 8] = [
        ("info", info),
        ("scan", scan),
        ("apply", apply),
        ("diff", diff),
        ("unknown_entities", unknown_entities),
        ("sockets", sockets),
        ("without_descriptor_3", without_descriptor_3),
        ("misuse", misuse),
    ];
    cases.into_iter().map(|(name, test)| Trial::test(format!("by_hand/{name}"), test)).collect()
}

/// Returns a root, and an environment for calling `holo-files` as version 3 does: in the root, with relative paths.
fn root_by_hand() -> ScratchRoot {
    ScratchRoot::new()
        .file("etc/os-release", "ID=unittest\n")
        .file("etc/motd", "stock\n")
        .resource("files/10-ours/etc/motd", "ours\n")
        .file("var/lib/holo/files/base/etc/orphan", "gone\n")
        .dir("tmp/cache")
        .env("HOLO_API_VERSION", "3")
        .env("HOLO_ROOT_DIR", "./")
        .env("HOLO_RESOURCE_DIR", "usr/share/holo/files")
        .env("HOLO_STATE_DIR", "var/lib/holo/files")
        .env("HOLO_CACHE_DIR", "tmp/cache")
        .time_limit(PATIENCE)
}

fn plugin() -> PathBuf {
    built("holo-files")
}

/// Calls the plugin. Also returns its output to file descriptor 3.
fn call(root: &ScratchRoot, words: &[&str]) -> (Run, BString) {
    let plugin = plugin().display().to_string();
    let line = "exec 3>tmp/messages; exec \"$0\" \"$@\"";
    let words: Vec<&str> = ["-c", line, &plugin].into_iter().chain(words.iter().copied()).collect();
    let run = root.run("sh", &words);
    (run, root.read("tmp/messages"))
}

/// Returns the exit status and all output of a call.
fn said(root: &ScratchRoot, words: &[&str]) -> (Option<i32>, String, String, String) {
    let (run, messages) = call(root, words);
    (run.status, run.stdout_lossy().into_owned(), run.stderr_lossy().into_owned(), messages.to_string())
}

fn expect(
    root: &ScratchRoot,
    words: &[&str],
    status: i32,
    [stdout, stderr, messages]: [&str; 3],
) -> Result<(), Failed> {
    let expected = (Some(status), stdout.to_owned(), stderr.to_owned(), messages.to_owned());
    let found = said(root, words);
    if found == expected { Ok(()) } else { Err(format!("{words:?}\nexpected {expected:?}\nfound    {found:?}").into()) }
}

fn info() -> Result<(), Failed> {
    // No environment variable is required for that.
    let run = ScratchRoot::new().run(plugin(), &["info"]);
    let value =
        |key: &str| run.stdout.lines().find_map(|line| line.to_str().ok()?.strip_prefix(key)?.parse::<u32>().ok());
    let speaks_it = value("MIN_API_VERSION=") == Some(3) && value("MAX_API_VERSION=").is_some_and(|max| max >= 3);
    ensure(run.success() && speaks_it && run.stderr.is_empty(), "should speak version 3", &run)
}

fn scan() -> Result<(), Failed> {
    let report = "ENTITY: file:/etc/motd\n\
                  SOURCE: usr/share/holo/files/10-ours/etc/motd\n\
                  store at: var/lib/holo/files/base/etc/motd\n\
                  apply: usr/share/holo/files/10-ours/etc/motd\n\
                  ENTITY: file:/etc/orphan\n\
                  ACTION: Scrubbing (target was deleted)\n\
                  delete: var/lib/holo/files/base/etc/orphan\n";
    expect(&root_by_hand(), &["scan"], 0, [report, "", ""])
}

fn apply() -> Result<(), Failed> {
    let root = root_by_hand();
    let motd = "file:/etc/motd";
    expect(&root, &["apply", motd], 0, ["", "", ""])?;
    expect(&root, &["apply", motd], 0, ["", "", "not changed\n"])?;
    expect(&root, &["force-apply", motd], 0, ["", "", "not changed\n"])?;
    root.write("etc/motd", "mine\n");
    expect(&root, &["apply", motd], 0, ["", "", "requires --force to overwrite\n"])?;
    expect(&root, &["force-apply", motd], 0, ["", "", ""])?;
    fs::remove_file(root.join("etc/motd")).unwrap();
    expect(&root, &["apply", motd], 0, ["", "", "requires --force to restore\n"])?;
    expect(&root, &["force-apply", motd], 0, ["", "", ""])?;
    assert_eq!(root.read("etc/motd"), "ours\n");
    expect(&root, &["apply", "file:/etc/orphan"], 0, ["", "", ""])?;
    assert!(!root.exists("var/lib/holo/files/base/etc/orphan"));
    // A problem with an entity is reported, but is not a failure of the plugin.
    fs::remove_file(root.join("etc/motd")).unwrap();
    fs::create_dir(root.join("etc/motd")).unwrap();
    expect(&root, &["apply", motd], 0, ["", "!! skipping target: not a manageable file\n", ""])
}

fn diff() -> Result<(), Failed> {
    let root = root_by_hand();
    let paths = "var/lib/holo/files/provisioned/etc/motd\0etc/motd\0";
    expect(&root, &["diff", "file:/etc/motd"], 0, ["", "", paths])?;
    let paths = "var/lib/holo/files/provisioned/etc/orphan\0etc/orphan\0";
    expect(&root, &["diff", "file:/etc/orphan"], 0, ["", "", paths])
}

fn unknown_entities() -> Result<(), Failed> {
    let root = root_by_hand();
    let ids =
        ["file:/etc/nothing", "file:/etc", "file:", "file:etc/motd", "file:/etc/../etc/motd", "/etc/motd", "motd", ""];
    for id in ids {
        for operation in ["apply", "force-apply", "diff"] {
            expect(&root, &[operation, id], 1, ["", &format!("!! unknown entity ID \"{id}\"\n"), ""])?;
        }
    }
    assert_eq!(root.read("etc/motd"), "stock\n");
    Ok(())
}

/// A tree cannot describe a socket, so no scenario contains one.
fn sockets() -> Result<(), Failed> {
    let root = root_by_hand();
    fs::remove_file(root.join("etc/motd")).unwrap();
    let _socket = UnixListener::bind(root.join("etc/motd")).unwrap();
    for operation in ["apply", "force-apply"] {
        let says = "!! skipping target: not a manageable file\n";
        expect(&root, &[operation, "file:/etc/motd"], 0, ["", says, ""])?;
    }
    assert!(!root.exists("var/lib/holo/files/base/etc/motd"));
    Ok(())
}

fn without_descriptor_3() -> Result<(), Failed> {
    let root = root_by_hand();
    let plugin = plugin().display().to_string();
    for operation in ["apply", "apply", "diff"] {
        let run = root.run("sh", &["-c", "exec \"$0\" \"$@\" 3>&-", &plugin, operation, "file:/etc/motd"]);
        ensure(!run.stderr.contains_str("panicked"), "panicked", &run)?;
        // The first apply sends no message.
        let answered = run.success() && run.stderr.is_empty();
        let complained = run.status == Some(1) && run.stderr.contains_str("file descriptor 3");
        ensure(answered || complained, "should say what is missing", &run)?;
    }
    Ok(())
}

fn misuse() -> Result<(), Failed> {
    for words in [&[][..], &["apply"], &["diff"], &["frobnicate"], &["scan", "file:/etc/motd"]] {
        let (run, messages) = call(&root_by_hand(), words);
        let refused = run.status.is_some_and(|status| status != 0) && run.stdout.is_empty() && messages.is_empty();
        ensure(refused && run.stderr.starts_with(b"!! "), &format!("{words:?} should be refused"), &run)?;
    }
    let run = ScratchRoot::new().run(plugin(), &["scan"]);
    let says = run.stderr.contains_str("HOLO_") && run.stderr.contains_str("not set");
    ensure(run.status.is_some_and(|status| status != 0) && says, "should name what is not set", &run)
}
