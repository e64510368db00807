//! Cases with many units.

use super::Case;
use super::host::Host;

pub(crate) const ALL: &[Case] = &[
    ("two hundred units are a matter of a few calls", two_hundred),
    ("units that run or were not loaded are listed, and only others are shown", only_started),
    ("what is wrong with one of many is said as of one alone", wrong_among_many),
    ("the time at which systemd has read files is looked up, and asked for where it has left none", last_read),
];

fn two_hundred(host: &Host) {
    let mut declared = String::new();
    for number in 0..200 {
        declared += &format!("[[service]]\nname = 'many-{number}'\nenable = true\n");
    }
    let unit = r"[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=true\n[Install]\nWantedBy=basic.target\n";
    let folder = "/run/systemd/system";
    host.system.must(&format!("for n in $(seq 0 199); do printf '{unit}' >{folder}/many-$n.service; done"));
    host.declare(&declared);
    host.apply();
    assert_eq!(
        host.verbs(),
        ["daemon-reload", "list-units", "list-unit-files", "show", "enable", "start", "list-units", "list-unit-files"]
    );
    host.nothing_to_do();
    assert_eq!(host.verbs(), ["list-units", "list-unit-files"].repeat(2), "one query for an apply, one for a check");
    // A unit that cannot be enabled does not affect the others.
    host.system.must("systemctl disable many-7 many-8; rm /run/systemd/system/many-9.service");
    host.system.must("systemctl daemon-reload");
    host.calls();
    let said = host.apply_fails();
    assert!(said.contains("!! many-9.service"), "{said}");
    assert_eq!((host.enablement("many-7"), host.enablement("many-8")), ("enabled".to_owned(), "enabled".to_owned()));
    host.declare_nothing();
    host.apply();
    assert!(!host.is_active("many-3"));
}

fn only_started(host: &Host) {
    let names: Vec<String> = (0..50).map(|number| format!("started-{number}")).collect();
    let declared =
        |names: &[String]| names.iter().map(|name| format!("[[service]]\nname = '{name}'\n")).collect::<String>();
    for name in &names {
        host.daemon(&format!("{name}.service"));
    }
    host.declare(&declared(&names));
    host.apply();
    assert_eq!(host.verbs(), ["daemon-reload", "list-units", "show", "start", "list-units"]);
    assert!(names.iter().all(|name| host.is_active(name)));
    host.nothing_to_do();
    assert_eq!(host.verbs(), ["list-units", "list-units"], "one query for an apply, one for a check");
    // Some are stopped, and a oneshot needs a separate query.
    host.unit("runs-once.service", "[Service]\nType=oneshot\nExecStart=true\n");
    host.system.must("systemctl daemon-reload; systemctl stop started-3 started-4");
    host.declare(&(declared(&names) + "[[service]]\nname = 'runs-once'\n"));
    host.calls();
    let said = host.apply();
    assert!(said.contains("started started-3.service") && said.contains("started started-4.service"), "{said}");
    let calls = host.calls();
    let verbs: Vec<&str> = calls.iter().filter_map(|call| call.split(' ').next()).collect();
    // The others might have been stopped by those.
    assert_eq!(verbs, ["list-units", "show", "start", "show", "list-units", "show"], "{calls:?}");
    assert!(calls.contains(&"start -- runs-once.service started-3.service started-4.service".to_owned()), "{calls:?}");
    host.nothing_to_do();
    let calls = host.calls();
    let is_alone = |call: &&String| call.starts_with("show ") && call.ends_with(" -- runs-once.service");
    assert_eq!(calls.iter().filter(is_alone).count(), 2, "{calls:?}");
    host.declare_nothing();
    host.apply();
    assert!(names.iter().all(|name| !host.is_active(name)));
}

