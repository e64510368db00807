//! `holo watch`: what it detects and repairs, and what it costs while idle.

mod controls;
mod ends;
mod plan;
mod requests;
mod robust;
mod trees;

use bstr::ByteSlice;
use holo_process::{Channel, Event, Process, Program, Status};
use holo_testing::require::FANOTIFY;
use holo_testing::{Need, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};

/// How long a busy machine may take to detect a change.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to wait when no output is expected.
const SILENCE: Duration = Duration::from_millis(1500);

/// A plugin that watches its entity itself, as no path shows its changes: a line in a FIFO is an event.
const PLUGIN: &str = include_str!("../../test-scenarios/plugins/watching");

const IN_NAMESPACES: [Need; 2] = [Need::Program("unshare"), Need::Trial("user namespaces", has_user_namespaces)];
const AS_NOBODY: [Need; 2] = [Need::Root, Need::Program("setpriv")];

pub(crate) fn trials() -> Vec<Trial> {
    let case = |name, case: fn()| trial_of(name, &[], case);
    vec![
        case("what happens to a file is noticed, and that it is back", noticed),
        case("what happens to the way to a file is noticed", on_the_way),
        case("what happens below the target of a scaffold is repaired", trees::scaffold),
        case("what happens to an extracted file is repaired", trees::archive),
        case("what happens below a recursive directory is repaired", trees::recursive),
        case("directories that come and go are forgotten", trees::short_lived),
        case("what is below a new target is watched", trees::new),
        case("definitions that change are read anew", definitions),
        case("services are told, and the registry is read anew when it changes", registry),
        case("the agent's configuration is no definition", configuration_of_agent),
        case("the generation that is used counts", generations),
        case("what has drifted is repaired, but for what needs force", repaired),
        case("what a person has edited is kept and overwritten at once if that is the policy", overwritten),
        case("what is repaired again and again is left alone until definitions change", fights),
        case("a definition that changes ends no fight over others", fights_of_others),
        trial_of("who writes what is fought for is named", &[Need::Root, FANOTIFY], writers),
        case("who is refreshed by a repair is refreshed", refreshed),
        case("a plugin tells what no path shows", told_by_plugins),
        case("the plugin of the manual is that of the scenario", manual),
        case("a plugin that watches no longer is warned of, and started again", plugin_ends),
        case("only processes that wait give memory back at once", memory),
        case("it ends when it has been quiet, as things are then", ends::converged),
        case("it ends with a failure if an entity fails for good", ends::failed),
        case("it ends with a failure if a definition is wrong", ends::flawed),
        case("it does not end while something happens, and not well after a fight", ends::changed_meanwhile),
        case("it ends after an event", ends::once),
        case("what an entity requires is repaired before it, though nothing is heard of it", plan::required),
        case("what depends on an entity is looked at when that is repaired", plan::dependents),
        case("what was hindered is repaired when what it requires is back", plan::hindered),
        case("what is left alone is not taken along", plan::left_alone),
        case("what is left alone is refreshed all the same", plan::refreshed),
        case("who receives a value from what is repaired is changed with it", plan::receivers),
        case("it ends when nobody reads what it says any more", unread),
        trial_of("an idle watch makes no system call", &[Need::Program("strace")], idle),
        trial_of("a limit of the system is named", &IN_NAMESPACES, limits),
        trial_of("the number of directories that it names suffices", &IN_NAMESPACES, robust::number_needed),
        trial_of("a file system that is unmounted is noticed, and nothing else", &IN_NAMESPACES, robust::unmounted),
        trial_of("a root that becomes read-only hinders repairs alone", &IN_NAMESPACES, robust::read_only),
        trial_of("what a user may not read is not watched", &AS_NOBODY, robust::normal_user),
        trial_of("when events are lost, everything is looked at once", &[], robust::overflow),
        trial_of(
            "what drifts while plugins are scanned is repaired before everything is checked",
            &[],
            robust::during_survey,
        ),
        trial_of("what was killed in a repair is repaired by the next one", &[], robust::killed),
        trial_of("what a plugin that dies leaves unrepaired is tried again", &[], robust::plugin_killed),
        trial_of("a plugin whose program was missing is used again when it comes back", &[], robust::plugin_missing),
        trial_of("it ends in a repair when it is asked to", &[], robust::ended),
        case("errors of definitions do not end it", broken),
        case("what is polled is looked at though nothing is heard of it", controls::polled),
        case("an entity has a limit of its own", controls::limited),
        case("what is only checked is reported and not repaired", controls::noop),
        case("outside of its schedule an entity is not repaired, nor refreshed", controls::scheduled),
        case("what happens before a plugin listens is found", controls::missed),
        case("runs that are asked for are done in between, each with its summary", requests::runs),
        case("a request that is none is named, and ends nothing", requests::nonsense),
        case("it shows that it is alive, also during a long run", requests::alive),
        case("a run that is asked to end ends the watch", requests::ended),
    ]
}

