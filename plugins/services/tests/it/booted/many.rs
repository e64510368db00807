//! Cases of many units at once.

use super::Case;
use super::host::Host;

pub(crate) const ALL: &[Case] = &[
    ("two hundred units are a matter of a few calls", two_hundred),
    ("units that are only started are listed afterwards, and only those that do not run are shown", only_started),
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
    assert_eq!(host.verbs(), ["daemon-reload", "show", "enable", "start", "show"]);
    host.nothing_to_do();
    assert_eq!(host.verbs(), ["show", "show"]);
    // One that cannot be enabled keeps no other from being.
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
    assert_eq!(host.verbs(), ["daemon-reload", "show", "start", "list-units"]);
    assert!(names.iter().all(|name| host.is_active(name)));
    host.nothing_to_do();
    assert_eq!(host.verbs(), ["show", "show"], "one query for an apply, one for a check");
    // Some are stopped, and one runs to its end: it is asked for alone.
    host.unit("runs-once.service", "[Service]\nType=oneshot\nExecStart=true\n");
    host.system.must("systemctl daemon-reload; systemctl stop started-3 started-4");
    host.declare(&(declared(&names) + "[[service]]\nname = 'runs-once'\n"));
    host.calls();
    let said = host.apply();
    assert!(said.contains("started started-3.service") && said.contains("started started-4.service"), "{said}");
    let calls = host.calls();
    let starts: Vec<&String> = calls.iter().filter(|call| call.starts_with("start ")).collect();
    assert_eq!(starts, ["start -- runs-once.service started-3.service started-4.service"]);
    let after: Vec<&String> = calls.iter().skip_while(|call| !call.starts_with("list-units ")).skip(1).collect();
    let is_alone = |call: &&String| call.starts_with("show ") && call.ends_with(" -- runs-once.service");
    assert!(after.len() == 1 && after.iter().all(is_alone), "{calls:?}");
    host.declare_nothing();
    host.apply();
    assert!(names.iter().all(|name| !host.is_active(name)));
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
