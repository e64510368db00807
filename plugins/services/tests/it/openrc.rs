//! Tests that bring services of a real OpenRC in a booted overlay into their declared states, and back.

mod killed;

use holo_testing::binaries::{built, directory};
use holo_testing::disturb;
use holo_testing::overlay::{NEEDS, Overlay};
use holo_testing::require::Need;
use holo_testing::{Run, ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

const OPENRC: Need = Need::Trial("target/openrc, which .ci/openrc makes", || folder().join("sbin/openrc-run").exists());

/// Replaces this machine's scripts with OpenRC, and boots it.
const INSTALL: &str = r"
rm -rf /etc/init.d /etc/runlevels /etc/conf.d
tar c -C $OPENRC . | tar x --keep-directory-symlink -C /
rm /etc/init.d/*; mkdir -p /etc/conf.d
: >/etc/insserv.conf; mkdir -p /etc/insserv.conf.d
";
const BOOT: &str = "mkdir -p /run/openrc; for level in sysinit boot default; do openrc $level; done";
const DAEMON: &str = "#!/sbin/openrc-run\ncommand=/bin/sleep\ncommand_args=86400\ncommand_background=true\npidfile=/run/$RC_SVCNAME.pid\n";

type Case = (&'static str, fn(&Host));

const CASES: &[Case] = &[
    ("a service is started and put into a runlevel, and comes back to how it was", starts_and_enables),
    ("a service is stopped and taken out of its runlevels, and comes back to them", stops_and_disables),
    ("runlevels that are named are those that a service is in", in_runlevels),
    ("a refresh restarts or reloads what runs, and starts what does not", refreshes),
    ("a service that fails is shown with what it has said, and keeps no other from starting", fails),
    ("a service that has crashed is started again", crashed),
    ("a service that somebody else is starting is waited for", being_started),
    ("a service that does not exist is stopped, and nothing else", missing),
    ("keys that OpenRC cannot have are said with their place", unsupported),
    ("the ID of a service's process is sent", sends),
    ("services in runlevels are adopted with them", adopted),
];

pub(crate) fn trials() -> Vec<Trial> {
    let needs = [NEEDS, &[OPENRC]].concat();
    let shared: Arc<Mutex<Option<Host>>> = Arc::default();
    let trial = |&(name, case): &Case| {
        let shared = shared.clone();
        trial_of(name, &needs, move || {
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let host = shared.get_or_insert_with(|| Host::new(true));
            host.tidy();
            case(host);
        })
    };
    let mut trials: Vec<Trial> = CASES.iter().map(trial).collect();
    let needs_strace = [&needs[..], disturb::NEEDS].concat();
    let name = "runlevels are right after a kill at any system call, and come back to what they were";
    trials.push(trial_of(name, &needs_strace, || killed::at_every_call(&Host::new(true))));
    trials.push(trial_of("where OpenRC has not booted, services can still be put into runlevels", &needs, || {
        not_booted(&Host::new(false));
    }));
    trials.push(trial_of("below a root where OpenRC is installed, everything is printed", &[], below_a_root));
    trials
}

fn folder() -> PathBuf {
    directory().unwrap().parent().unwrap().join("openrc")
}

/// A system whose services OpenRC manages.
struct Host {
    system: Overlay,
}

impl Host {
    fn new(is_booted: bool) -> Host {
        let system = Overlay::with(&[&folder()]).env("OPENRC", folder());
        system.must(INSTALL);
        system.must(if is_booted { BOOT } else { "rm /usr/lib/systemd/systemd" });
        let plugin = |id: &str| format!("plugin {id}={}\n", built(&format!("holo-{id}")).display());
        system.write("/etc/holorc", plugin("files") + &plugin("services"));
        system.must("rm -rf /etc/holorc.d; mkdir -p /usr/share/holo/files /usr/share/holo/services");
        Host { system }
    }

    fn tidy(&self) {
        self.system.must("rm -rf /usr/share/holo/*/* /var/lib/holo/*/* /var/lib/holo/.engine /var/lib/holo/state.db*");
    }

    #[track_caller]
    fn script(&self, name: &str, text: &str) {
        self.system.script(format!("/etc/init.d/{name}"), text);
    }

    #[track_caller]
    fn declare(&self, text: &str) {
        self.system.write("/usr/share/holo/services/10-case.toml", text);
    }

    /// Applies everything, and returns the output.
    #[track_caller]
    fn apply(&self) -> String {
        let run = self.system.holo(&["apply"]);
        assert!(run.success(), "{run}");
        run.stdout_lossy().into_owned() + &run.stderr_lossy()
    }

    #[track_caller]
    fn apply_fails(&self) -> String {
        let run = self.system.holo(&["apply"]);
        assert_eq!(run.status, Some(1), "{run}");
        run.stdout_lossy().into_owned() + &run.stderr_lossy()
    }

    fn check(&self) -> Run {
        self.system.holo(&["check"])
    }

    #[track_caller]
    fn nothing_to_do(&self) {
        assert_eq!(self.apply(), "");
        let check = self.check();
        assert_eq!(check.status, Some(0), "{check}");
    }

    /// Returns OpenRC's own word for the state of a service.
    #[track_caller]
    fn state(&self, name: &str) -> String {
        let said = self.system.must(&format!("rc-service --nocolor {name} status 2>&1 || :")).to_string();
        said.rsplit("status: ").next().unwrap_or_default().trim().to_owned()
    }

    /// Returns the runlevels of a service.
    #[track_caller]
    fn levels(&self, name: &str) -> String {
        let listed = self.system.must(&format!("cd /etc/runlevels; ls -d */{name} 2>/dev/null || :")).to_string();
        listed.lines().filter_map(|line| line.split('/').next()).collect::<Vec<_>>().join(" ")
    }
}

