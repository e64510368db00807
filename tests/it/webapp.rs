//! A web application from an archive, with its user, templates, unit and health check: installed, upgraded and removed
//! on a real systemd. The resource files are those in `examples/webapp/`.

use crate::examples::Example;
use bstr::ByteSlice;
use holo_testing::overlay::NEEDS_TO_BOOT;
use holo_testing::{Need, Overlay, Run, binaries, trial_of};
use libtest_mimic::Trial;
use std::collections::BTreeSet;

const INVENTORY: &str = "cat /etc/passwd /etc/group; find /etc /opt /var/cache -maxdepth 4 -printf '%p %M %u %g\n' | grep -v -e /etc/passwd- -e /etc/group- \
                         -e /etc/shadow- -e /etc/gshadow- -e /var/cache/ldconfig | sort; systemctl is-active webapp || true";

/// Archives of both versions: the second one has one file less.
pub(crate) const ARCHIVES: &str = "cd /srv/app && for version in 1 2; do mkdir -p webapp-$version /srv/download; \
                        cp server.py check.py webapp-$version; echo $version >webapp-$version/VERSION; \
                        [ $version = 2 ] || echo old >webapp-$version/only-in-version-1; \
                        tar -czf /srv/download/webapp-$version.tar.gz webapp-$version; done";

const WEBAPP: Example = Example("webapp");

pub(crate) fn trials() -> Vec<Trial> {
    let needs: Vec<Need> = NEEDS_TO_BOOT.iter().copied().chain(["python3", "useradd"].map(Need::Program)).collect();
    let case = trial_of(
        "a web application is installed, upgraded, found ill, and taken away",
        &needs,
        case_of_a_web_application,
    );
    vec![case]
}

fn case_of_a_web_application() {
    let machine = Overlay::booted();
    WEBAPP.install("app", "/srv/app", &machine);
    machine.must(ARCHIVES);
    // The worst possible order.
    let holorc = ["services", "scaffold", "archives", "users-groups", "files"]
        .map(|id| format!("plugin {id}={}\n", binaries::built(&format!("holo-{id}")).display()));
    machine.must("rm -rf /etc/holorc.d; cd /usr/share; mkdir -p holo && cd holo && mkdir -p services scaffold archives users-groups files");
    machine.write("/etc/holorc", holorc.concat());
    let before = machine.must(INVENTORY).to_string();

    WEBAPP.install("holo", "/usr/share/holo", &machine);
    WEBAPP.install("data", "/etc/holo/data", &machine);
    let first = applied(&machine);
    assert_eq!(answer(&machine), "Hello from Linux, version 1", "{first}");
    assert!(machine.exists("/opt/webapp/only-in-version-1"));
    assert_eq!(machine.must("stat -c '%a %G' /etc/webapp/app.conf"), "640 webapp\n");
    assert_eq!(machine.must("stat -c '%U %G' /opt/webapp /opt/webapp/server.py"), "root webapp\nroot webapp\n");
    unchanged(&machine);
    assert_eq!(starts(&machine), 1);

    // Archive and configuration are new, and both refresh the service.
    machine.must("sed -i -e 's/^version = 1$/version = 2/' -e 's/Hello/Good day/' /etc/holo/data/common.toml");
    applied(&machine);
    assert_eq!(answer(&machine), "Good day from Linux, version 2");
    assert!(!machine.exists("/opt/webapp/only-in-version-1"));
    unchanged(&machine);
    assert_eq!(starts(&machine), 2);

    // It runs, but reports a different version than the installed one.
    machine.must("cp -p /opt/webapp/VERSION /srv/VERSION; echo 3 >/opt/webapp/VERSION");
    let ill = machine.holo(&["apply", "service:webapp"]);
    assert_eq!(ill.status, Some(1), "{ill}");
    let words = "!! health check `python3 /opt/webapp/check.py /etc/webapp/app.conf`: critical: Good day from Linux, version 2\n";
    assert!(ill.stderr_lossy().contains(words), "{ill}");
    machine.must("cp -p /srv/VERSION /opt/webapp/VERSION");
    applied(&machine);

    machine.must("find /usr/share/holo -type f -name '*30-webapp*' -delete; rm -r /usr/share/holo/scaffold/webapp");
    let last = applied(&machine);
    machine.must("rm -r /etc/holo");
    let after = machine.must(INVENTORY).to_string();
    let (before, after): (BTreeSet<&str>, BTreeSet<&str>) = (before.lines().collect(), after.lines().collect());
    let different: Vec<_> = before.symmetric_difference(&after).collect();
    assert!(different.is_empty(), "the machine is not as before: {different:?}\n{last}");
    unchanged(&machine);
}

fn answer(machine: &Overlay) -> String {
    machine.must("python3 /opt/webapp/check.py /etc/webapp/app.conf || true").to_string().trim().to_owned()
}

/// Returns the number of times that systemd has started the application.
fn starts(machine: &Overlay) -> usize {
    machine
        .must("journalctl --sync; journalctl --quiet --output cat _PID=1 UNIT=webapp.service")
        .find_iter("Started ")
        .count()
}

#[track_caller]
fn applied(machine: &Overlay) -> Run {
    let run = machine.holo(&["apply"]);
    assert!(run.success(), "{run}");
    run
}

#[track_caller]
fn unchanged(machine: &Overlay) {
    let run = applied(machine);
    assert_eq!((run.stdout_lossy(), run.stderr_lossy()), ("".into(), "".into()));
    let check = machine.holo(&["check"]);
    assert!(check.success(), "{check}");
}