fn wrong_among_many(host: &Host) {
    for number in 0..8 {
        host.daemon(&format!("fine-{number}.service"));
    }
    host.unit("broken.service", "[Service]\nExecStrat=sleep 86400\n");
    host.unit("many@.service", "[Service]\nType=exec\nExecStart=sleep 86400\n");
    host.system.write("/opt/linked.service", "[Service]\nExecStart=sleep 86400\n");
    host.system.must("systemctl daemon-reload; systemctl link /opt/linked.service; systemctl start fine-0 fine-1");
    host.system.must("ln -sf /dev/null /etc/systemd/system/hidden.service; : >/etc/systemd/system/empty.service");
    let fine = (0..8).map(|number| format!("fine-{number}"));
    let others = ["broken", "missing", "many@one", "linked", "hidden", "empty"].map(str::to_owned);
    let names: Vec<String> = fine.chain(others).collect();
    let declare = |lines: &str| {
        host.declare(&names.iter().map(|name| format!("[[service]]\nname = '{name}'\n{lines}\n")).collect::<String>());
    };
    declare("");
    let check = host.check();
    assert_eq!(check.status, Some(1), "{check}");
    let problems = [
        "!! broken.service has a file that systemd cannot use: ",
        "!! hidden.service is masked, and cannot be started; ",
        "!! empty.service is masked, and cannot be started; ",
    ];
    for problem in problems {
        assert!(check.stderr_lossy().contains(problem), "{problem}: {check}");
    }
    assert!(
        !check.stdout_lossy().contains("would start fine-0.") && check.stdout_lossy().contains("would start fine-2.")
    );
    let said = host.apply_fails();
    for problem in problems.into_iter().chain(["!! missing.service does not exist\n"]) {
        assert!(said.contains(problem), "{problem}: {said}");
    }
    assert_eq!(said.matches("!! ").count(), 4, "{said}");
    let runs = |name: &String| host.is_active(name);
    let running: Vec<&String> = names.iter().filter(|name| runs(name)).collect();
    assert_eq!(
        running,
        names.iter().filter(|name| name.contains('-') || name.contains('@') || *name == "linked").collect::<Vec<_>>()
    );
    // A unit whose linked file or drop-in has changed is outdated.
    host.system.must("mkdir /etc/systemd/system/fine-3.service.d; touch /opt/a.conf");
    host.system
        .must("ln -s /opt/a.conf /etc/systemd/system/fine-3.service.d/a.conf; systemctl daemon-reload; sleep 0.1");
    host.system.must("echo '[Service]' >/opt/a.conf; sed -i s/86400/86401/ /opt/linked.service");
    let said = host.apply_fails();
    for outdated in ["linked", "fine-3"] {
        assert!(said.contains(&format!("read the files of {outdated}.service again")), "{said}");
    }
    // All are handled like a single one, and units that ran before keep running.
    host.declare_nothing();
    host.apply();
    let running: Vec<&String> = names.iter().filter(|name| runs(name)).collect();
    assert_eq!(running, ["fine-0", "fine-1"]);
    host.system.must("systemctl stop fine-0 fine-1; systemctl disable linked");
    host.system.must("rm /etc/systemd/system/hidden.service /etc/systemd/system/empty.service");
}

fn last_read(host: &Host) {
    host.daemon("read.service");
    host.service("read", "");
    host.apply();
    host.calls();
    for leaves_time in [true, false] {
        if !leaves_time {
            host.system.must("rm /run/systemd/systemd-units-load");
        }
        host.nothing_to_do();
        let calls = host.calls();
        let asks = calls.iter().filter(|call| call.contains("UnitsLoadTimestamp")).count();
        assert_eq!((asks, calls.len() - asks), (if leaves_time { 0 } else { 2 }, 2), "{calls:?}");
        host.system.must("sed -i s/86400/86401/ /etc/systemd/system/read.service");
        let said = host.apply();
        assert!(said.contains("read the files of read.service again"), "{said}");
        host.calls();
    }
    host.declare_nothing();
    host.apply();
}
