//! Values that entities send to others, from the sender to the receiver: with short shell plugins, and with our plugins
//! on a temporary system.

use bstr::{BString, ByteSlice};
use holo_testing::disturb::{self, CALLS, Disturbance, Seen};
use holo_testing::overlay::NEEDS;
use holo_testing::{Need, Overlay, Run, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::fs;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = holo_testing::trials![
        example_of_the_manual_works,
        circular_values_are_an_error,
        failed_or_missing_sender_is_reported_at_the_receiver,
        receiver_waits_until_the_value_is_sent,
        every_key_can_be_received_empty_or_multiline,
        value_is_kept_for_runs_without_its_sender,
        renamed_sender_is_a_new_sender,
        noop_sender_sends_current_values_only,
    ];
    let on_system: [(&str, fn()); 2] = [
        ("any text arrives as it was sent, and what cannot be sent is said", any_text),
        ("what is sensitive is shown nowhere", sensitive),
    ];
    trials.extend(on_system.map(|(name, test)| trial_of(name, NEEDS, test)));
    let kill = "a kill at any system call loses no value and doubles no change";
    trials.push(trial_of(kill, &[Need::Program("strace")], killed_everywhere));
    trials
}

/// Returns the stored values, one per line.
fn kept(root: &ScratchRoot) -> String {
    let run = root.holo(&["state", "export"]);
    assert!(run.success(), "{run}");
    run.stdout_lossy().lines().filter(|line| line.contains("\"sent_value\"")).map(|line| format!("{line}\n")).collect()
}

/// Returns the example of the manual.
fn example() -> String {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/man/holo-plugin-interface.7")).unwrap();
    let after = page.split("This plugin has a sender and a receiver").nth(1).unwrap();
    let block = after.split(".Bd -literal -offset indent\n").nth(1).unwrap();
    block.split(".Ed").next().unwrap().replace("\\e", "\\")
}

fn with_example(root: ScratchRoot) -> ScratchRoot {
    let root = root.binary(built("holo")).holorc("plugin x\n").dir("usr/share/holo/x").dir("srv");
    root.script("usr/lib/holo/holo-x", example()).file("etc/port", "80\n")
}

/// Runs holo, and asserts its exit status and that its output contains these texts.
#[track_caller]
fn expect(root: &ScratchRoot, arguments: &[&str], status: i32, said: &[&str]) -> Run {
    let run = root.holo(arguments);
    assert_eq!(run.status, Some(status), "{run}");
    for said in said {
        assert!(run.to_string().contains(said), "expected {said:?}\n{run}");
    }
    run
}

#[track_caller]
fn nothing_to_do(root: &ScratchRoot) {
    let run = expect(root, &["apply"], 0, &[]);
    assert!(run.stdout.is_empty() && run.stderr.is_empty(), "{run}");
}

fn example_of_the_manual_works() {
    let root = with_example(ScratchRoot::new());
    expect(&root, &["check"], 3, &["would write 80"]);
    assert!(kept(&root).is_empty(), "a check keeps nothing");
    expect(&root, &["apply"], 0, &["Working on page:index"]);
    assert_eq!(root.read("srv/page"), "80\n");
    nothing_to_do(&root);
    root.write("etc/port", "8080\n");
    expect(&root, &["check"], 3, &["would write 8080"]);
    expect(&root, &["apply"], 0, &[]);
    assert_eq!(root.read("srv/page"), "8080\n");
    nothing_to_do(&root);
    let plugin = root.path().join("usr/lib/holo/holo-x");
    let check = ["plugin", "check", "--root", root.path().to_str().unwrap(), plugin.to_str().unwrap()];
    expect(&root, &check, 0, &[]);
}

/// Returns a plugin with this scan report, and these commands for work on entities.
fn plugin(scan: &str, work: &str) -> String {
    let scan = scan.replace('\n', "\\n");
    format!(
        "#!/bin/sh\ncase $1 in\ninfo) printf 'MIN_API_VERSION=3\\nMAX_API_VERSION=4\\n' ;;\nscan) printf '{scan}' ;;\n\
         check|apply) {work} ;;\nesac\n"
    )
}

