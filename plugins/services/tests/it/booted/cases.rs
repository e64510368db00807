//! Cases of units that reach their desired states.

use super::Case;
use super::host::Host;
use holo_testing::binaries::built;

pub(crate) const ALL: &[Case] = &[
    ("a unit is started and enabled, and comes back to how it was", starts_and_enables),
    ("a unit is stopped and disabled, and comes back to how it was", stops_and_disables),
    ("a unit whose run state is not managed is enabled, and neither started, stopped nor restarted", unmanaged),
    ("a refresh restarts what ran, starts what did not, and leaves alone what shall not run", refreshes),
    ("a unit that was started after the change is not restarted by the next apply", started_after_the_change),
    ("a unit that was started after a change is restarted after the next one", changed_again),
    ("a refresh reloads where that is wanted and possible", reloads),
    ("a unit is masked and unmasked", masks),
    ("what is under a mask shows when that is taken off", under_a_mask),
    ("instances of templates, sockets and timers are units too", kinds),
    ("a oneshot unit that ran is as good as running", oneshots),
    ("files of units are read again only if they changed, and never by a check", reads_files),
    ("names are as systemd has them", names),
    ("an alias and the unit that it leads to are one", aliases),
    ("units that go along with others stay as they were, or as they are declared", along),
    ("a unit's first drop-in, and a file over another one, are read before it is restarted", first_files),
    ("files of units that are not declared are read too", files_of_others),
    ("adopted units stay as they are, whatever state they are in", adopts_every_state),
    ("a unit that is adopted by several names is one entity", adopts_once),
];

fn starts_and_enables(host: &Host) {
    host.daemon("start.service");
    host.service("start", "enable = true");
    let check = host.check();
    assert_eq!(check.status, Some(3), "{check}");
    let said = check.stdout_lossy();
    assert!(said.contains("would enable start.service") && said.contains("would start start.service"), "{check}");
    assert!(!host.is_active("start") && host.enablement("start") == "disabled");
    let said = host.apply();
    assert!(said.contains("enabled start.service\n") && said.contains("started start.service\n"), "{said}");
    assert!(host.is_active("start") && host.enablement("start") == "enabled");
    host.nothing_to_do();
    host.declare_nothing();
    let said = host.apply();
    assert!(said.contains("Scrubbing service:start"), "{said}");
    assert!(!host.is_active("start") && host.enablement("start") == "disabled");
    host.nothing_to_do();
}

fn stops_and_disables(host: &Host) {
    host.daemon("stop.service");
    host.system.must("systemctl enable --now stop");
    host.service("stop", "ensure = 'stopped'\nenable = false");
    host.apply();
    assert!(!host.is_active("stop") && host.enablement("stop") == "disabled");
    host.nothing_to_do();
    host.declare_nothing();
    host.apply();
    assert!(host.is_active("stop") && host.enablement("stop") == "enabled");
}

fn unmanaged(host: &Host) {
    host.system.write("/etc/refresh.conf", "stock\n");
    let names = ["runs", "rests"];
    names.iter().for_each(|name| host.daemon(&format!("{name}.service")));
    host.system.must("systemctl start runs");
    let table = |name| {
        format!(
            "[[service]]\nname = '{name}'\nensure = 'unmanaged'\nenable = true\nsubscribes = ['file:/etc/refresh.conf']\n"
        )
    };
    host.declare(&names.map(table).concat());
    let scan = host.system.holo(&["scan"]);
    assert!(scan.stdout_lossy().contains("unit runs.service (unmanaged, enabled)"), "{scan}");
    change_configuration(host, "runs");
    let check = host.check();
    assert!(!check.stdout_lossy().contains("start") && check.stdout_lossy().contains("would enable runs"), "{check}");
    let first = host.property("runs", "InvocationID");
    let as_before = || host.property("runs", "InvocationID") == first && !host.is_active("rests");
    host.apply();
    assert!(as_before() && names.iter().all(|name| host.enablement(name) == "enabled"));
    change_configuration(host, "runs");
    host.apply();
    assert!(as_before(), "a refresh is left alone too");
    host.nothing_to_do();
    host.declare_nothing();
    host.apply();
    assert!(as_before() && names.iter().all(|name| host.enablement(name) == "disabled"));
    host.system.must("systemctl stop runs");
    // A unit that is only masked is not stopped.
    host.system.write("/usr/lib/systemd/system/keeps.service", "[Service]\nExecStart=sleep 86400\n");
    host.system.must("systemctl daemon-reload; systemctl start keeps");
    host.service("keeps", "ensure = 'unmanaged'\nmask = true");
    host.apply();
    assert!(host.is_active("keeps") && host.enablement("keeps") == "masked");
    host.nothing_to_do();
    host.declare_nothing();
    host.apply();
    assert!(host.is_active("keeps") && host.enablement("keeps") == "static");
    host.system.must("systemctl stop keeps");
}

