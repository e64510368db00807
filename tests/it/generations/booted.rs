//! A package, its configuration, its service and an account, rolled back on a real apt and a real systemd.

use bstr::ByteSlice;
use holo_testing::overlay::NEEDS_TO_BOOT;
use holo_testing::{Need, Overlay, binaries, trial_of};
use libtest_mimic::Trial;

/// A program that logs its configuration at each start, packaged in two versions, and another package.
const REPOSITORY: &str = r#"
mkdir -p /srv/repository
make() {
    d=/srv/build-$1-$2
    mkdir -p $d/DEBIAN
    printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\nDescription: test\n' $1 $2 >$d/DEBIAN/control
    if [ $1 = greeter ]; then
        mkdir -p $d/etc $d/usr/lib/greeter $d/lib/systemd/system
        echo /etc/greeter.conf >$d/DEBIAN/conffiles
        echo "GREETING=package" >$d/etc/greeter.conf
        printf '#!/bin/sh\n. /etc/greeter.conf\necho "%s $GREETING" >/run/greeter\nexec sleep infinity\n' $2 >$d/usr/lib/greeter/greeter
        chmod 755 $d/usr/lib/greeter/greeter
        printf '[Service]\nExecStart=/usr/lib/greeter/greeter\n[Install]\nWantedBy=multi-user.target\n' >$d/lib/systemd/system/greeter.service
    fi
    dpkg-deb --root-owner-group --build $d /srv/repository/$1_$2_all.deb >/dev/null
}
make greeter 1.0-1
make extra 5
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d /var/lib/apt/lists
mkdir -p /etc/apt/sources.list.d /var/lib/apt/lists/partial
echo 'deb [trusted=yes] file:/srv/repository ./' >/etc/apt/sources.list
index() { cd /srv/repository; dpkg-scanpackages --multiversion . /dev/null 2>/dev/null >Packages; }
index
"#;

const LATER: &str = "make greeter 2.0-1; index";

const FIRST: &str = r#"
cd /usr/share/holo
printf '[[package]]\nname = "greeter"\nbefore = ["file:/etc/greeter.conf"]\n' >packages/greeter.toml
mkdir -p files/10-x/etc; echo 'GREETING=first' >files/10-x/etc/greeter.conf
printf '[[service]]\nname = "greeter"\nensure = "running"\nenable = true\nafter = ["package:greeter", "file:/etc/greeter.conf"]\nsubscribes = ["file:/etc/greeter.conf", "package:greeter"]\n' >services/greeter.toml
printf '[[user]]\nname = "anna"\n' >users-groups/users.toml
"#;

const SECOND: &str = r#"
cd /usr/share/holo
printf '[[package]]\nname = "greeter"\nensure = "latest"\nbefore = ["file:/etc/greeter.conf"]\n[[package]]\nname = "extra"\n' >packages/greeter.toml
echo 'GREETING=second' >files/10-x/etc/greeter.conf
printf '[[user]]\nname = "anna"\n[[user]]\nname = "berta"\n' >users-groups/users.toml
"#;

pub(crate) fn trials() -> Vec<Trial> {
    let programs = ["apt-get", "dpkg-deb", "dpkg-scanpackages", "useradd"].map(Need::Program);
    let needs: Vec<Need> = NEEDS_TO_BOOT.iter().copied().chain(programs).collect();
    vec![trial_of("packages, files, services and accounts are brought back on a real system", &needs, brought_back)]
}

/// Returns everything on the machine that an apply could change.
fn state(machine: &Overlay) -> String {
    let inventory = "dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n' greeter extra 2>/dev/null | grep ' installed$' || true; \
                     cat /etc/greeter.conf; systemctl is-active greeter || true; systemctl is-enabled greeter || true; \
                     cut -d: -f1 /etc/passwd | grep -x -e anna -e berta; sleep 0.2; cat /run/greeter";
    machine.must(inventory).to_string()
}

const STATE_OF_FIRST: &str = "greeter 1.0-1 installed\nGREETING=first\nactive\nenabled\nanna\n1.0-1 first\n";
const STATE_OF_SECOND: &str =
    "extra 5 installed\ngreeter 2.0-1 installed\nGREETING=second\nactive\nenabled\nanna\nberta\n2.0-1 second\n";

#[track_caller]
fn holo(machine: &Overlay, arguments: &[&str]) -> String {
    let run = machine.holo(arguments);
    assert!(run.success(), "{arguments:?}: {run}");
    run.to_string()
}

