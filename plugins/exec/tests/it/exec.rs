//! Tests of real commands: their conditions, identity, environment, timeouts and output.

use holo_process::{Ended, Program};
use holo_testing::overlay::{NEEDS, Overlay};
use holo_testing::processes::{Signal, is_running, parent, send, wait_until_gone};
use holo_testing::{Need, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The name of a test, its needs, and its function.
type Case = (&'static str, &'static [Need], fn());

const ON_TERMINAL: &[Need] = &[NEEDS[0], NEEDS[1], Need::Program("script")];
/// A timeout that no test reaches.
const LONG: Duration = Duration::from_secs(60);

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [Case; 33] = [
        ("what a command says is seen as it comes, on both streams", &[], streams),
        ("conditions are looked at in their order, and no further than needed", &[], order),
        ("a refresh overrides all conditions", &[], refreshed),
        ("the exit status decides, whatever exists", &[], statuses),
        ("what should have been created has to be there", &[], creates),
        ("when the time is over the whole group is ended", &[], timeout),
        ("output that is not to be shown is shown if the command fails", &[], quiet),
        ("path is where the command is looked up, and what it gets", &[], path),
        ("the environment is ours and more, or clean", &[], environment),
        ("what looks like a comment is an argument", &[], comment),
        ("a time limit reaches what has left the session and lost its parent", &[Need::Program("setsid")], escaped),
        ("the working directory is the root unless another one is given", &[], directory),
        ("a string is for a shell only if it says so", &[], shell),
        ("a command that failed is tried again as often as declared", &[], retries),
        ("check runs guards, and never the command", &[], check),
        ("a guard that cannot tell is an error, one that is not there has failed", &[], guards),
        ("a signal to the plugin ends the command and its children", &[], signal),
        ("under version 3 it runs as under version 4", &[], version_3),
        ("a command runs as another user, with its groups, home and umask", NEEDS, identity),
        ("a guard of another user cannot reach the terminal of a check", ON_TERMINAL, no_terminal),
        ("a change refreshes a command once, and a refresh that failed stays due", NEEDS, refreshes),
        ("what is sensitive is not shown, whatever becomes of it", &[], sensitive),
        ("a command and its guards read what they are given", &[], stdin),
        ("what is of use to plugins alone is kept from commands", &[], plugins_environment),
        ("nothing that a run tells its plugins comes to commands", NEEDS, runs_environment),
        ("each attempt has the time limit for itself", &[], limit_of_attempts),
        ("commands that may run at the same time do, and others follow one another", NEEDS, parallel),
        ("guards that a check runs, run at the same time", NEEDS, guards_together),
        ("guards of commands that need not run, run at the same time", NEEDS, guards_ahead),
        ("what a guard has said counts until a command has run", NEEDS, guards_again),
        ("one that may run beside others does not run beside those that may not", NEEDS, beside_none),
        ("while the system is not running, only commands run that may, and a due one is deferred", &[], offline),
        ("the examples of the man page do what it says", NEEDS, examples),
    ];
    cases.map(|(name, needs, test)| trial_of(name, needs, test)).into()
}

/// The plugin, run directly on the real root: the commands in these tests are harmless.
struct Bench(tempfile::TempDir);

/// The result of an apply.
#[derive(Debug)]
struct Outcome {
    ended: Ended,
    /// The output on both streams.
    said: String,
    messages: String,
}

impl Outcome {
    fn succeeded(&self) -> bool {
        self.ended.failure().is_none()
    }
}

const DEFERRED: &str = "deferred: the system is not running\n";

fn offline() {
    // Neither the guard nor the command is run.
    let bench = Bench::new("command = \"touch @/ran\"\nonlyif = \"touch @/guarded\"");
    let outcome = |bench: &Bench, operation: &str, refresh: &str| {
        bench.run(bench.plugin(operation).env("HOLO_OFFLINE", "1").env("HOLO_REFRESH", refresh), |_| {})
    };
    let applied = outcome(&bench, "apply", "");
    assert!(applied.succeeded() && applied.messages == DEFERRED, "{applied:?}");
    assert!(outcome(&bench, "check", "").messages.starts_with("would change: would run touch "));
    assert!(!bench.has("ran") && !bench.has("guarded"));
    // A command that need not run is not deferred.
    bench.define("command = \"touch @/ran\"\ncreates = \"@\"");
    assert_eq!(outcome(&bench, "apply", "").messages, "not changed\n");
    bench.define("command = \"touch @/ran\"\nrefresh_only = true");
    assert_eq!(outcome(&bench, "apply", "").messages, "not changed\n");
    assert_eq!(outcome(&bench, "apply", "1").messages, DEFERRED);
    bench.define("command = \"touch @/ran\"\nif = \"1 > 2\"");
    assert!(outcome(&bench, "apply", "").messages.starts_with("skipped: "));
    assert!(!bench.has("ran"));
    bench.define("command = \"touch @/ran\"\nonlyif = \"touch @/guarded\"\noffline = true");
    let applied = outcome(&bench, "apply", "");
    assert!(
        applied.messages.starts_with("changed: ran touch ") && bench.has("guarded") && bench.has("ran"),
        "{applied:?}"
    );
    // With another value, the system is running.
    bench.define("command = \"touch @/later\"");
    assert!(bench.run(bench.plugin("apply").env("HOLO_OFFLINE", "0"), |_| {}).succeeded() && bench.has("later"));
}