fn starts_and_enables(host: &Host) {
    host.script("start", DAEMON);
    host.declare("[[service]]\nname = 'start'\nenable = true\n");
    let check = host.check();
    assert_eq!(check.status, Some(3), "{check}");
    let said = check.stdout_lossy();
    assert!(said.contains("would enable start\n") && said.contains("would start start\n"), "{check}");
    assert_eq!((host.state("start"), host.levels("start")), ("stopped".into(), String::new()));
    let said = host.apply();
    assert!(said.contains("enabled start\n") && said.contains("started start\n"), "{said}");
    assert_eq!((host.state("start"), host.levels("start")), ("started".into(), "default".into()));
    host.nothing_to_do();
    host.declare("");
    let said = host.apply();
    assert!(said.contains("Scrubbing service:start"), "{said}");
    assert_eq!((host.state("start"), host.levels("start")), ("stopped".into(), String::new()));
    host.nothing_to_do();
    let records = host.system.sh(r#"holo state export | grep '"store":"services"'"#);
    assert!(records.stdout.is_empty(), "{records}");
}

fn stops_and_disables(host: &Host) {
    host.script("stop", DAEMON);
    host.system.must("rc-service stop start; rc-update add stop boot; rc-update add stop sysinit");
    host.declare("[[service]]\nname = 'stop'\nensure = 'stopped'\nenable = false\n");
    host.apply();
    assert_eq!((host.state("stop"), host.levels("stop")), ("stopped".into(), String::new()));
    host.nothing_to_do();
    host.declare("");
    host.apply();
    assert_eq!((host.state("stop"), host.levels("stop")), ("started".into(), "boot sysinit".into()));
    host.system.must("rc-service stop stop; rc-update del stop boot; rc-update del stop sysinit");
}

fn in_runlevels(host: &Host) {
    host.script("levels", DAEMON);
    let declare = |rest: &str| {
        host.declare(&format!("[[service]]\nname = 'levels'\nensure = 'unmanaged'\nenable = true\n{rest}"));
    };
    host.system.must("rc-update add levels boot");
    // It is enabled, and no runlevel is declared.
    declare("");
    host.nothing_to_do();
    declare("runlevels = ['default', 'sysinit']\n");
    host.apply();
    assert_eq!((host.state("levels"), host.levels("levels")), ("stopped".into(), "default sysinit".into()));
    host.nothing_to_do();
    declare("runlevels = ['nosuch']\n");
    let said = host.apply_fails();
    assert!(said.contains("!! cannot enable levels: rc-update: `nosuch' is not a valid runlevel\n"), "{said}");
    host.declare("");
    host.apply();
    assert_eq!(host.levels("levels"), "boot");
    host.system.must("rc-update del levels boot");
}

fn refreshes(host: &Host) {
    host.script("restarts", DAEMON);
    host.script("reloads", &format!("{DAEMON}extra_started_commands='reload'\nreload() {{ touch /run/reloaded; }}\n"));
    host.script("rests", DAEMON);
    let change = |word: &str| {
        host.system.write(
            "/usr/share/holo/files/10-case.toml",
            format!("[[file]]\npath = '/etc/refresh.conf'\ncontent = '{word}'\n"),
        );
    };
    change("first");
    let table = |name, rest| format!("[[service]]\nname = '{name}'\nsubscribes = ['file:/etc/refresh.conf']\n{rest}\n");
    host.declare(
        &[table("restarts", ""), table("reloads", "reload = true"), table("rests", "ensure = 'stopped'")].concat(),
    );
    host.apply();
    let process = |name: &str| host.system.must(&format!("cat /run/{name}.pid"));
    let (restarts, reloads) = (process("restarts"), process("reloads"));
    host.nothing_to_do();
    change("second");
    let said = host.apply();
    assert!(said.contains("restarted restarts\n") && said.contains("reloaded reloads\n"), "{said}");
    assert!(process("restarts") != restarts && process("reloads") == reloads && host.state("rests") == "stopped");
    assert!(host.system.exists("/run/reloaded"));
    host.nothing_to_do();
    host.declare("");
    host.system.must("rm /usr/share/holo/files/10-case.toml");
    host.apply();
}

fn fails(host: &Host) {
    host.script("fails", "#!/sbin/openrc-run\nstart() { eerror 'no such port'; return 1; }\n");
    host.script("slow", "#!/sbin/openrc-run\nstart() { sleep 20; }\n");
    host.script("works", DAEMON);
    let tables = ["fails", "works"].map(|name| format!("[[service]]\nname = '{name}'\n"));
    host.declare(&(tables.concat() + "[[service]]\nname = 'slow'\ntimeout = '500ms'\n"));
    let said = host.apply_fails();
    assert!(said.contains("!! cannot start fails: no such port\n"), "{said}");
    assert!(said.contains("!! cannot start slow: timed out after 500ms\n"), "{said}");
    assert_eq!((host.state("works"), host.state("fails")), ("started".into(), "stopped".into()));
    host.declare("");
    host.apply();
    assert_eq!(host.state("works"), "stopped");
}

fn crashed(host: &Host) {
    host.script("crashes", DAEMON);
    host.declare("[[service]]\nname = 'crashes'\n");
    host.apply();
    // As written by OpenRC's own start-stop-daemon, which Debian replaces with another one.
    let note = "exec=/bin/sleep\\nargv_0=/bin/sleep\\npidfile=/run/gone.pid\\n";
    // OpenRC only lists services whose dependencies it has cached, which a new script is not among.
    for dependencies in ["rc-update --update", ": >/run/openrc/deptree"] {
        host.system
            .must(&format!("mkdir -p /run/openrc/daemons/crashes; printf '{note}' >/run/openrc/daemons/crashes/001"));
        host.system.must(dependencies);
        assert_eq!(host.state("crashes"), "crashed");
        let check = host.check();
        assert!(check.stdout_lossy().contains("would start crashes\n"), "{dependencies}: {check}");
        let said = host.apply();
        assert!(said.contains("started crashes\n"), "{dependencies}: {said}");
        assert_eq!(host.state("crashes"), "started");
    }
    host.nothing_to_do();
    host.declare("");
    host.apply();
}

fn being_started(host: &Host) {
    host.script("lags", "#!/sbin/openrc-run\nstart() { sleep 2; }\n");
    host.declare("[[service]]\nname = 'lags'\n");
    host.system.must(
        "setsid rc-service lags start >/dev/null 2>&1 & until [ -e /run/openrc/starting/lags ]; do sleep 0.05; done",
    );
    let said = host.apply();
    assert!(said.contains("started lags\n"), "{said}");
    assert_eq!(host.state("lags"), "started");
    host.nothing_to_do();
    host.declare("");
    host.apply();
    assert_eq!(host.state("lags"), "started", "it was on its way up before us");
    // The start of a killed process does not end.
    host.system.must("rc-service lags stop; ln -s /etc/init.d/lags /run/openrc/starting/lags");
    host.declare("[[service]]\nname = 'lags'\ntimeout = '500ms'\n");
    let said = host.apply_fails();
    assert!(said.contains("!! cannot start lags: it is still starting\n"), "{said}");
    assert!(said.contains("\"rc-service lags zap\" resets it"), "{said}");
    host.system.must("rc-service lags zap");
}

fn missing(host: &Host) {
    host.declare("[[service]]\nname = 'missing'\nensure = 'stopped'\nenable = false\n");
    host.nothing_to_do();
    host.declare("[[service]]\nname = 'missing'\nenable = true\n");
    for verb in ["check", "apply"] {
        let run = host.system.holo(&[verb]);
        assert!(run.status == Some(1) && run.stderr_lossy().contains("!! missing does not exist\n"), "{run}");
    }
}

fn unsupported(host: &Host) {
    host.script("fine", DAEMON);
    host.declare(
        "[[service]]\nname = 'fine'\nmask = true\n[[service]]\nname = 'x\\\\y'\n[[service]]\nname = 'other'\nprovider = 'systemd'\n",
    );
    let run = host.system.holo(&["scan"]);
    let place = "/usr/share/holo/services/10-case.toml";
    for problem in [
        format!("!! {place}:1: service:fine: mask: OpenRC cannot mask services\n"),
        format!("!! {place}:6: service:other: provider: the services of this host are managed by openrc\n"),
    ] {
        assert!(run.stderr_lossy().contains(&problem), "{run}");
    }
    assert!(run.stderr_lossy().contains(" is not a valid name of a service of OpenRC\n"), "{run}");
}

fn sends(host: &Host) {
    host.script("sends", DAEMON);
    host.declare("[[service]]\nname = 'sends'\n");
    let receiver = "[[file]]\npath = '/etc/pid'\nreceive = { content = 'service:sends#pid' }\n";
    host.system.write("/usr/share/holo/files/10-case.toml", receiver);
    host.apply();
    assert_eq!(host.system.read("/etc/pid").to_string().trim(), host.system.read("/run/sends.pid").to_string().trim());
    host.declare("");
    host.system.must("rm /usr/share/holo/files/10-case.toml");
    host.apply();
}

fn adopted(host: &Host) {
    host.script("kept", DAEMON);
    host.system.must("rc-update add kept boot; rc-service kept start");
    let run = host.system.holo(&["adopt", "--all", "--dry-run"]);
    assert!(run.stdout_lossy().contains("service:kept"), "{run}");
    let run = host.system.holo(&["adopt", "service:kept"]);
    assert!(run.success(), "{run}");
    let found = host.system.must("cat /etc/holo/resources/services/*.toml; rm -r /etc/holo/resources/services");
    assert!(found.to_string().contains("name = \"kept\"\nenable = true\nrunlevels = [\"boot\"]\n"), "{found}");
    host.system.must("rc-service kept stop; rc-update del kept boot");
}

fn not_booted(host: &Host) {
    host.script("image", DAEMON);
    host.declare("[[service]]\nname = 'image'\nensure = 'unmanaged'\nenable = true\n");
    host.apply();
    assert_eq!(host.levels("image"), "default");
    host.nothing_to_do();
    host.declare("[[service]]\nname = 'image'\nenable = true\n");
    let said = host.apply_fails();
    assert!(said.contains("!! image cannot be started: openrc is not running here\n"), "{said}");
    host.declare("");
    host.apply();
    assert_eq!(host.levels("image"), "");
}

fn below_a_root() {
    let root = ScratchRoot::new()
        .file("etc/os-release", "ID=unittest\n")
        .file("sbin/openrc-run", "")
        .plugin("services")
        .resource("services/01.toml", "[[service]]\nname = 'a'\nenable = true\nrunlevels = ['boot', 'sysinit']\n");
    let apply = || {
        let run = root.holo(&["apply"]);
        (run.status, run.stdout_lossy().into_owned() + &run.stderr_lossy())
    };
    let (status, said) = apply();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("MOCK: rc-update add a boot sysinit\nMOCK: rc-service a start\n"), "{said}");
    assert_eq!(apply(), (Some(0), String::new()));
    assert!(root.holo(&["check"]).success());
    root.write("usr/share/holo/services/01.toml", "");
    let (status, said) = apply();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("MOCK: rc-update --all del a\nMOCK: rc-service a stop\n"), "{said}");
    assert_eq!(apply(), (Some(0), String::new()));
    root.write("usr/share/holo/services/01.toml", "[[service]]\nname = 'a'\nenable = true\n");
    let run = root.env("HOLO_OFFLINE", "1").holo(&["apply"]);
    assert_eq!(run.stderr_lossy(), ">> deferred: the system is not running\n", "{run}");
    assert!(run.stdout_lossy().contains("MOCK: rc-update add a default\n"), "{run}");
    assert!(!run.stdout_lossy().contains("rc-service"), "{run}");
}