/// Returns a root with the plugin `a`, which sends, and `b`, which receives.
fn sender_and_receiver(sends: &str, receives: &str) -> ScratchRoot {
    let root = ScratchRoot::new().binary(built("holo")).holorc("plugin a\nplugin b\n");
    let root = root.dir("usr/share/holo/a").dir("usr/share/holo/b").dir("srv");
    let work =
        "printf '%s' \"$(echo \"${HOLO_RECEIVED-nothing}\")\" >\"$HOLO_ROOT_DIR/srv/received\"; echo 'changed: it' >&3";
    root.script("usr/lib/holo/holo-a", plugin("ENTITY: a:1\n", sends))
        .script("usr/lib/holo/holo-b", plugin(&format!("ENTITY: b:1\nRECEIVES: key {receives}\n"), work))
}

const SENDS: &str = "echo \"not changed\nsend: x=$(cat \"$HOLO_ROOT_DIR/etc/x\")\" >&3";

fn circular_values_are_an_error() {
    let root = ScratchRoot::new().binary(built("holo")).holorc("plugin a\n").dir("usr/share/holo/a");
    let circle = "ENTITY: a:1\nRECEIVES: key a:2#x\nENTITY: a:2\nRECEIVES: key a:1#x\nENTITY: a:3\n";
    root.write_script("usr/lib/holo/holo-a", plugin(circle, "echo 'changed: it' >&3"));
    let run = root.holo(&["apply"]);
    assert!(!run.success() && run.stderr_lossy().contains("a:1") && run.stderr_lossy().contains("a:2"), "{run}");
    let itself = "ENTITY: a:1\nRECEIVES: key a:1#x\nENTITY: a:3\n";
    root.write_script("usr/lib/holo/holo-a", plugin(itself, "echo 'changed: it' >&3"));
    let run = root.holo(&["apply"]);
    assert!(!run.success() && run.stderr_lossy().contains("a:1"), "{run}");
}

fn failed_or_missing_sender_is_reported_at_the_receiver() {
    // The sender fails, with or without sending a value before.
    for work in ["exit 1", "echo 'send: x=1' >&3; exit 1"] {
        let root = sender_and_receiver(work, "a:1#x");
        expect(&root, &["apply"], 1, &["receives key from a:1, which failed"]);
        assert!(!root.exists("srv/received") && kept(&root).is_empty());
    }
    let root = sender_and_receiver(SENDS, "a:0#x");
    expect(&root, &["apply"], 1, &["receives key from a:0, which does not exist"]);
    // The plugin of the sender fails, or is missing.
    for scan in ["exit 1", "kill -9 $$"] {
        let root = sender_and_receiver(SENDS, "a:1#x").file("etc/x", "1");
        let broken =
            format!("#!/bin/sh\n[ $1 = info ] && printf 'MIN_API_VERSION=3\\nMAX_API_VERSION=4\\n' && exit\n{scan}\n");
        root.write_script("usr/lib/holo/holo-a", broken);
        let run = root.holo(&["apply"]);
        assert!(!run.success() && !root.exists("srv/received"), "{run}");
    }
}

fn receiver_waits_until_the_value_is_sent() {
    let root = sender_and_receiver("echo 'not changed' >&3", "a:1#x").file("etc/x", "1");
    for arguments in [&["apply"][..], &["apply", "b:1"]] {
        expect(&root, arguments, 3, &[">> receives key from a:1, which has not sent x yet"]);
        assert!(!root.exists("srv/received"));
    }
    root.write_script("usr/lib/holo/holo-a", plugin("ENTITY: a:1\n", SENDS));
    expect(&root, &["apply"], 0, &[]);
    assert_eq!(root.read("srv/received"), "key=1");
    // A received key has no value to show before.
    let root = ScratchRoot::new().binary(built("holo")).plugin("exec");
    let definitions = "[[exec]]\nname = 'a'\ncommand = 'echo a'\n[[exec]]\nname = 'b'\nreceive = { command = 'exec:SENDER#stdout' }\n";
    root.write("usr/share/holo/exec/01.toml", definitions.replace("SENDER", "a"));
    expect(&root, &["scan"], 0, &["exec:b"]);
    expect(
        &root,
        &["check"],
        3,
        &["would run echo a", ">> receives command from exec:a, which has not sent stdout yet"],
    );
    // In test mode, a command sends this.
    expect(&root, &["apply"], 0, &["MOCK: echo a", "MOCK: MOCK"]);
    // An unknown sender is an error of the receiver only.
    root.write("usr/share/holo/exec/01.toml", definitions.replace("SENDER", "none"));
    let error = "!! receives command from exec:none, which does not exist";
    expect(&root, &["check"], 1, &["would run echo a", error]);
    expect(&root, &["apply"], 1, &["MOCK: echo a", error]);
}