impl Bench {
    /// Creates a definition `x` with these keys, in which `@` stands for a working directory.
    fn new(keys: &str) -> Bench {
        let bench = Bench(tempfile::tempdir().unwrap());
        for folder in ["resources", "state", "cache", "work"] {
            fs::create_dir(bench.0.path().join(folder)).unwrap();
        }
        bench.define(keys);
        bench
    }

    fn define(&self, keys: &str) {
        let keys = keys.replace('@', self.work().to_str().unwrap());
        fs::write(self.0.path().join("resources/x.toml"), format!("[[exec]]\nname = \"x\"\n{keys}\n")).unwrap();
    }

    fn work(&self) -> PathBuf {
        self.0.path().join("work")
    }

    fn has(&self, name: &str) -> bool {
        self.work().join(name).exists()
    }

    /// Returns the content of a file, and removes the file.
    fn take(&self, name: &str) -> String {
        let text = fs::read_to_string(self.work().join(name)).unwrap_or_default();
        let _ = fs::remove_file(self.work().join(name));
        text
    }

    fn plugin(&self, operation: &str) -> Program {
        self.plugin_for(operation, "exec:x")
    }

    fn plugin_for(&self, operation: &str, id: &str) -> Program {
        let path = |name: &str| self.0.path().join(name);
        let mut plugin = Program::new("sh");
        plugin.args(["-c", "exec \"$@\" 3>\"$MESSAGES\"", "sh"]).arg(built("holo-exec")).args([operation, id]);
        plugin.env("MESSAGES", path("messages")).env("HOLO_API_VERSION", "4").env("HOLO_ROOT_DIR", "/").timeout(LONG);
        plugin.env("HOLO_RESOURCE_DIR", path("resources")).env("HOLO_STATE_DIR", path("state"));
        plugin.env("HOLO_CACHE_DIR", path("cache"));
        plugin
    }

    fn run(&self, plugin: &Program, mut seen: impl FnMut(&str)) -> Outcome {
        let mut said = String::new();
        let ended = plugin.run(|_, bytes| {
            said.push_str(&String::from_utf8_lossy(bytes));
            seen(&said);
        });
        let messages = fs::read_to_string(self.0.path().join("messages")).unwrap();
        Outcome { ended: ended.unwrap(), said, messages }
    }

    fn apply(&self) -> Outcome {
        self.run(&self.plugin("apply"), |_| {})
    }

    fn refresh(&self) -> Outcome {
        self.run(self.plugin("apply").env("HOLO_REFRESH", "1"), |_| {})
    }

    fn check(&self) -> Outcome {
        self.run(&self.plugin("check"), |_| {})
    }
}

fn numbers(said: &str) -> Vec<u32> {
    said.lines().filter_map(|line| line.parse().ok()).collect()
}

fn streams() {
    let bench = Bench::new(
        "shell = true\ncommand = 'echo out; sh @/wait out; echo err >&2; sh @/wait err; printf prompt; sh @/wait prompt; echo; cat; echo end'",
    );
    tool(&bench, "wait", &format!("while ! [ -e {}/$1-seen ]; do sleep 0.01; done", bench.work().display()));
    // Each word is only printed after the previous one was seen.
    let outcome = bench.run(&bench.plugin("apply"), |said| {
        let word = said.lines().last().unwrap();
        fs::write(bench.work().join(format!("{word}-seen")), "").unwrap();
    });
    assert_eq!((&*outcome.said, outcome.succeeded()), ("out\nerr\nprompt\nend\n", true));
    assert!(outcome.messages.starts_with("changed: ran echo out; "), "{outcome:?}");
}

/// A command and guards that write to a log; the guards' results depend on files.
const GUARDED: &str = "shell = true\ncommand = 'echo command >>@/log'\ncreates = '@/created'\n\
    onlyif = 'echo onlyif >>@/log; ! [ -e @/onlyif-fails ]'\nunless_command = 'echo unless >>@/log; [ -e @/unless-succeeds ]'\n";