/// Declares a file that refreshes a unit, and changes it.
fn change_configuration(host: &Host, unit: &str) {
    let number = host.system.must("cat /proc/sys/kernel/random/uuid");
    host.system.write("/usr/share/holo/files/10-case/etc/refresh.conf", number);
    assert!(host.system.read("/usr/share/holo/services/10-case.toml").to_string().contains("subscribes"), "{unit}");
}

/// Checks that a check predicts this change.
#[track_caller]
fn would(host: &Host, change: &str) {
    let check = host.check();
    assert_eq!(check.status, Some(3), "{check}");
    assert!(check.stdout_lossy().lines().any(|line| line == change), "{change} is not in {check}");
}

fn refreshes(host: &Host) {
    host.system.write("/etc/refresh.conf", "stock\n");
    host.daemon("refresh.service");
    let subscribed = "subscribes = ['file:/etc/refresh.conf']";
    host.service("refresh", subscribed);
    change_configuration(host, "refresh");
    host.calls();
    host.apply();
    let calls = host.calls();
    assert!(calls.contains(&"start -- refresh.service".to_owned()), "{calls:?}");
    assert!(!calls.iter().any(|call| call.starts_with("restart")), "started once, and not twice: {calls:?}");
    let first = host.property("refresh", "InvocationID");
    host.nothing_to_do();
    change_configuration(host, "refresh");
    would(host, "would restart refresh.service");
    let said = host.apply();
    assert!(said.contains("restarted refresh.service"), "{said}");
    assert_ne!(host.property("refresh", "InvocationID"), first);
    host.nothing_to_do();
    host.service("refresh", &format!("ensure = 'stopped'\n{subscribed}"));
    host.apply();
    change_configuration(host, "refresh");
    let check = host.check();
    assert!(["would start", "would restart"].iter().all(|step| !check.stdout_lossy().contains(step)), "{check}");
    host.calls();
    host.apply();
    assert!(!host.is_active("refresh"));
    assert_eq!(host.verbs(), ["show"]);
}

/// An apply that is killed after a restart leaves the refresh due.
fn started_after_the_change(host: &Host) {
    host.system.write("/etc/refresh.conf", "stock\n");
    host.daemon("left.service");
    host.service("left", "subscribes = ['file:/etc/refresh.conf']");
    host.apply();
    for is_restarted in [true, false] {
        change_configuration(host, "left");
        let run = host.system.holo(&["apply", "file:/etc/refresh.conf"]);
        assert!(run.success(), "{run}");
        // Times are in seconds.
        host.system.must("sleep 2.1");
        if is_restarted {
            host.system.must("systemctl restart left.service");
        } else {
            would(host, "would restart left.service");
        }
        let before = host.property("left", "InvocationID");
        if is_restarted {
            let check = host.check();
            assert!(!check.stdout_lossy().contains("would restart"), "{check}");
        }
        host.apply();
        assert_eq!(host.property("left", "InvocationID") == before, is_restarted);
        host.nothing_to_do();
    }
}