/// A running `holo watch --json`.
struct Watching {
    process: Process,
    unread: Vec<u8>,
    status: Option<Status>,
    /// The lines up to the one that reports that it is watching.
    first: Vec<Value>,
}

impl Watching {
    /// Starts it, and waits until it is watching.
    fn start(root: &ScratchRoot, arguments: &[&str]) -> Watching {
        let mut holo = Program::new(built("holo"));
        holo.args(["watch", "--json"]).args(arguments).current_dir(root.path());
        holo.env("HOLO_ROOT_DIR", root.path()).env("TMPDIR", root.join("tmp")).env("LC_ALL", "C");
        if arguments.contains(&"--requests") {
            holo.requests();
        }
        let mut watching =
            Watching { process: holo.start().unwrap(), unread: Vec::new(), status: None, first: Vec::new() };
        watching.first = watching.until("watching");
        watching
    }

    /// Returns the lines up to and including the first one with this event.
    #[track_caller]
    fn until(&mut self, event: &str) -> Vec<Value> {
        let mut lines = Vec::new();
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let Some(line) = self.next(PATIENCE) else { break };
            let is_it = line["event"] == event;
            lines.push(line);
            if is_it {
                return lines;
            }
        }
        panic!("there is no {event}, but {lines:#?}")
    }

    /// Returns the next line, if one comes in time. That definitions changed while they were read depends on when the test wrote them.
    fn next(&mut self, within: Duration) -> Option<Value> {
        let begun = Instant::now();
        loop {
            if let Some(end) = self.unread.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                let line: Value = serde_json::from_slice(&line).unwrap();
                let text = line["text"].as_str().unwrap_or_default();
                if line["event"] == "warning" && text.starts_with("Reading the inputs again: ") {
                    continue;
                }
                return Some(line);
            }
            if self.status.is_some() || begun.elapsed() > within {
                return None;
            }
            let Watching { process, unread, status, .. } = self;
            process
                .wait(None, &mut |event| match event {
                    Event::Chunk(Channel::Stdout, bytes) => unread.extend_from_slice(bytes),
                    Event::Ended(exit) => *status = Some(exit.status),
                    _ => {}
                })
                .unwrap();
        }
    }

    /// Expects an event about an entity next, and returns it.
    #[track_caller]
    fn expect(&mut self, event: &str, id: &str) -> Value {
        let line = self.next(PATIENCE).unwrap_or_else(|| panic!("there should be {event} {id}, but nothing is said"));
        assert!(line["event"] == event && line["id"] == id, "there should be {event} {id}, but there is {line}");
        line
    }

    /// Expects no output.
    #[track_caller]
    fn expect_silence(&mut self) {
        let line = self.next(SILENCE);
        assert!(line.is_none(), "{line:?}");
    }

    /// Waits for its end, and returns the exit code.
    #[track_caller]
    fn end(&mut self) -> Option<i32> {
        let begun = Instant::now();
        while self.status.is_none() && begun.elapsed() < PATIENCE {
            self.next(Duration::from_millis(100));
        }
        self.status.and_then(Status::code)
    }

    /// Requests its end, and expects it.
    #[track_caller]
    fn stop(mut self, root: &ScratchRoot) {
        kill_process(Pid::from_raw(self.process.id().cast_signed()).unwrap(), Signal::TERM).unwrap();
        assert_eq!(self.end(), Some(143));
        let left: Vec<_> = fs::read_dir(root.join("tmp")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.is_empty(), "{left:?} is left");
    }
}

/// Returns a root with an overlay of `/etc/motd` and the declared file `/srv/app/conf`.
fn root() -> ScratchRoot {
    let root = ScratchRoot::new().binary(built("holo")).plugin("files");
    let root =
        root.file("etc/os-release", "ID=unittest\n").file("etc/motd", "stock\n").dir("srv/app").dir("etc/holorc.d");
    let root = root.resource("files/10-site/etc/motd", "hello\n").resource("files/app.toml", APP);
    assert!(root.holo(&["apply"]).success());
    root
}