fn order() {
    let bench = Bench::new(
        &GUARDED
            .replace("creates", "timeout = '1m'\ncreates")
            .replace("command = 'echo command >>@/log'", "command = 'echo command >>@/log; touch @/created'"),
    );
    let cases = [
        ("", "onlyif\nunless\ncommand\n"),
        ("created onlyif-fails unless-succeeds", ""),
        ("onlyif-fails unless-succeeds", "onlyif\n"),
        ("unless-succeeds", "onlyif\nunless\n"),
    ];
    for (files, log) in cases {
        for name in ["created", "onlyif-fails", "unless-succeeds"] {
            let _ = fs::remove_file(bench.work().join(name));
        }
        files.split_whitespace().for_each(|name| fs::write(bench.work().join(name), "").unwrap());
        let checked = bench.check();
        assert_eq!(bench.take("log"), log.replace("command\n", ""), "{files}");
        let applied = bench.apply();
        assert_eq!(bench.take("log"), log, "{files}");
        let runs = log.contains("command");
        assert_eq!(checked.messages.starts_with("would change: would run echo command"), runs, "{checked:?}");
        assert_eq!(applied.messages == "not changed\n", !runs, "{applied:?}");
        assert_eq!(applied.messages.starts_with("changed: ran echo command"), runs, "{applied:?}");
        assert!(applied.succeeded() && applied.said.is_empty(), "{applied:?}");
    }
    bench.define("command = 'touch @/ran'\nrefresh_only = true");
    assert_eq!((bench.apply().messages, bench.has("ran")), ("not changed\n".to_owned(), false));
    bench.define("command = 'touch @/ran'");
    for _ in 0..2 {
        assert!(bench.apply().messages.starts_with("changed: ran touch "));
        assert!(bench.has("ran"));
        fs::remove_file(bench.work().join("ran")).unwrap();
    }
}

fn refreshed() {
    let bench = Bench::new(&format!("{GUARDED}refresh_only = true\n"));
    for name in ["created", "onlyif-fails", "unless-succeeds"] {
        fs::write(bench.work().join(name), "").unwrap();
    }
    assert!(bench.refresh().succeeded());
    assert_eq!(bench.take("log"), "command\n");
    bench.define("shell = true\ncommand = 'echo \"${HOLO_REFRESH-unset}\"'");
    assert_eq!((bench.apply().said, bench.refresh().said), ("unset\n".to_owned(), "1\n".to_owned()));
    bench.define("shell = true\nonlyif = 'test ! \"$HOLO_RECEIVED\"'\ncommand = 'echo \"${HOLO_RECEIVED-unset}\"'");
    let told = bench.run(bench.plugin("apply").env("HOLO_RECEIVED", "MODE=1\nMODE=2\n"), |_| {});
    assert_eq!((bench.apply().said, told.said), ("unset\n".to_owned(), "MODE=1\nMODE=2\n\n".to_owned()));
}

fn statuses() {
    let bench = Bench::new("shell = true\ncommand = 'touch @/created; exit 3'\ncreates = '@/created'");
    let outcome = bench.apply();
    assert!(outcome.said.ends_with("/created; exit 3: exit status 3\n") && !outcome.succeeded(), "{outcome:?}");
    assert!(bench.has("created") && outcome.messages.is_empty());
    // The path exists now, but a failed refresh is an error nevertheless.
    assert!(bench.apply().succeeded());
    assert!(!bench.refresh().succeeded());
    bench.define("command = 'sh -c \"exit 3\"'\nreturns = [0, 3]");
    assert!(bench.apply().succeeded());
    bench.define("command = 'sh -c \"exit 4\"'\nreturns = [0, 3]");
    assert_eq!(bench.apply().said, "!! sh -c \"exit 4\": exit status 4, expected 0 or 3\n");
    bench.define("command = 'true'\nreturns = [7]");
    assert_eq!(bench.apply().said, "!! true: exit status 0, expected 7\n");
    bench.define("command = ['sh', '-c', 'kill -KILL $$']\nreturns = [9, 137]");
    assert_eq!(bench.apply().said, "!! sh -c 'kill -KILL $$': signal: killed\n");
    bench.define("command = '/no/such --option'");
    assert_eq!(bench.apply().said, "!! /no/such --option: fork/exec /no/such: no such file or directory\n");
}

fn creates() {
    let bench = Bench::new("command = 'true'\ncreates = '@/created'");
    let outcome = bench.apply();
    let shown = bench.work().join("created").display().to_string();
    assert_eq!((outcome.said, outcome.messages), (format!("!! true: it has not created {shown}\n"), String::new()));
}

fn timeout() {
    let stubborn = "trap \"\" TERM; echo $$; (sleep 600 & echo $!; wait) & sleep 601; sleep 602";
    for log_output in [true, false] {
        let bench = Bench::new(&format!(
            "shell = true\ncommand = '{stubborn}'\ntimeout = '2s'\nlog_output = {log_output}\nreturns = [0, 143, 137]"
        ));
        let outcome = bench.apply();
        assert!(outcome.said.ends_with(": timed out after 2s\n") && !outcome.succeeded(), "{outcome:?}");
        let pids = numbers(&outcome.said);
        assert_eq!(pids.len(), 2, "{outcome:?}");
        pids.into_iter().for_each(wait_until_gone);
    }
    let endless = Bench::new("command = 'yes'\nlog_output = false").apply();
    assert!(endless.said.ends_with("yes: yes printed more than 32 MiB\n") && !endless.succeeded(), "{endless:?}");
    let polite = Bench::new(
        "shell = true\ncommand = 'trap \"echo cleaned up; exit 0\" TERM; while :; do sleep 0.05; done'\ntimeout = '1s'",
    );
    let outcome = polite.apply();
    assert!(outcome.said.contains("cleaned up\n") && outcome.said.ends_with("timed out after 1s\n"), "{outcome:?}");
    assert!(!outcome.succeeded());
}