fn changed_again(host: &Host) {
    host.system.write("/etc/refresh.conf", "stock\n");
    host.daemon("again.service");
    let lines = "subscribes = ['file:/etc/refresh.conf']\nhealth_check = [{ command = 'test ! -e /etc/again.unwell' }]";
    host.service("again", lines);
    host.apply();
    // The refresh stays due, although the unit was restarted after the change.
    host.system.write("/etc/again.unwell", "");
    change_configuration(host, "again");
    let run = host.system.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    host.system.must("sleep 2.1; systemctl restart again.service; rm /etc/again.unwell");
    let before = host.property("again", "InvocationID");
    change_configuration(host, "again");
    would(host, "would restart again.service");
    let said = host.apply();
    assert!(said.contains("restarted again.service"), "{said}");
    assert_ne!(host.property("again", "InvocationID"), before);
    host.nothing_to_do();
}

fn reloads(host: &Host) {
    host.system.write("/etc/refresh.conf", "stock\n");
    host.unit("reload.service", "[Service]\nExecStart=sleep 86400\nExecReload=touch /run/reloaded\n");
    let lines = "reload = true\nsubscribes = ['file:/etc/refresh.conf']";
    host.service("reload", lines);
    host.apply();
    let first = host.property("reload", "InvocationID");
    change_configuration(host, "reload");
    would(host, "would reload reload.service");
    let said = host.apply();
    assert!(said.contains("reloaded reload.service"), "{said}");
    assert_eq!(host.property("reload", "InvocationID"), first);
    assert!(host.system.exists("/run/reloaded"));
    host.daemon("cannot-reload.service");
    host.service("cannot-reload", lines);
    host.apply();
    change_configuration(host, "cannot-reload");
    would(host, "would restart cannot-reload.service");
    let said = host.apply();
    assert!(said.contains("restarted cannot-reload.service"), "{said}");
    host.declare_nothing();
    host.apply();
}

fn masks(host: &Host) {
    // A mask is a symlink in the administrator's directory, so the unit must come from a package.
    let unit = "/usr/lib/systemd/system/masked.service";
    host.system.write(unit, "[Service]\nExecStart=sleep 86400\n[Install]\nWantedBy=basic.target\n");
    host.system.must("systemctl daemon-reload; systemctl enable --now masked");
    host.service("masked", "mask = true\nenable = false");
    let check = host.check();
    assert!(check.stdout_lossy().contains("would mask masked.service"), "{check}");
    host.apply();
    assert!(!host.is_active("masked") && host.enablement("masked") == "masked");
    host.nothing_to_do();
    host.service("masked", "");
    let said = host.apply_fails();
    assert!(said.contains("masked.service is masked, and cannot be started; mask = false unmasks it"), "{said}");
    host.service("masked", "mask = false\nenable = true");
    let said = host.apply();
    for change in ["unmasked masked.service", "enabled masked.service", "started masked.service"] {
        assert!(said.contains(change), "{said}");
    }
    assert!(host.is_active("masked") && host.enablement("masked") == "enabled");
    host.nothing_to_do();
    host.service("masked", "mask = true");
    host.apply();
    host.declare_nothing();
    host.apply();
    assert!(host.is_active("masked") && host.enablement("masked") == "enabled", "as it was before us");
    // A unit that does not exist yet can be masked, so that it will not run.
    host.service("to-come", "mask = true");
    host.apply();
    assert_eq!(host.enablement("to-come"), "masked");
    host.nothing_to_do();
    host.declare_nothing();
    host.apply();
    assert!(!host.system.exists("/etc/systemd/system/to-come.service"));
}

fn under_a_mask(host: &Host) {
    let folder = "/run/systemd/system";
    let link = "/etc/systemd/system/basic.target.wants/was-enabled.service";
    host.system.write(
        format!("{folder}/was-enabled.service"),
        "[Service]\nExecStart=true\n[Install]\nWantedBy=basic.target\n",
    );
    host.system.write(format!("{folder}/is-static.service"), "[Service]\nExecStart=true\n");
    host.system.must("systemctl daemon-reload; systemctl enable was-enabled; systemctl mask was-enabled is-static");
    host.declare(
        "[[service]]\nname = 'was-enabled'\nensure = 'stopped'\nmask = false\nenable = true\n\
         [[service]]\nname = 'is-static'\nensure = 'stopped'\nmask = false\nenable = true\n",
    );
    let said = host.apply_fails();
    assert!(
        said.contains("unmasked was-enabled.service") && !said.contains("enabled was-enabled.service\n\n"),
        "{said}"
    );
    assert!(said.contains("!! is-static.service is static"), "{said}");
    host.declare_nothing();
    host.apply();
    assert_eq!((host.enablement("was-enabled"), host.enablement("is-static")), ("masked".into(), "masked".into()));
    assert!(host.system.exists(link), "it was enabled before us");
    host.system.must("systemctl unmask was-enabled is-static; systemctl disable was-enabled");
}