const APP: &str = "[[file]]\npath = \"/srv/app/conf\"\ncontent = \"port 80\\n\"\n";

const SERVICE: &str = "{ cluster = \"eu\", service = \"web\", protocol = \"http\", port = 80 }";

fn noticed() {
    let root = root();
    let mut watching = Watching::start(&root, &[]);
    let before = fs::read(root.join("srv/app/conf")).unwrap();
    fs::write(root.join("srv/app/conf"), "port 81\n").unwrap();
    let drifted = watching.expect("drifted", "file:/srv/app/conf");
    assert!(drifted["reason"] == "it was written" && drifted["needs_force"] == true, "{drifted}");
    fs::write(root.join("srv/app/new"), before).unwrap();
    fs::rename(root.join("srv/app/new"), root.join("srv/app/conf")).unwrap();
    watching.expect("returned", "file:/srv/app/conf");
    fs::remove_file(root.join("etc/motd")).unwrap();
    assert_eq!(watching.expect("drifted", "file:/etc/motd")["reason"], "it was removed");
    // Unrelated files are not checked.
    fs::write(root.join("etc/other"), "x").unwrap();
    watching.expect_silence();
    watching.stop(&root);
}

/// Returns the lines of a watch with all kinds of events.
pub(crate) fn all_lines() -> Vec<Value> {
    let root = root();
    root.write("usr/share/holo/files/app.toml", format!("{APP}register = [{SERVICE}]\n"));
    let mut watching = Watching::start(&root, &["--apply"]);
    fs::write(root.join("srv/app/conf"), "port 81\n").unwrap();
    let mut lines = std::mem::take(&mut watching.first);
    lines.extend(watching.until("drifted"));
    fs::write(root.join("srv/app/conf"), "port 80\n").unwrap();
    lines.extend(watching.until("returned"));
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    lines.extend(watching.until("repaired"));
    // By now the writer is known, if the system supports it.
    fs::write(root.join("srv/app/conf"), "port 81\n").unwrap();
    lines.extend(watching.until("drifted"));
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    fs::create_dir(root.join("srv/app/conf")).unwrap();
    lines.extend(watching.until("failed"));
    watching.stop(&root);
    lines.extend(requests::lines());
    lines
}

fn on_the_way() {
    let root = root();
    let mut watching = Watching::start(&root, &[]);
    fs::rename(root.join("srv/app"), root.join("srv/gone")).unwrap();
    watching.expect("drifted", "file:/srv/app/conf");
    fs::rename(root.join("srv/gone"), root.join("srv/app")).unwrap();
    watching.expect("returned", "file:/srv/app/conf");
    fs::rename(root.join("srv"), root.join("serve")).unwrap();
    watching.expect("drifted", "file:/srv/app/conf");
    fs::create_dir(root.join("srv")).unwrap();
    fs::rename(root.join("serve/app"), root.join("srv/app")).unwrap();
    watching.expect("returned", "file:/srv/app/conf");
    // The file is watched at its new location.
    fs::write(root.join("srv/app/conf"), "port 81\n").unwrap();
    watching.expect("drifted", "file:/srv/app/conf");
    watching.stop(&root);
}

fn definitions() {
    let root = root();
    let mut watching = Watching::start(&root, &[]);
    let new = APP.replace("/srv/app/conf", "/srv/app/new");
    fs::write(root.join("usr/share/holo/files/new.toml"), new).unwrap();
    watching.expect("drifted", "file:/srv/app/new");
    fs::write(root.join("srv/app/new"), "port 80\n").unwrap();
    watching.until("returned");
    fs::create_dir_all(root.join("etc/holo/resources/files/20-more/etc")).unwrap();
    fs::write(root.join("etc/holo/resources/files/20-more/etc/motd"), "other\n").unwrap();
    watching.expect("drifted", "file:/etc/motd");
    watching.stop(&root);
}