fn quiet() {
    let bench = Bench::new("shell = true\ncommand = 'echo out; echo err >&2'\nlog_output = false");
    let outcome = bench.apply();
    assert!(outcome.succeeded() && outcome.said.is_empty(), "{outcome:?}");
    bench.define("shell = true\ncommand = 'i=0; while [ $i -lt 100 ]; do i=$((i + 1)); echo line $i; done; exit 1'\nlog_output = false");
    let outcome = bench.apply();
    let lines: Vec<&str> = outcome.said.lines().collect();
    assert_eq!((lines[0], lines[19], lines.len()), ("line 81", "line 100", 21));
    assert!(lines[20].ends_with("exit status 1"));
}

fn tool(bench: &Bench, name: &str, script: &str) {
    holo_testing::write_script(bench.work().join(name), format!("#!/bin/sh\n{script}\n"));
}

fn path() {
    let bench = Bench::new("command = 'the-tool'\nonlyif = 'the-guard'\npath = '/no/such:@'");
    tool(&bench, "the-tool", "the-helper");
    tool(&bench, "the-helper", "echo \"$PATH\"");
    tool(&bench, "the-guard", "exit 0");
    assert_eq!(bench.apply().said, format!("/no/such:{}\n", bench.work().display()));
    bench.define("command = 'the-tool'");
    assert_eq!(bench.apply().said, "!! the-tool: exec: \"the-tool\": executable file not found in $PATH\n");
}