fn kinds(host: &Host) {
    host.daemon("template@.service");
    host.unit("listens.socket", "[Socket]\nListenStream=/run/listens\n[Install]\nWantedBy=sockets.target\n");
    host.daemon("listens.service");
    host.unit("ticks.timer", "[Timer]\nOnActiveSec=1h\n[Install]\nWantedBy=timers.target\n");
    host.daemon("ticks.service");
    let names = ["template@one", r"template@two\x2dtwo.service", "listens.socket", "ticks.timer"];
    let declared = names.map(|name| format!("[[service]]\nname = '{name}'\nenable = true\n"));
    host.declare(&declared.concat());
    host.apply();
    for name in names {
        assert!(host.is_active(name) && host.enablement(name) == "enabled", "{name}");
    }
    assert!(host.system.exists("/run/listens") && !host.is_active("listens.service"));
    host.nothing_to_do();
    host.declare_nothing();
    host.apply();
    for name in names {
        assert!(!host.is_active(name) && host.enablement(name) == "disabled", "{name}");
    }
}

fn oneshots(host: &Host) {
    host.system.write("/etc/refresh.conf", "stock\n");
    host.system.write("/usr/share/holo/files/10-case/etc/refresh.conf", "stock\n");
    host.unit("once.service", "[Service]\nType=oneshot\nExecStart=sh -c 'echo ran >>/run/ran'\n");
    host.unit("remains.service", "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=true\n");
    host.declare(
        "[[service]]\nname = 'once'\nsubscribes = ['file:/etc/refresh.conf']\n[[service]]\nname = 'remains'\n",
    );
    host.apply();
    // systemd has unloaded it, because it has no references.
    assert_eq!(host.property("once", "InactiveExitTimestampMonotonic"), "0");
    host.nothing_to_do();
    assert_eq!(host.system.read("/run/ran"), "ran\n");
    change_configuration(host, "once");
    host.apply();
    assert_eq!(host.system.read("/run/ran"), "ran\nran\n");
    host.nothing_to_do();
    // The record is of another boot, so it has not run in this one.
    let edit = r#"s/\\"ran_in_boot\\":\\"/&of-old-/"#;
    host.system.must(&format!(
        "{holo} state export | sed '{edit}' > /run/state && rm /var/lib/holo/state.db* && {holo} state import /run/state",
        holo = built("holo").display()
    ));
    host.apply();
    assert_eq!(host.system.read("/run/ran"), "ran\nran\nran\n");
    host.declare_nothing();
    host.apply();
    assert!(!host.is_active("remains"));
}

fn reads_files(host: &Host) {
    host.daemon("outdated.service");
    host.daemon("other.service");
    host.declare("[[service]]\nname = 'outdated'\n[[service]]\nname = 'other'\n");
    host.apply();
    host.calls();
    host.nothing_to_do();
    assert_eq!(host.verbs(), ["show", "show"], "one query for an apply, one for a check");
    host.system.must("sed -i s/86400/86401/ /etc/systemd/system/outdated.service");
    let check = host.check();
    assert_eq!(check.status, Some(3));
    assert!(check.stdout_lossy().contains("would read the files of outdated.service again"), "{check}");
    assert!(!host.verbs().contains(&"daemon-reload".to_owned()));
    let first = host.property("outdated", "InvocationID");
    let said = host.apply();
    assert!(said.contains("read the files of outdated.service again") && !said.contains("other.service"), "{said}");
    assert_eq!(host.verbs().iter().filter(|verb| *verb == "daemon-reload").count(), 1);
    assert_eq!(host.property("outdated", "InvocationID"), first, "nothing wanted it restarted");
    host.nothing_to_do();
    host.declare_nothing();
    host.apply();
}