/// Returns the definitions of a plugin's table in which each key receives a value, is empty, or has two lines.
fn definitions_of_all_keys(table: &str, schema: &serde_json::Value) -> String {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().map(|key| key.as_str().unwrap()).collect();
    let mut text = String::new();
    let mut number = 0;
    for key in schema["properties"].as_object().unwrap().keys() {
        for value in [
            format!("receive = {{ {key} = 'exec:sender#stdout' }}"),
            format!("{key} = ''"),
            format!("{key} = \"a\\nb\""),
        ] {
            number += 1;
            text += &format!("[[{table}]]\n{value}\n");
            for needed in required.iter().filter(|needed| **needed != key) {
                text += &match *needed {
                    "path" | "target" => format!("{needed} = '/srv/{table}/{number}'\n"),
                    "type" => "type = 'file'\n".to_owned(),
                    _ => format!("{needed} = 'n{number}'\n"),
                };
            }
        }
    }
    text
}

fn every_key_can_be_received_empty_or_multiline() {
    for (plugin, least) in [
        ("archives", 15),
        ("exec", 10),
        ("files", 40),
        ("packages", 5),
        ("scaffold", 15),
        ("services", 5),
        ("users-groups", 5),
    ] {
        let path = format!("{}/schema/holo-{plugin}.schema.json", env!("CARGO_MANIFEST_DIR"));
        let schema: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let definitions = |(table, of): (&String, &serde_json::Value)| {
            let items = &of["items"];
            let name = items["$ref"].as_str().and_then(|path| path.rsplit('/').next());
            definitions_of_all_keys(table, name.map_or(items, |name| &schema["$defs"][name]))
        };
        let text: String = schema["properties"].as_object().unwrap().iter().map(definitions).collect();
        let root = ScratchRoot::new().binary(built("holo")).plugin(plugin);
        root.write(format!("usr/share/holo/{plugin}/01.toml"), text);
        let run = root.holo(&["scan", "--porcelain"]);
        assert!(matches!(run.status, Some(0 | 1)), "{plugin}: {run}");
        let entities = run.stdout_lossy().lines().filter(|line| line.starts_with("ENTITY: ")).count();
        assert!(entities >= least, "{plugin}: {entities} entities\n{run}");
    }
}

fn value_is_kept_for_runs_without_its_sender() {
    let root = sender_and_receiver(SENDS, "a:1#x").file("etc/x", "1");
    // Without its sender in the run, a value that the sender can provide without a change is requested.
    expect(&root, &["apply", "b:1"], 0, &[]);
    assert_eq!(root.read("srv/received"), "key=1");
    root.write("etc/x", "2");
    expect(&root, &["apply", "b:1"], 0, &[]);
    assert_eq!(root.read("srv/received"), "key=1", "the last value that was sent");
    expect(&root, &["apply"], 0, &[]);
    assert_eq!(root.read("srv/received"), "key=2");
    // A sender that fails later has sent a value before.
    root.write_script("usr/lib/holo/holo-a", plugin("ENTITY: a:1\n", "exit 1"));
    expect(&root, &["apply", "b:1"], 0, &[]);
    assert_eq!(root.read("srv/received"), "key=2");
}

fn renamed_sender_is_a_new_sender() {
    let root = sender_and_receiver(SENDS, "a:1#x").file("etc/x", "1");
    expect(&root, &["apply"], 0, &[]);
    root.write_script("usr/lib/holo/holo-a", plugin("ENTITY: a:2\n", SENDS));
    expect(&root, &["apply"], 1, &["receives key from a:1, which does not exist"]);
    assert!(!kept(&root).contains("a:1"), "what is gone has sent nothing");
    root.write_script("usr/lib/holo/holo-a", plugin("ENTITY: a:1\n", "echo 'not changed' >&3"));
    expect(&root, &["apply"], 3, &["receives key from a:1, which has not sent x yet"]);
}