fn environment() {
    let environment = |keys: &str| {
        let bench = Bench::new(&format!("command = 'env'\n{keys}"));
        let outcome = bench.run(bench.plugin("apply").env("FROM_HOLO", "1").env("LC_ALL", "C.UTF-8"), |_| {});
        let mut lines: Vec<String> = outcome.said.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let added = environment("environment = ['ADDED=a b=c', 'EMPTY=']");
    for line in ["ADDED=a b=c", "EMPTY=", "FROM_HOLO=1", "LC_ALL=C.UTF-8"] {
        assert!(added.iter().any(|other| other == line), "{added:?}");
    }
    let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    assert_eq!(environment("clean_environment = true\nenvironment = ['ONLY=this']"), ["ONLY=this", path]);
    assert_eq!(environment("clean_environment = true\npath = '/usr/bin'"), ["PATH=/usr/bin"]);
}

fn directory() {
    assert_eq!(Bench::new("command = 'pwd'").apply().said, "/\n");
    let bench = Bench::new("command = './here'\ncwd = '@'");
    tool(&bench, "here", "pwd -P");
    assert_eq!(bench.apply().said.trim(), fs::canonicalize(bench.work()).unwrap().to_str().unwrap());
    bench.define("command = 'pwd'\ncwd = '@/no-such'");
    assert!(bench.apply().said.contains("pwd: chdir "));
}

fn comment() {
    // Without a shell, there are no comments.
    let bench = Bench::new("command = \"echo x # foo '#' bar#baz\"");
    assert_eq!(bench.apply().said, "x # foo # bar#baz\n");
}

fn escaped() {
    // It has left the process group, and its parent is gone.
    let bench = Bench::new(
        "shell = true\ncommand = \"(setsid -f sh -c 'echo $$ >@/number; sleep 600' &); sleep 600\"\ntimeout = '1s'",
    );
    let outcome = bench.apply();
    assert!(outcome.said.ends_with("timed out after 1s\n"), "{outcome:?}");
    let number = bench.take("number").trim().parse().unwrap();
    assert!(!is_running(number));
}

fn shell() {
    assert_eq!(
        Bench::new("command = ['echo', '$HOME', ';', 'echo', '*', '|', 'cat']").apply().said,
        "$HOME ; echo * | cat\n"
    );
    // A warning from the scan is not repeated.
    assert_eq!(Bench::new("command = \"echo '$HOME' ; echo * | cat\"").apply().said, "$HOME ; echo * | cat\n");
    assert_eq!(Bench::new("shell = true\ncommand = \"x=it\\\\'s; echo $x | cat\"").apply().said, "it's\n");
    assert_eq!(Bench::new("command = ['echo', \"it's\", '', 'a b']").apply().said, "it's  a b\n");
    let several = Bench::new("shell = true\ncommand = '''\nset -e\necho one\nfalse\necho never\n'''");
    assert_eq!(several.apply().said, "one\n!! set -e …: exit status 1\n");
    let bench = Bench::new("command = 'true'");
    fs::write(bench.0.path().join("resources/x.toml"), "[[exec]]\nname = \"it's\"\ncommand = 'echo named'\n").unwrap();
    assert_eq!(bench.run(&bench.plugin_for("apply", "exec:it's"), |_| {}).said, "named\n");
}

fn retries() {
    let bench = Bench::new(
        "shell = true\ncommand = 'echo x >>@/log; [ $(wc -l <@/log) -ge 3 ]'\nretries = 2\nretry_delay = '1ms'",
    );
    let outcome = bench.apply();
    assert!(outcome.succeeded(), "{outcome:?}");
    assert_eq!(bench.take("log"), "x\nx\nx\n");
    assert!(outcome.said.contains(">> trying again in 1ms (2 of 2)\n"));
    bench.define("shell = true\ncommand = 'echo x >>@/log; exit 1'\nretries = 1\nretry_delay = '1ms'");
    assert!(!bench.apply().succeeded());
    assert_eq!(bench.take("log"), "x\nx\n");
}

fn check() {
    let bench = Bench::new("command = 'touch @/ran'");
    assert_eq!(bench.check().messages, format!("would change: would run touch {}/ran\n", bench.work().display()));
    bench.define("command = 'touch @/ran'\nunless_command = 'touch @/guarded'");
    assert_eq!(bench.check().messages, "not changed\n");
    assert!(bench.has("guarded") && !bench.has("ran"));
}

fn guards() {
    for (key, runs) in [("onlyif", false), ("unless_command", true)] {
        for guard in ["not-installed --version", "/usr/bin/no-such-tset -e /x"] {
            let bench = Bench::new(&format!("command = 'touch @/ran'\n{key} = '{guard}'"));
            for outcome in [bench.check(), bench.apply()] {
                assert!(!outcome.succeeded(), "{outcome:?}");
                assert!(outcome.said.starts_with(&format!("!! {key} `{guard}`: ")), "{outcome:?}");
            }
            assert!(!bench.has("ran"), "{key}");
        }
        // The shell itself reports it, and continues.
        let bench = Bench::new(&format!(
            "shell = true\ncommand = 'touch @/ran'\n{key} = 'not-installed; echo this is not shown; exit 3'"
        ));
        let outcome = bench.apply();
        assert!(outcome.succeeded() && outcome.said.contains("not-installed"), "{outcome:?}");
        assert!(!outcome.said.contains("this is not shown"), "{outcome:?}");
        assert_eq!(bench.has("ran"), runs, "{key}");
        let bench = Bench::new(&format!("command = 'touch @/ran'\n{key} = 'sleep 600'\ntimeout = '300ms'"));
        for outcome in [bench.check(), bench.apply()] {
            assert_eq!(outcome.said, format!("!! {key} `sleep 600`: timed out after 300ms\n"));
            assert!(!outcome.succeeded());
        }
        bench.define(&format!("command = 'touch @/ran'\n{key} = 'yes'"));
        for outcome in [bench.check(), bench.apply()] {
            assert_eq!(outcome.said, format!("!! {key} `yes`: yes printed more than 64 MiB\n"));
            assert!(!outcome.succeeded());
        }
        bench.define(&format!("command = 'touch @/ran'\n{key} = '/etc/passwd'"));
        let outcome = bench.apply();
        assert_eq!(outcome.said, format!("!! {key} `/etc/passwd`: fork/exec /etc/passwd: permission denied\n"));
        assert!(!outcome.succeeded() && !bench.has("ran"));
    }
}

fn signal() {
    let bench = Bench::new("shell = true\ncommand = 'sleep 600 & echo $!; echo $$; wait; echo never'\nretries = 9");
    for (signal, status) in
        [(Signal::TERM, "signal: terminated"), (Signal::INT, "signal: interrupt"), (Signal::KILL, "signal: killed")]
    {
        let mut is_sent = false;
        let outcome = bench.run(&bench.plugin("apply"), |said| {
            if let ([_, shell], false) = (&numbers(said)[..], is_sent) {
                is_sent = true;
                send(parent(*shell).unwrap(), signal);
            }
        });
        assert_eq!(outcome.ended.failure().as_deref(), Some(status), "{outcome:?}");
        assert!(!outcome.said.contains("never") && !outcome.said.contains("trying"), "{outcome:?}");
        if signal != Signal::KILL {
            assert!(!is_running(numbers(&outcome.said)[1]), "the shell has ended before the plugin");
        }
        numbers(&outcome.said).into_iter().for_each(wait_until_gone);
    }
}

fn version_3() {
    let bench = Bench::new("shell = true\ncommand = 'echo out; exit $(cat @/status)'");
    for (status, said) in [("0", "out\nran echo out; "), ("3", "out\n!! echo out; ")] {
        fs::write(bench.work().join("status"), status).unwrap();
        let outcome = bench.run(bench.plugin("apply").env("HOLO_API_VERSION", "3"), |_| {});
        assert!(outcome.said.starts_with(said) && outcome.messages.is_empty(), "{outcome:?}");
        assert_eq!(outcome.succeeded(), status == "0");
    }
}

fn identity() {
    let system = Overlay::new().plugin("exec");
    system.must("groupadd -g 4321 crew; groupadd -g 4322 more; useradd -u 4321 -g crew -G more -d /home/sailor -s /bin/sh sailor");
    let apply = |keys: &str| {
        system.write("/usr/share/holo/exec/x.toml", format!("[[exec]]\nname = \"x\"\nshell = true\n{keys}\n"));
        system.holo(&["apply"])
    };
    let run = apply(
        "command = 'id -un; id -gn; id -Gn; echo $HOME $USER $LOGNAME; touch /tmp/made; umask'\nuser = 'sailor'\numask = '027'",
    );
    assert!(run.success(), "{run}");
    assert!(run.stdout_lossy().contains("sailor\ncrew\ncrew more\n/home/sailor sailor sailor\n0027\n"), "{run}");
    assert_eq!(system.must("stat -c '%U %G %a' /tmp/made"), "sailor crew 640\n");
    let run = apply("command = 'id -u; id -g; id -G'\nuser = '4321'\ngroup = 'more'");
    assert!(run.stdout_lossy().contains("4321\n4322\n4322\n"), "{run}");
    let run = apply("command = 'id -un; id -gn'\ngroup = 'crew'");
    assert!(run.stdout_lossy().contains("root\ncrew\n"), "{run}");
    let run = apply("command = 'env'\nclean_environment = true\nuser = 'sailor'");
    assert!(run.stdout_lossy().contains("\nHOME=/home/sailor\n") && !run.stdout_lossy().contains("HOLO_"), "{run}");
    // Guards run with the command's identity.
    let run = apply("command = 'touch /tmp/never'\nonlyif = '[ $(id -un) = root ]'\nuser = 'sailor'");
    assert!(run.success() && run.stdout.is_empty() && !system.exists("/tmp/never"), "{run}");
    let run = apply("command = 'touch /tmp/never'\nuser = 'nobody-knows'");
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains("!! touch /tmp/never: there is no user \"nobody-knows\"\n"), "{run}");
}