fn names(host: &Host) {
    host.daemon("a:b_c-d.e.service");
    host.declare(
        "[[service]]\nname = 'a:b_c-d.e'\n[[service]]\nname = 'a:b_c-d.e.service'\n[[service]]\nname = 'no*'\n\
         [[service]]\nname = 'template@'\n",
    );
    let run = host.system.holo(&["scan", "--short"]);
    let listed = run.stdout_lossy().into_owned();
    let listed: Vec<&str> = listed.lines().filter(|line| line.contains(':')).collect();
    assert_eq!(listed, ["service:a:b_c-d.e", "service:a:b_c-d.e.service"]);
    let said = run.stderr_lossy();
    for problem in [
        "unit a:b_c-d.e.service is owned by service:a:b_c-d.e in ",
        "10-case.toml:6: service:no*: name: \"no*\" is not a valid unit name, as '*' is in it",
        "10-case.toml:8: service:template@: name: \"template@\" is a template; its instances have names such as template@x",
    ] {
        assert!(said.contains(problem), "{run}");
    }
}

fn aliases(host: &Host) {
    host.unit(
        "real.service",
        "[Service]\nExecStart=sleep 86400\n[Install]\nWantedBy=basic.target\nAlias=alternate.service\n",
    );
    host.system.must("systemctl daemon-reload; systemctl enable real; true");
    host.service("real", "");
    host.apply();
    let first = host.property("real", "InvocationID");
    // It is the same unit under each name: it keeps running, and is stopped when it has no definition any more.
    for (before, after) in [("real", "alternate"), ("alternate", "real.service"), ("real.service", "alternate.service")]
    {
        host.service(after, "");
        let said = host.apply();
        assert_eq!(
            said.trim(),
            format!(
                "Working on service:{after}\n  found in /usr/share/holo/services/10-case.toml\n      unit real.service (running)\n\n\n>> service:{after} takes over from service:{before}"
            )
        );
        assert_eq!(host.property("real", "InvocationID"), first);
        host.nothing_to_do();
    }
    host.declare("[[service]]\nname = 'real'\n[[service]]\nname = 'alternate'\nensure = 'stopped'\n");
    let said = host.apply_fails();
    assert!(
        said.contains("unit real.service is owned by service:alternate in ") && said.contains(" and service:real in "),
        "{said}"
    );
    assert_eq!(host.property("real", "InvocationID"), first);
    host.declare_nothing();
    host.apply();
    assert!(!host.is_active("real") && host.enablement("real") == "enabled");
    assert_eq!(host.system.must("ls /var/lib/holo/services"), "");
    host.system.must("systemctl disable real");
}

fn along(host: &Host) {
    let service = "[Service]\nExecStart=sleep 86400\n[Install]\nWantedBy=basic.target\n";
    let units = ["first.service", "second.service"];
    host.unit("takes.service", &format!("{service}Also={}\n", units.join(" ")));
    units.iter().for_each(|unit| host.unit(unit, service));
    host.system.must("systemctl daemon-reload; systemctl enable first");
    let enablements = || ["takes", "first", "second"].map(|unit| host.enablement(unit));
    host.service("takes", "enable = true");
    host.apply();
    assert_eq!(enablements(), ["enabled"; 3]);
    host.nothing_to_do();
    host.declare_nothing();
    host.apply();
    assert_eq!(enablements(), ["disabled", "enabled", "disabled"]);
    host.nothing_to_do();
    // Enabling it again does not enable a unit that was disabled before.
    host.system.must("systemctl enable takes; systemctl disable second");
    host.service("takes", "enable = false");
    host.apply();
    assert_eq!(enablements(), ["disabled"; 3]);
    host.declare_nothing();
    host.apply();
    assert_eq!(enablements(), ["enabled", "enabled", "disabled"]);
    // Each has its own definition.
    let both = "[[service]]\nname = 'takes'\nenable = false\n[[service]]\nname = 'first'\nenable = true\n";
    host.declare(both);
    host.apply();
    assert_eq!(enablements(), ["disabled", "enabled", "disabled"]);
    host.nothing_to_do();
    host.service("first", "enable = true");
    host.apply();
    assert_eq!(enablements(), ["enabled", "enabled", "disabled"]);
    host.declare_nothing();
    host.apply();
    host.system.must("systemctl disable takes first");
}