fn registry() {
    let root = root();
    root.write("usr/share/holo/files/app.toml", format!("{APP}register = [{SERVICE}]\n"));
    let mut watching = Watching::start(&root, &["--apply"]);
    let services = serde_json::json!([{
        "id": "file:/srv/app/conf", "cluster": "eu", "service": "web", "protocol": "http", "port": 80, "priority": 1, "ttl": 60
    }]);
    let told = |line: &Value| (line["read"].as_bool().unwrap(), line["services"].clone());
    assert_eq!(told(&watching.first[watching.first.len() - 2]), (false, services.clone()));
    let reader = "[[file]]\npath = \"/srv/app/reader\"\ncontent = \"{% for s in registrations('eu') %}{{ s.address }} {% endfor %}\"\n";
    root.write("usr/share/holo/files/reader.toml.jinja", reader);
    let lines = watching.until("repaired");
    let told: Vec<_> = lines.iter().filter(|line| line["event"] == "registry").map(told).collect();
    assert_eq!(told, [(true, services)]);
    // More often than an entity may be repaired, as each time it is another one.
    for number in 1..=5 {
        let snapshot = format!("[{{\"cluster\":\"eu\",\"address\":\"web{number}\"}}]");
        root.write("var/lib/holo-fleet/new", snapshot);
        let [from, to] = ["new", "registry.json"].map(|name| root.join("var/lib/holo-fleet").join(name));
        fs::rename(from, to).unwrap();
        watching.expect("drifted", "file:/srv/app/reader");
        watching.expect("repaired", "file:/srv/app/reader");
        assert_eq!(root.read("srv/app/reader"), format!("web{number} "));
    }
    // Conditions and entities that are made of it count as well.
    root.write("usr/share/holo/files/reader.toml.jinja", "");
    root.write("usr/share/holo/files/app.toml", format!("{APP}register = [{SERVICE}]\nif = \"registrations('us')\"\n"));
    let lines = watching.until("registry");
    assert_eq!(
        (&lines[lines.len() - 1]["read"], &lines[lines.len() - 1]["services"]),
        (&true.into(), &serde_json::json!([]))
    );
    watching.stop(&root);
}

fn configuration_of_agent() {
    let root = root_of_plugin();
    let note = "#!/bin/sh\n[ \"$1\" != scan ] || echo >>\"$HOLO_ROOT_DIR/run/scans\"\n";
    root.write_script("usr/lib/holo/holo-demo", PLUGIN.replacen("#!/bin/sh\n", note, 1));
    let mut watching = Watching::start(&root, &[]);
    watching.expect_silence();
    let scans = || root.read("run/scans").len();
    let before = scans();
    for text in ["interval = \"1h\"\n", "interval = \"2h\"\n"] {
        root.write("etc/holo/agent.new", text);
        fs::rename(root.join("etc/holo/agent.new"), root.join("etc/holo/agent.toml")).unwrap();
        watching.expect_silence();
        assert_eq!(scans(), before);
    }
    // Otherwise, the test would see nothing.
    for path in ["etc/holo/data/common.toml", "etc/holo/facts.d/site.toml", "etc/holo/engine.toml", "etc/holo/age.key"]
    {
        let before = scans();
        root.write(path, "");
        let begun = Instant::now();
        while scans() == before {
            assert!(begun.elapsed() < PATIENCE, "{path} is not noticed");
            std::thread::sleep(Duration::from_millis(10));
        }
        watching.expect_silence();
    }
    watching.stop(&root);
}

fn generations() {
    let root = root().env("HOLO_HISTORY", "1");
    root.write("usr/share/holo/files/app.toml", APP.replace("80", "82"));
    assert!(root.holo(&["apply"]).success());
    root.write("usr/share/holo/files/app.toml", APP.replace("80", "84"));
    assert!(root.holo(&["apply"]).success());
    let mut watching = Watching::start(&root, &["--apply"]);
    assert!(root.holo(&["rollback", "1"]).success());
    assert_eq!(root.read("srv/app/conf"), "port 82\n");
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    watching.until("repaired");
    assert_eq!(root.read("srv/app/conf"), "port 82\n");
    assert!(root.holo(&["rollback", "--release"]).success());
    watching.until("repaired");
    assert_eq!(root.read("srv/app/conf"), "port 84\n");
    watching.stop(&root);
}