fn no_terminal() {
    let system = Overlay::new().plugin("exec").env("BASH_ENV", "/tmp/hostile").env("PYTHONPATH", "/tmp/hostile");
    let guard = "onlyif = 'env >/tmp/environment; exec 3<>/dev/tty'";
    let check = |user: &str| {
        let keys = format!("shell = true\ncommand = 'true'\n{guard}\n{user}");
        system.write("/usr/share/holo/exec/x.toml", format!("[[exec]]\nname = \"x\"\n{keys}\n"));
        let check = format!("rm -f /tmp/environment; script -qec '{} check' /dev/null", built("holo").display());
        system.sh(&check).status
    };
    // The command is pending if the guard has opened the terminal.
    assert_eq!(check(""), Some(3));
    assert!(system.must("cat /tmp/environment").to_string().contains("BASH_ENV="));
    assert_eq!(check("user = 'nobody'"), Some(0));
    assert!(!system.must("cat /tmp/environment").to_string().contains("hostile"));
}

fn refreshes() {
    let system = Overlay::new().plugin("exec");
    let plugins = [built("holo-files"), built("holo-exec")];
    let holorc = format!("plugin files={}\nplugin exec={}\n", plugins[0].display(), plugins[1].display());
    system.write("/etc/holorc", holorc);
    system.write("/etc/motd", "stock\n");
    system.write("/usr/share/holo/files/01-x/etc/motd", "wanted\n");
    let command = "[[exec]]\nname = \"on-motd\"\nshell = true\ncommand = 'echo \"refreshed for $(cat /etc/motd)\"; exit $(cat /etc/status)'\n\
        refresh_only = true\nsubscribes = [\"file:/etc/motd\"]\n";
    system.write("/usr/share/holo/exec/x.toml", command);
    system.write("/etc/status", "1");
    for _ in 0..2 {
        let run = system.holo(&["apply"]);
        assert_eq!(run.status, Some(1), "{run}");
        assert!(run.stdout_lossy().contains("\nrefreshed for wanted\n"), "{run}");
    }
    system.write("/etc/status", "0");
    let run = system.holo(&["apply"]);
    assert!(run.success() && run.stdout_lossy().contains("\nrefreshed for wanted\nran echo "), "{run}");
    let run = system.holo(&["apply"]);
    assert!(run.success() && run.stdout.is_empty(), "{run}");
    assert_eq!(system.holo(&["check"]).status, Some(0));
}