fn first_files(host: &Host) {
    let vendor = "/usr/lib/systemd/system";
    for unit in ["dropin.service", "over.service", "template@.service"] {
        host.system.write(format!("{vendor}/{unit}"), "[Service]\nEnvironment=A=1\nExecStart=sleep 86400\n");
    }
    host.system.must("systemctl daemon-reload");
    let subscribed = |unit: &str, file: &str| format!("[[service]]\nname = '{unit}'\nsubscribes = ['file:{file}']\n");
    let files = [
        ("dropin", "/etc/systemd/system/dropin.service.d/a.conf", "[Service]\nEnvironment=A=2\n"),
        ("template@x", "/etc/systemd/system/template@.service.d/a.conf", "[Service]\nEnvironment=A=2\n"),
        ("over", "/etc/systemd/system/over.service", "[Service]\nEnvironment=A=2\nExecStart=sleep 86400\n"),
    ];
    host.declare(&files.map(|(unit, ..)| format!("[[service]]\nname = '{unit}'\n")).concat());
    host.apply();
    let file = |(_, path, content): &(&str, &str, &str)| {
        format!("[[file]]\npath = '{path}'\ncontent = \"\"\"{content}\"\"\"\n")
    };
    host.system.write("/usr/share/holo/files/10-case.toml", files.iter().map(file).collect::<String>());
    host.declare(&files.map(|(unit, path, _)| subscribed(unit, path)).concat());
    host.calls();
    let said = host.apply();
    for (unit, ..) in files {
        assert!(said.contains(&format!("restarted {unit}.service")), "{said}");
        assert_eq!(host.property(unit, "Environment"), "A=2", "{unit}: {said}");
        let process = host.property(unit, "MainPID");
        assert_eq!(host.system.must(&format!("tr '\\0' '\\n' </proc/{process}/environ | grep ^A=")), "A=2\n");
        assert!(said.contains(&format!("read the files of {unit}.service again")), "{said}");
    }
    assert_eq!(host.verbs().iter().filter(|verb| *verb == "daemon-reload").count(), 1, "{said}");
    host.nothing_to_do();
    host.declare_nothing();
    host.system.must("rm /usr/share/holo/files/10-case.toml");
    host.apply();
}

fn files_of_others(host: &Host) {
    host.system.write("/usr/lib/systemd/system/others.timer", "[Timer]\nOnCalendar=daily\n");
    host.system.write("/usr/lib/systemd/system/others.service", "[Service]\nType=oneshot\nExecStart=true\n");
    host.system.must("systemctl daemon-reload; systemctl start others.timer");
    host.system.must("sleep 0.1");
    let declare = |what: &str| {
        let path = "/etc/systemd/system/others.timer.d/when.conf";
        host.system.write(
            "/usr/share/holo/files/10-case.toml",
            format!("[[file]]\npath = '{path}'\ncontent = \"[Timer]\\nOnCalendar={what}\\n\"\n"),
        );
    };
    // No unit is declared.
    for when in ["weekly", "monthly"] {
        declare(when);
        host.calls();
        let said = host.apply();
        assert!(said.contains("Working on systemd:unit-files\n\nread others.timer.d again\n"), "{said}");
        assert!(host.property("others.timer", "TimersCalendar").contains("*-*-01") == (when == "monthly"));
        assert_eq!(host.verbs(), ["daemon-reload"]);
        host.nothing_to_do();
        assert_eq!(host.verbs(), [] as [&str; 0]);
    }
    // It is a separate step that lists omit, but that can be selected.
    let scan = host.system.holo(&["scan", "--short"]);
    assert!(!scan.stdout_lossy().contains("systemd:"), "{scan}");
    assert!(!host.system.holo(&["selectors"]).stdout_lossy().contains("systemd:"));
    host.system.must("touch /usr/lib/systemd/system/others.service");
    let check = host.check();
    assert!(check.status == Some(3) && check.stdout_lossy().contains("would read others.service again"), "{check}");
    let run = host.system.holo(&["apply", "systemd:unit-files"]);
    assert!(run.success() && run.stdout_lossy().contains("read others.service again"), "{run}");
    host.nothing_to_do();
    host.system.must("rm /usr/share/holo/files/10-case.toml");
    host.apply();
    // Removed files are not reported, but systemd has reloaded its files.
    assert!(!host.property("others.timer", "TimersCalendar").contains("*-*-01"));
    host.nothing_to_do();
}