fn repaired() {
    let root = root();
    let mut watching = Watching::start(&root, &["--apply"]);
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    watching.expect("drifted", "file:/srv/app/conf");
    watching.expect("repaired", "file:/srv/app/conf");
    assert_eq!(root.read("srv/app/conf"), "port 80\n");
    // Its own repair is not drift.
    watching.expect_silence();
    fs::write(root.join("srv/app/conf"), "port 81\n").unwrap();
    assert_eq!(watching.expect("drifted", "file:/srv/app/conf")["needs_force"], true);
    watching.expect_silence();
    assert_eq!(root.read("srv/app/conf"), "port 81\n");
    watching.stop(&root);
    let mut watching = Watching::start(&root, &["--apply", "--force", "file:/srv/app/conf"]);
    watching.expect("repaired", "file:/srv/app/conf");
    assert_eq!(root.read("srv/app/conf"), "port 80\n");
    watching.stop(&root);
}

fn overwritten() {
    let root = root();
    let mut watching = Watching::start(&root, &["--apply", "--on-edit", "overwrite"]);
    for (path, id, edited, made) in [
        ("etc/motd", "file:/etc/motd", "hi\n", "hello\n"),
        ("srv/app/conf", "file:/srv/app/conf", "port 81\n", "port 80\n"),
    ] {
        fs::write(root.join(path), edited).unwrap();
        let drifted = watching.expect("drifted", id);
        assert_eq!(
            (&drifted["needs_force"], &drifted["reason"]),
            (&Value::Null, &"it was written".into()),
            "{drifted}"
        );
        let repaired = watching.expect("repaired", id);
        assert!(repaired.to_string().contains("kept the edited version of "), "{repaired}");
        assert_eq!(root.read(path), made);
        assert_eq!(root.holo(&["history", "edited", id]).stdout, edited);
    }
    watching.stop(&root);
}

fn fights() {
    let root = root();
    let mut watching = Watching::start(&root, &["--apply", "--settle", "20ms"]);
    for _ in 0..3 {
        fs::remove_file(root.join("srv/app/conf")).unwrap();
        watching.until("repaired");
    }
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    watching.expect("drifted", "file:/srv/app/conf");
    let error = watching.expect("failed", "file:/srv/app/conf")["reason"].to_string();
    assert!(error.contains("repaired 3 times within 10m"), "{error}");
    watching.expect_silence();
    assert!(!root.exists("srv/app/conf"));
    fs::write(root.join("usr/share/holo/files/app.toml"), APP.replace("80", "82")).unwrap();
    watching.until("repaired");
    assert_eq!(root.read("srv/app/conf"), "port 82\n");
    watching.stop(&root);
}

fn fights_of_others() {
    let definition = |name: &str, port: u32| APP.replace("/conf", &format!("/{name}")).replace("80", &port.to_string());
    let root = root();
    let define = |port| root.write("usr/share/holo/files/app.toml", definition("one", port) + &definition("two", 80));
    define(80);
    assert!(root.holo(&["apply"]).success());
    let mut watching = Watching::start(&root, &["--apply", "--settle", "20ms"]);
    let remove = |name: &str| fs::remove_file(root.join("srv/app").join(name)).unwrap();
    for name in ["one", "two"] {
        for _ in 0..3 {
            remove(name);
            watching.until("repaired");
        }
        remove(name);
        watching.until("failed");
    }
    // The other definition in the same file is unchanged, and so is one in another file.
    define(82);
    watching.expect("repaired", "file:/srv/app/one");
    watching.expect_silence();
    assert!(root.read("srv/app/one") == "port 82\n" && !root.exists("srv/app/two"));
    root.write("usr/share/holo/files/new.toml", definition("new", 80));
    watching.until("repaired");
    watching.expect_silence();
    assert!(root.exists("srv/app/new") && !root.exists("srv/app/two"));
    // Data may affect all definitions.
    root.write("etc/holo/data/common.toml", "port = 1\n");
    watching.expect("repaired", "file:/srv/app/two");
    watching.stop(&root);
}

/// Writes a file in place or with a rename, like another manager, and stays alive long enough to be identified.
const OTHER_MANAGER: &str = r#"#!/bin/sh
if [ "$1" = in-place ]; then echo "port 1" >"$2"; else echo "port 2" >"$2.new"; mv "$2.new" "$2"; fi
sleep 1
"#;