fn sensitive() {
    let bench = Bench::new("command = 'echo hush'\nonlyif = 'test hush'\nsensitive = true\nlog_output = false");
    let report = bench.run(&bench.plugin("scan"), |_| {});
    assert!(
        report.said.contains("command: is not shown") && report.said.contains("if a command succeeds"),
        "{report:?}"
    );
    let [checked, applied] = [bench.check(), bench.apply()];
    assert_eq!(checked.messages, "would change: would run the command of x\n", "{checked:?}");
    assert_eq!(applied.messages, "changed: ran the command of x\n", "{applied:?}");
    bench.define("command = 'sh -c \"exit 3\" hush'\nsensitive = true");
    let failed = bench.apply();
    assert_eq!(failed.said, "!! the command of x: exit status 3\n", "{failed:?}");
    bench.define("command = 'true'\nunless_command = '/etc/passwd hush'\nsensitive = true");
    let broken = bench.apply();
    assert!(broken.said.starts_with("!! unless_command a command: "), "{broken:?}");
    bench.define("command = 'echo hush'\nsensitive = true");
    let mocked = bench.run(bench.plugin("apply").env("HOLO_ROOT_DIR", bench.work()), |_| {});
    assert_eq!(mocked.said, "MOCK: the command of x\n", "{mocked:?}");
    // Standard output is sent to other entities.
    bench.define("shell = true\ncommand = 'echo hush; echo told >&2'\nsensitive = true");
    let printed = bench.apply();
    assert_eq!(printed.said, "told\n", "{printed:?}");
    bench.define("shell = true\ncommand = 'echo hush; exit 1'\nsensitive = true\nlog_output = false");
    let silent = bench.apply();
    assert_eq!(silent.said, "!! the command of x: exit status 1\n", "{silent:?}");
    for outcome in [report, checked, applied, failed, broken, mocked, printed, silent] {
        assert!(!outcome.said.contains("hush") && !outcome.messages.contains("hush"), "{outcome:?}");
    }
}

fn stdin() {
    let bench = Bench::new("command = 'cat'\nonlyif = 'grep -q two'\nstdin = \"one\\ntwo\\n\"");
    assert_eq!(bench.apply().said, "one\ntwo\n");
    bench.define("command = 'cat'\nonlyif = 'grep -q two'\nstdin = 'one'");
    let outcome = bench.apply();
    assert_eq!((&*outcome.said, &*outcome.messages), ("", "not changed\n"), "{outcome:?}");
    bench.define("command = 'cat'");
    assert_eq!(bench.apply().said, "");
}

fn plugins_environment() {
    let command = "shell = true\ncommand = 'env | grep ^HOLO_ | grep -v ^HOLO_TEST_ | cut -d= -f1 | sort'";
    let bench = Bench::new(&format!("{command}\nhealth_check = [{{ command = ['sh', '-c', 'env >@/health'] }}]"));
    let outcome = bench.run(bench.plugin("apply").env("HOLO_REFRESH", "1").env("HOLO_JOBS", "2"), |_| {});
    assert_eq!(outcome.said, "HOLO_REFRESH\nHOLO_ROOT_DIR\n", "{outcome:?}");
    let health = bench.take("health");
    assert!(health.contains("PATH=") && !health.contains("HOLO_STATE_DIR"), "{health}");
}

fn runs_environment() {
    let system = Overlay::new().plugin("exec");
    let table = "[[exec]]\nname = 'x'\nshell = true\ncommand = 'env | grep ^HOLO_ | grep -v ^HOLO_TEST_ | cut -d= -f1 >/tmp/x'\n";
    system.write("/usr/share/holo/exec/x.toml", table);
    let run = system.holo(&["apply"]);
    assert!(run.success(), "{run}");
    assert_eq!(system.read("/tmp/x"), "HOLO_ROOT_DIR\n");
}

fn limit_of_attempts() {
    // Both attempts together exceed the timeout, and so does the first.
    let script = "echo x >>@/log; [ $(wc -l <@/log) = 2 ] && exec sleep 2; exec sleep 600";
    let bench =
        Bench::new(&format!("shell = true\ncommand = '{script}'\ntimeout = '4s'\nretries = 1\nretry_delay = '10ms'"));
    let outcome = bench.apply();
    assert!(outcome.said.contains("trying again") && outcome.succeeded(), "{outcome:?}");
}

/// Applies four commands with this number of jobs.
fn four(options: &[&str], jobs: &str, definition: impl Fn(usize) -> String) -> holo_testing::Run {
    let system = Overlay::new().plugin("exec");
    let definitions: String =
        (0..4).map(|number| format!("[[exec]]\nname = \"{number}\"\nshell = true\n{}\n", definition(number))).collect();
    system.write("/usr/share/holo/exec/x.toml", definitions);
    system.holo(&[&["apply", "--jobs", jobs], options].concat())
}

/// A script that only succeeds after this number of others have started, and otherwise fails after a while.
fn meets(number: usize, others: usize) -> String {
    format!(
        "echo {number}; touch /tmp/met-{number}; for i in $(seq 600); do [ $(ls /tmp/met-* | wc -l) -ge {others} ] && exit 0; sleep 0.05; done; exit 1"
    )
}

/// A script that fails if another one of its kind is running.
const ALONE: &str = "mkdir /tmp/alone && sleep 0.2 && rmdir /tmp/alone";