fn adopts_every_state(host: &Host) {
    let unit = |name: &str, service: &str| {
        let text = format!("[Service]\n{service}\n[Install]\nWantedBy=basic.target\n");
        host.system.write(format!("/usr/lib/systemd/system/{name}.service"), text);
    };
    let daemons = ["masked", "masked-now", "down-masked", "enabled-now", "disabled"];
    daemons.iter().for_each(|name| unit(name, "ExecStart=sleep 86400"));
    unit("broken", "ExecStart=false");
    unit("looping", "ExecStart=false\nRestart=always\nRestartSec=1h");
    unit("coming", "Type=oneshot\nExecStart=sleep 86400\nTimeoutStartSec=infinity");
    unit("static", "ExecStart=sleep 86400");
    host.system.must("sed -i '/Install/,$d' /usr/lib/systemd/system/static.service; systemctl daemon-reload");
    host.system.must(
        "systemctl start masked masked-now static disabled
         systemctl mask masked down-masked
         systemctl mask --runtime masked-now
         systemctl enable --runtime --now enabled-now
         systemctl enable broken looping coming
         systemctl start --no-block broken looping coming
         until systemctl is-failed --quiet broken && systemctl show looping -P SubState | grep -q auto-restart; do sleep 0.1; done",
    );
    let all = [&daemons[..], &["broken", "looping", "coming", "static"]].concat();
    let states = || all.iter().map(|name| (host.enablement(name), host.property(name, "SubState"))).collect::<Vec<_>>();
    let before = states();
    let ids: Vec<String> = all.iter().map(|name| format!("service:{name}")).collect();
    let arguments: Vec<&str> = std::iter::once("adopt").chain(ids.iter().map(String::as_str)).collect();
    let run = host.system.holo(&arguments);
    let said = run.stderr_lossy();
    assert!(run.success() && !said.contains("an apply would"), "{run}");
    for unusual in [
        "masked.service is masked, but runs",
        "masked-now.service is masked until the next boot",
        "enabled-now.service is enabled until the next boot",
        "looping.service has failed, and is going to be started again",
        "coming.service is being started",
    ] {
        assert!(said.contains(unusual), "{unusual}: {run}");
    }
    host.nothing_to_do();
    assert_eq!(states(), before);
    host.system.must(
        "rm -rf /etc/holo/resources/services
         systemctl unmask masked down-masked; systemctl unmask --runtime masked-now; systemctl stop coming looping",
    );
}

fn adopts_once(host: &Host) {
    host.unit(
        "main.service",
        "[Service]\nExecStart=sleep 86400\n[Install]\nWantedBy=basic.target\nAlias=alias.service\n",
    );
    host.system.must("systemctl daemon-reload; systemctl enable --now main");
    let run = host.system.holo(&["adopt", "service:main.service", "service:alias", "service:main"]);
    assert!(run.success(), "{run}");
    let file = "/etc/holo/resources/services/adopted.toml";
    let text = host.system.read(file);
    assert_eq!(text.to_string().matches("[[service]]\nname = \"main\"\n").count(), 1, "{text}");
    let again = host.system.holo(&["adopt", "service:alias.service"]);
    assert!(
        again.success() && again.stderr_lossy().contains("Nothing to adopt: service:main has no manual changes"),
        "{again}"
    );
    assert_eq!(host.system.read(file), text);
    host.nothing_to_do();
    host.system.must("rm -rf /etc/holo/resources/services");
}