fn noop_sender_sends_current_values_only() {
    let root = ScratchRoot::new().binary(built("holo")).plugin("files");
    let hours = crate::controls::other_hours();
    for hold in ["noop = true", &format!("schedule = {{ hours = '{hours}' }}")] {
        let definitions = format!(
            "[[file]]\npath = '/etc/a'\ncontent = 'one'\n{hold}\n\
             [[file]]\npath = '/etc/b'\nreceive = {{ content = 'file:/etc/a#sha256' }}\n"
        );
        root.write("usr/share/holo/files/01.toml", &definitions);
        let run = expect(&root, &["apply"], 3, &["receives content from file:/etc/a, wh"]);
        assert!(!root.exists("etc/a") && !root.exists("etc/b"), "{run}");
    }
    // Once it is in its desired state, it sends.
    root.write("etc/a", "one");
    let run = root.holo(&["apply"]);
    assert!(run.success() && root.read("etc/b").len() == 64, "{run}");
    // A value that depends on a pending change is not sent.
    let kept = root.read("etc/b");
    root.write("etc/a", "two");
    let run = root.holo(&["apply"]);
    assert_eq!((run.status, root.read("etc/b")), (Some(3), kept), "{run}");
}

/// Returns a system with commands and files.
fn system(command: &str, definitions: &str) -> Overlay {
    let system = Overlay::new();
    let line = |id: &str| format!("plugin {id}={}\n", built(&format!("holo-{id}")).display());
    system.write("/etc/holorc", line("exec") + &line("files"));
    system.must("rm -rf /etc/holorc.d /usr/share/holo; mkdir -p /usr/share/holo/exec /usr/share/holo/files");
    system.write("/usr/share/holo/exec/01.toml", format!("[[exec]]\nname = 'value'\n{command}\n"));
    system.write("/usr/share/holo/files/01.toml", definitions);
    system
}

fn any_text() {
    let file = "[[file]]\npath = '/etc/value'\nreceive = { content = 'exec:value#stdout' }\n";
    let system = system("command = ['cat', '/etc/source']\nlog_output = false", file);
    for text in [
        "",
        "plain",
        "two\nlines\n\n",
        "\ttab \"quotes\" 'and' \\n # no comment",
        "\u{fc}ml\u{e4}ut \u{1f980}",
        "=",
        "\r\n\u{1b}[0m",
    ] {
        system.write("/etc/source", text);
        let run = system.holo(&["apply"]);
        assert!(run.success(), "{text:?}: {run}");
        let expected = text.strip_suffix('\n').unwrap_or(text);
        assert_eq!(system.read("/etc/value"), expected, "{run}");
        assert_eq!(system.holo(&["apply", "file:/etc/value"]).stdout, "");
    }
    system.write("/etc/source", vec![b'x'; 32_768]);
    assert!(system.holo(&["apply"]).success());
    assert_eq!(system.read("/etc/value").len(), 32_768);
    system.write("/etc/source", "before");
    assert!(system.holo(&["apply"]).success());
    let too_long = vec![b'x'; 1 << 20];
    for value in [&b"nul\0"[..], &too_long] {
        system.write("/etc/source", value);
        let run = system.holo(&["apply"]);
        let said = "what it prints cannot be sent, as it has a NUL byte, or more than 32768 bytes";
        assert!(run.stderr_lossy().contains(said), "{run}");
        assert_eq!(system.read("/etc/value"), "before", "the last value that was sent");
    }
    system.write("/etc/source", b"\xff\xfe");
    let run = system.holo(&["apply"]);
    let said = "01.toml:3: file:/etc/value: content: the value is not UTF-8 (sent by exec:value as stdout)";
    assert!(run.status == Some(1) && run.stderr_lossy().contains(said), "{run}");
    assert_eq!(system.read("/etc/value"), "before");
}

/// Returns everything about a run that users or programs can see.
#[track_caller]
fn everything(system: &Overlay, arguments: &[&str]) -> BString {
    let run = system.holo(arguments);
    assert!(!run.stdout_lossy().contains("panicked"), "{run}");
    [run.stdout.as_bytes(), b"\n", run.stderr.as_bytes(), b"\n"].concat().into()
}