fn writers() {
    let root = root().script("other-manager", OTHER_MANAGER);
    let mut watching = Watching::start(&root, &["--apply", "--force", "--settle", "20ms"]);
    let conf = root.join("srv/app/conf");
    let write = |how: &str| {
        let mut program = Program::new(root.join("other-manager"));
        program.arg(how).arg(&conf);
        program.start().unwrap()
    };
    // There has been no repair yet, so writers are not watched.
    let _first = write("in-place");
    assert_eq!(watching.expect("drifted", "file:/srv/app/conf")["writer"], Value::Null);
    watching.expect("repaired", "file:/srv/app/conf");
    for how in ["beside", "in-place"] {
        let writer = write(how);
        let drifted = watching.expect("drifted", "file:/srv/app/conf");
        assert_eq!(drifted["writer"]["pid"], writer.id(), "{how}: {drifted}");
        assert_eq!(drifted["writer"]["command"], "other-manager", "{how}: {drifted}");
        watching.expect("repaired", "file:/srv/app/conf");
    }
    let last = write("in-place");
    watching.expect("drifted", "file:/srv/app/conf");
    let error = watching.expect("failed", "file:/srv/app/conf")["reason"].to_string();
    assert!(error.contains(&format!("changed again: other-manager[{}] manages it", last.id())), "{error}");
    watching.stop(&root);
}

fn refreshed() {
    let root = root().plugin("exec").resource(
        "exec/note.toml",
        "[[exec]]\nname = \"note\"\ncommand = \"echo\"\nrefresh_only = true\nsubscribes = [\"file:/srv/app/conf\"]\n",
    );
    assert!(root.holo(&["apply"]).success());
    let mut watching = Watching::start(&root, &["--apply"]);
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    watching.expect("drifted", "file:/srv/app/conf");
    watching.expect("repaired", "file:/srv/app/conf");
    watching.expect("repaired", "exec:note");
    watching.stop(&root);
}

fn root_of_plugin() -> ScratchRoot {
    let root = ScratchRoot::new().binary(built("holo")).file("etc/os-release", "ID=unittest\n").dir("run");
    let root = root.script("usr/lib/holo/holo-demo", PLUGIN).holorc("plugin demo\n").dir("usr/share/holo/demo");
    assert!(root.run("mkfifo", &["run/demo.fifo"]).success());
    root
}

fn told_by_plugins() {
    let root = root_of_plugin();
    let mut watching = Watching::start(&root, &["--apply"]);
    watching.expect("repaired", "demo:state");
    fs::remove_file(root.join("run/demo.state")).unwrap();
    // No watched path shows the change.
    watching.expect_silence();
    fs::write(root.join("run/demo.fifo"), "somebody pulled the plug\n").unwrap();
    assert_eq!(watching.expect("drifted", "demo:state")["reason"], "somebody pulled the plug");
    watching.expect("repaired", "demo:state");
    watching.stop(&root);
}

fn manual() {
    let manual = include_str!("../../man/holo-plugin-interface.7").replace("\\e", "\\");
    let tree = include_str!("../../test-scenarios/dispatcher/48-watch/source-tree");
    let (_, plugin) = tree.split_once("./usr/lib/holo/holo-demo\n").unwrap();
    let (plugin, _) = plugin.split_once("-----").unwrap();
    assert!(plugin.lines().count() <= 10 && manual.contains(plugin), "{plugin}");
}

fn plugin_ends() {
    let root = root_of_plugin();
    let mut watching = Watching::start(&root, &["--apply"]);
    watching.expect("repaired", "demo:state");
    fs::write(root.join("run/demo.fifo"), "end\n").unwrap();
    let warning = watching.until("warning").pop().unwrap()["text"].to_string();
    assert!(warning.contains("The watch of plugin demo has ended: exit status 7"), "{warning}");
    // It is started again after a second, and what was missed until then is found.
    fs::remove_file(root.join("run/demo.state")).unwrap();
    watching.expect("drifted", "demo:state");
    watching.expect("repaired", "demo:state");
    fs::remove_file(root.join("run/demo.state")).unwrap();
    fs::write(root.join("run/demo.fifo"), "pulled\n").unwrap();
    assert_eq!(watching.expect("drifted", "demo:state")["reason"], "pulled");
    watching.expect("repaired", "demo:state");
    // It is warned of once, and the pauses become longer.
    for _ in 0..2 {
        fs::write(root.join("run/demo.fifo"), "end\n").unwrap();
        watching.expect_silence();
    }
    watching.stop(&root);
}