fn parallel() {
    let run = four(&[], "4", |number| format!("command = '{}'\nparallel = true", meets(number, 4)));
    assert!(run.success(), "{run}");
    let said = run.stdout_lossy().into_owned();
    let shown: Vec<&str> = said.lines().filter(|line| ["0", "1", "2", "3"].contains(line)).collect();
    assert_eq!(shown, ["0", "1", "2", "3"], "{run}");
    for (jobs, lines) in [("4", ""), ("1", "parallel = true\n")] {
        let run = four(&[], jobs, |_| format!("command = '{ALONE}'\n{lines}"));
        assert!(run.success(), "{run}");
    }
}

fn guards_together() {
    let guarded = |number: usize| format!("command = 'touch /tmp/ran'\nunless_command = '{}'", meets(number, 4));
    let run = four(&["--dry-run"], "4", guarded);
    assert!(run.success(), "{run}");
    assert!(run.stdout.is_empty(), "{run}");
}

fn guards_ahead() {
    let run = four(&[], "4", |number| match number {
        1 | 2 => format!("command = 'exit 1'\nunless_command = 'echo from {number} >&2; {}'", meets(number, 2)),
        _ => "command = 'exit 1'\nunless_command = 'echo from the others >&2'".to_owned(),
    });
    assert!(run.success(), "{run}");
    let said: Vec<String> = run.stderr_lossy().lines().map(str::to_owned).collect();
    let guards: Vec<&str> = said.iter().filter_map(|line| line.strip_prefix("from ")).collect();
    assert_eq!(guards, ["the others", "1", "2", "the others"], "{run}");
}

fn guards_again() {
    // Run ahead, the third guard still finds the file that the command removes, and the fourth does not yet find the
    // file that it creates.
    let run = four(&[], "4", |number| {
        let [command, guard] = match number {
            0 => ["exit 1", "touch /tmp/there"],
            1 => ["touch /tmp/made; rm /tmp/there", "test -e /tmp/made"],
            2 => ["echo ran after it", "test -e /tmp/there"],
            _ => ["exit 1", "test -e /tmp/made"],
        };
        format!("command = '{command}'\nunless_command = '{guard}'")
    });
    assert!(run.success() && run.stdout_lossy().contains("ran after it\n"), "{run}");
}

fn beside_none() {
    let run = four(&[], "4", |number| match number {
        0 | 3 => format!("command = '{ALONE}'"),
        _ => format!("command = '[ ! -e /tmp/alone ] && {}'\nparallel = true", meets(number, 2)),
    });
    assert!(run.success(), "{run}");
}

/// Returns the definitions in the man page, each with the preceding text.
fn examples_of(page: &str) -> Vec<String> {
    let blocks = page.split("\n.Bd -literal -offset indent\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split("\n.Ed").next());
    let blocks: Vec<String> =
        blocks.filter(|block| block.contains("[[exec]]")).map(|block| block.replace("\\e", "\\")).collect();
    assert!(blocks.iter().all(|block| block.lines().all(|line| !line.starts_with('.'))));
    blocks
}

fn examples() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../man/holo-exec.8");
    let examples = examples_of(&fs::read_to_string(page).unwrap());
    assert_eq!(examples.len(), 3);
    let system = Overlay::new().plugin("exec");
    let plugins = [built("holo-files"), built("holo-exec")];
    let holorc = format!("plugin files={}\nplugin exec={}\n", plugins[0].display(), plugins[1].display());
    system.write("/etc/holorc", holorc);
    for (number, example) in examples.iter().enumerate() {
        system.write(format!("/usr/share/holo/exec/{number}.toml"), example);
    }
    // The examples require these.
    system.must("useradd --system www; mkdir -p /srv/www; chown www /srv/www");
    system.script("/usr/local/bin/newaliases", "#!/bin/sh\necho 'aliases are new' >>/tmp/log\n");
    system.script(
        "/usr/local/bin/make-index",
        "#!/bin/sh\necho \"index in $PWD by $(id -un)\" >>/tmp/log; touch $PWD/index\n",
    );
    system.script(
        "/usr/local/bin/firewall",
        "#!/bin/sh\ncase $1 in status) test -e /tmp/up ;; up) echo 'firewall is up'; touch /tmp/up ;; esac\n",
    );
    system.write("/etc/aliases", "stock\n");
    system.write("/usr/share/holo/files/01-x/etc/aliases", "root: me\n");
    let run = system.holo(&["check"]);
    assert_eq!(run.stderr_lossy(), ">> Would be refreshed\n", "{run}");
    assert!(run.stdout_lossy().contains("would run make-index\n"), "{run}");
    let run = system.holo(&["apply"]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    let mut log: Vec<String> = system.must("cat /tmp/log").to_string().lines().map(str::to_owned).collect();
    log.sort();
    assert_eq!(log, ["aliases are new", "index in /srv/www by www"]);
    assert!(system.exists("/tmp/up"), "{run}");
    let run = system.holo(&["apply"]);
    assert!(run.success() && run.stdout.is_empty(), "{run}");
}