fn sensitive() {
    let file = "[[file]]\npath = '/etc/value'\nreceive = { content = 'exec:value#stdout' }\n\
                [[file]]\npath = '/etc/unfit'\ncontent = ''\nreceive = { mode = 'exec:value#stdout' }\n\
                [[file]]\npath = '/etc/digest'\nreceive = { content = 'file:/etc/value#sha256' }\n";
    let system = system("command = ['cat', '/etc/source']\nsensitive = true", file);
    let mut seen = BString::default();
    let secrets = ["hunter2-the-first", "hunter2-the-second"];
    for secret in secrets {
        system.write("/etc/source", format!("{secret}\n"));
        for arguments in [
            &["scan"][..],
            &["check"],
            &["check", "--diff"],
            &["check", "--json"],
            &["check", "--diff", "--json"],
            &["apply", "--json"],
            &["apply"],
            &["diff"],
            &["scan", "--json"],
        ] {
            seen.extend(everything(&system, arguments).iter());
        }
        assert_eq!(system.read("/etc/value"), secret);
        // It is not shown in the difference of a manual change either.
        system.write("/etc/value", format!("{secret}, changed by somebody"));
        for arguments in [&["diff"][..], &["check", "--diff"], &["apply"], &["apply", "--json"], &["apply", "--force"]]
        {
            seen.extend(everything(&system, arguments).iter());
        }
    }
    for arguments in [
        &["history"][..],
        &["history", "--json"],
        &["history", "file:/etc/value"],
        &["report"],
        &["doctor"],
        &["generations"],
        &["why", "/etc/value"],
        &["why", "--json", "file:/etc/value"],
        &["definitions", "files"],
        &["definitions", "exec"],
        &["blame", "/etc/value"],
        &["graph"],
        &["adopt", "/etc/value"],
    ] {
        seen.extend(everything(&system, arguments).iter());
    }
    seen.extend_from_slice(&system.must(&format!("find /var/lib/holo/.engine /etc/holo -type f -exec cat {{}} + 2>&1 || true; {} state export | grep -v -e sent_value -e '\"table\":\"blob\"'", built("holo").display())));
    for hidden in ["hunter2", "hush"] {
        let at = seen.find(hidden).map(|at| BString::from(&seen[at.saturating_sub(400)..(at + 100).min(seen.len())]));
        assert_eq!(at, None);
    }
    let open = system.must("find /var/lib/holo -type f -perm /077 -exec grep -l hunter2 {} + || true");
    assert_eq!(open, "", "only root may read what is kept of it");
}

fn killed_everywhere() {
    let undisturbed = killed_root();
    expect(&undisturbed, &["apply"], 0, &[]);
    let expected = kept(&undisturbed);
    let kills = disturb::everywhere(CALLS, |call, number| killed_once(call, number, &expected));
    assert!(kills > 10, "only {kills} kills: the test does not test what it says");
}

/// Returns a root in which one value was sent and received, and another one is due.
fn killed_root() -> ScratchRoot {
    let root = with_example(ScratchRoot::in_memory());
    expect(&root, &["apply"], 0, &[]);
    root.write("etc/port", "8080\n");
    root
}

fn killed_once(call: &str, number: usize, expected: &str) -> Seen {
    let root = killed_root();
    // The plugin is a script, whose own writes are not tested.
    let (_, seen) = disturb::dispatcher_at(&root, &["apply"], call, number, Disturbance::Kill);
    let moment = format!("killed at {call} number {number}");
    // A received value implies that the sender's value is stored.
    let (page, values) = (root.read("srv/page"), kept(&root));
    let is_kept = values.contains("8080");
    assert!(page == "80\n" || is_kept, "{moment}: {page} was made of what is not kept: {values}");
    let run = root.holo(&["apply", "page:index"]);
    assert!(run.success(), "{moment}: {run}");
    assert_eq!(root.read("srv/page"), if is_kept { "8080\n" } else { "80\n" }, "{moment}: {run}");
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{moment}: {run}");
    assert_eq!((root.read("srv/page"), kept(&root)), ("8080\n".into(), expected.to_owned()), "{moment}: {run}");
    assert_eq!(root.holo(&["apply"]).stdout, "", "{moment}");
    seen
}