fn brought_back() {
    let machine = Overlay::booted().env("HOLO_HISTORY", "1");
    machine.must(REPOSITORY);
    let holorc = ["services", "users-groups", "files", "packages"]
        .map(|id| format!("plugin {id}={}\n", binaries::built(&format!("holo-{id}")).display()));
    machine.must("rm -rf /etc/holorc.d; cd /usr/share; mkdir -p holo && cd holo && mkdir -p services users-groups files packages");
    machine.write("/etc/holorc", holorc.concat());
    machine.must(FIRST);
    let first = holo(&machine, &["apply"]);
    assert_eq!(state(&machine), STATE_OF_FIRST, "{first}");
    machine.must(&format!("{}\n{LATER}", functions()));
    machine.must(SECOND);
    // The index is refreshed only for unknown versions; a newer version is not unknown.
    machine.must("apt-get --quiet update >/dev/null");
    // Killed after the package manager has finished but before its result is recorded, so only the recorded intent
    // tells who installed the version.
    let holo_path = binaries::built("holo").display().to_string();
    machine.write(
        "/etc/apt/apt.conf.d/99deadly",
        "DPkg::Post-Invoke { \"test ! -e /run/applies || { pid=$(cat /run/applies); rm /run/applies; kill -KILL $pid; }\"; };\n",
    );
    machine.must(&format!(
        "sh -c 'echo $$ >/run/applies; exec {holo_path} apply >/dev/null 2>&1' || test ! -e /run/applies"
    ));
    assert!(!machine.exists("/run/applies"), "it was not killed");
    assert!(machine.must("dpkg-query -W greeter").contains_str("2.0-1"));
    let second = holo(&machine, &["apply"]);
    assert_eq!(state(&machine), STATE_OF_SECOND, "{second}");

    let shown = machine.holo(&["rollback", "--dry-run"]);
    assert_eq!(shown.status, Some(3), "{shown}");
    assert!(shown.stdout_lossy().contains("would downgrade greeter 2.0-1 to 1.0-1"), "{shown}");
    assert_eq!(state(&machine), STATE_OF_SECOND);

    // Killed repeatedly, later each time.
    for delay in ["0.02", "0.08", "0.2", "0.35", "0.6", "1"] {
        let script = format!(
            "{holo_path} rollback 1 >/dev/null 2>&1 & pid=$!; sleep {delay}; kill -KILL $pid 2>/dev/null; wait $pid 2>/dev/null || true"
        );
        machine.must(&script);
    }
    let mut last = String::new();
    for _ in 0..4 {
        let run = machine.holo(&["apply"]);
        last = run.to_string();
        if run.success() {
            break;
        }
    }
    assert_eq!(state(&machine), STATE_OF_FIRST, "{last}");
    let check = machine.holo(&["check"]);
    assert!(check.success() && check.stderr_lossy().contains(">> using generation 1 of"), "{check}");

    holo(&machine, &["rollback", "--release"]);
    let again = holo(&machine, &["apply"]);
    assert_eq!(state(&machine), STATE_OF_SECOND, "{again}");

    // A manually installed version is not removed, and a version that is no longer available is an error of that
    // package only.
    machine.must(&format!("{}\nmake greeter 3.0-1; index; apt-get --quiet update >/dev/null; apt-get --yes --quiet install greeter=3.0-1 >/dev/null 2>&1", functions()));
    let refused = machine.holo(&["rollback", "1"]);
    assert_eq!(refused.status, Some(1), "{refused}");
    assert!(
        refused.stderr_lossy().contains("!! greeter 3.0-1 is newer than 1.0-1 (use --force to proceed)"),
        "{refused}"
    );
    assert_eq!(machine.must("cut -d: -f1 /etc/passwd | grep -c -x berta || true"), "0\n", "{refused}");
    machine.must(&format!(
        "{}\nrm /srv/repository/greeter_1.0-1_all.deb; index; apt-get --quiet update >/dev/null",
        functions()
    ));
    let failed = machine.holo(&["rollback", "1", "--force"]);
    assert_eq!(failed.status, Some(1), "{failed}");
    assert!(failed.stderr_lossy().contains("!! apt has no greeter 1.0-1, only 3.0-1"), "{failed}");
    assert_eq!(machine.read("/etc/greeter.conf"), "GREETING=first\n", "{failed}");
}

/// Returns the functions of the script that creates the repository.
fn functions() -> String {
    let (begin, end) = (REPOSITORY.find("make() {").unwrap(), REPOSITORY.find("make greeter").unwrap());
    let index = REPOSITORY.lines().find(|line| line.starts_with("index()")).unwrap();
    format!("{}\n{index}", &REPOSITORY[begin..end])
}