fn memory() {
    let root = root_of_plugin();
    let note = "#!/bin/sh\nprintf '%s\\n' \"$GLIBC_TUNABLES\" >>\"$HOLO_ROOT_DIR/run/memory-of-$1\"\n";
    root.write_script("usr/lib/holo/holo-demo", PLUGIN.replacen("#!/bin/sh\n", note, 1));
    let watching = Watching::start(&root, &[]);
    // It does not wait for the plugin's process to begin.
    let begun = Instant::now();
    while !root.exists("run/memory-of-watch") && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    let given = |operation: &str| {
        let said = fs::read_to_string(root.join(format!("run/memory-of-{operation}"))).unwrap();
        said.lines().filter(|line| !line.is_empty()).count()
    };
    let environment = fs::read(format!("/proc/{}/environ", watching.process.id())).unwrap();
    assert!(environment.contains_str("GLIBC_TUNABLES=glibc.malloc."), "{}", environment.as_bstr());
    assert_eq!((given("scan"), given("watch")), (0, 1));
    watching.stop(&root);
}

fn idle() {
    let root = root();
    let mut watching = Watching::start(&root, &["--apply"]);
    // From now on it watches for writers.
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    watching.until("repaired");
    watching.expect_silence();
    let trace = root.join("tmp/calls");
    let mut strace = Program::new("strace");
    strace.args(["-f", "-o"]).arg(&trace).arg("-p").arg(watching.process.id().to_string());
    // It is ended after its time.
    let _ = strace.timeout(Duration::from_secs(4)).grace(Duration::from_secs(1)).run(|_, _| {});
    let calls = fs::read_to_string(&trace).unwrap();
    fs::remove_file(trace).unwrap();
    let made: Vec<&str> = calls.lines().filter(|line| line.contains(" = ") && !line.contains("= ?")).collect();
    assert!(made.is_empty(), "{calls}");
    watching.stop(&root);
}

fn has_user_namespaces() -> bool {
    let root = ScratchRoot::new();
    root.run("unshare", &["--user", "--map-root-user", "true"]).success()
}

fn unread() {
    let root = root();
    // The shell waits for both; no events occur that holo could report.
    let script = "\"$0\" watch --json | head -n 1; echo over";
    let run = root.run("sh", &["-c", script, built("holo").to_str().unwrap()]);
    assert!(run.stdout_lossy().ends_with("\nover\n") && run.stderr.is_empty(), "{run}");
}

fn limits() {
    let root = root();
    let script = "echo 2 > /proc/sys/user/max_inotify_watches && exec \"$0\" watch --for 1s";
    let run = root.run("unshare", &["--user", "--map-root-user", "sh", "-c", script, built("holo").to_str().unwrap()]);
    assert_eq!(run.status, Some(255), "{run}");
    assert!(run.stderr_lossy().contains("directories are to be watched, and the system allows fewer"), "{run}");
    let allowed: usize = fs::read_to_string("/proc/sys/fs/inotify/max_user_watches").unwrap().trim().parse().unwrap();
    let said = run.stderr_lossy();
    let (_, proposed) = said.split_once("sysctl -w fs.inotify.max_user_watches=").unwrap();
    let proposed: usize = proposed.split(';').next().unwrap().parse().unwrap();
    assert!(proposed > allowed && said.contains(&format!("; now {allowed})")), "{run}");
}

fn broken() {
    let root = root();
    let mut watching = Watching::start(&root, &["--apply"]);
    fs::write(root.join("etc/holorc.d/99-bad"), "plugn files\n").unwrap();
    let error = watching.until("error").pop().unwrap()["text"].to_string();
    assert!(error.contains("unknown command: plugn files"), "{error}");
    watching.until("blind");
    fs::remove_file(root.join("etc/holorc.d/99-bad")).unwrap();
    assert_eq!(watching.until("watching").last().unwrap()["entities"], 2);
    fs::remove_file(root.join("srv/app/conf")).unwrap();
    watching.until("repaired");
    watching.expect_silence();
    // It is reported once, and again after its file was changed, or it was corrected.
    let definition = "usr/share/holo/files/90-broken.toml";
    for _ in 0..2 {
        root.write(definition, "[[file]]\npath = \"relative\"\n");
        let error = watching.until("error").pop().unwrap()["text"].to_string();
        assert!(error.contains("90-broken.toml:2"), "{error}");
        watching.expect_silence();
        root.write(definition, "[[file]]\npath = \"relative\"\n");
        assert!(watching.until("error").pop().unwrap()["text"].to_string().contains("90-broken.toml:2"));
        root.write("usr/share/holo/files/91-other.toml", "");
        watching.expect_silence();
        fs::remove_file(root.join(definition)).unwrap();
        watching.expect_silence();
    }
    watching.stop(&root);
}
