//! A package, its configuration file and its service, together on a real apt and a real systemd: the example of
//! `docs/service.md`.
//!
//! The resource files are those in `examples/greeter/`. The package is built here, and comes from a local repository.

use holo_testing::overlay::NEEDS_TO_BOOT;
use holo_testing::{Need, Overlay, Run, binaries, trial_of};
use libtest_mimic::Trial;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A program that logs its configuration at each start, and its package in the only repository.
pub(crate) const REPOSITORY: &str = r#"
mkdir -p /srv/greeter/DEBIAN /srv/greeter/etc /srv/greeter/lib/systemd/system /srv/greeter/usr/lib/greeter /srv/repository
cd /srv/greeter
cat >DEBIAN/control <<'EOF'
Package: greeter
Version: 1.0-1
Architecture: all
Maintainer: Nobody <nobody@example.org>
Description: greets
EOF
echo /etc/greeter.conf >DEBIAN/conffiles
echo 'GREETING="Hello from the package"' >etc/greeter.conf
cat >usr/lib/greeter/greeter <<'EOF'
#!/bin/sh
. /etc/greeter.conf
echo "$GREETING" >>/var/log/greeter
exec sleep infinity
EOF
chmod 755 usr/lib/greeter/greeter
cat >lib/systemd/system/greeter.service <<'EOF'
[Service]
ExecStart=/usr/lib/greeter/greeter
[Install]
WantedBy=multi-user.target
EOF
dpkg-deb --root-owner-group --build . /srv/repository/greeter_1.0-1_all.deb >/dev/null
cd /srv/repository
dpkg-scanpackages . /dev/null 2>/dev/null >Packages
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d /var/lib/apt/lists
mkdir -p /etc/apt/sources.list.d /var/lib/apt/lists/partial
echo 'deb [trusted=yes] file:/srv/repository ./' >/etc/apt/sources.list
"#;

/// Lists everything on the machine that an apply could change, except a configuration file that apt keeps when it
/// removes a package.
const INVENTORY: &str = "dpkg-query -W -f '${db:Status-Status} ${Package}\\n' | grep ^installed; \
                         find /etc /lib/systemd/system /usr/lib -maxdepth 3 | grep -v /etc/greeter.conf | sort; \
                         systemctl list-unit-files --no-legend greeter.service || true; systemctl is-active greeter || true";

/// The plugin, but the first request to apply the service kills the dispatcher instead.
const DEADLY: &str = r#"#!/bin/sh
if [ "$1" = session ] && [ -e /run/deadly ]; then
    while IFS= read -r line; do
        case $line in
        *'"operation":"apply"'*'"service:greeter"'*) rm /run/deadly; kill -KILL "$PPID"; exit ;;
        esac
        printf '%s\n' "$line"
    done | PLUGIN session
else
    exec PLUGIN "$@"
fi
"#;

pub(crate) fn trials() -> Vec<Trial> {
    let needs: Vec<Need> =
        NEEDS_TO_BOOT.iter().copied().chain(["apt-get", "dpkg-deb", "dpkg-scanpackages"].map(Need::Program)).collect();
    let case = trial_of(
        "a package, its configuration file and its service, from the first apply to the last",
        &needs,
        case_of_a_package,
    );
    let masked = trial_of(
        "a masked unit is masked before a package starts it, and is as before at the end",
        &[&needs[..], &[Need::Program("deb-systemd-helper")]].concat(),
        masked_before_the_package,
    );
    let stopped = trial_of(
        "a unit that must be stopped is not started by its package, and can be started afterwards",
        &[&needs[..], &[Need::Program("deb-systemd-helper")]].concat(),
        stopped_despite_the_package,
    );
    let undone = trial_of("a unit that another one stops has failed", NEEDS_TO_BOOT, undone_by_another);
    vec![case, masked, stopped, undone]
}

/// Starts its service like packages of Debian.
const EAGER: &str = r#"
cat >/srv/greeter/DEBIAN/postinst <<'EOF'
#!/bin/sh
deb-systemd-helper enable greeter.service >/dev/null
systemctl daemon-reload
systemctl start greeter.service || true
EOF
chmod 755 /srv/greeter/DEBIAN/postinst
dpkg-deb --root-owner-group --build /srv/greeter /srv/repository/greeter_1.0-1_all.deb >/dev/null
cd /srv/repository
dpkg-scanpackages . /dev/null 2>/dev/null >Packages
"#;

/// Returns a booted machine with these plugins, and folders for their resources.
fn machine(plugins: &[&str]) -> Overlay {
    let machine = Overlay::booted();
    let line = |id: &&str| format!("plugin {id}={}\n", binaries::built(&format!("holo-{id}")).display());
    machine.must("rm -rf /etc/holorc.d");
    machine.write("/etc/holorc", plugins.iter().map(line).collect::<String>());
    plugins.iter().for_each(|id| drop(machine.must(&format!("mkdir -p /usr/share/holo/{id}"))));
    machine
}

fn masked_before_the_package() {
    let machine = machine(&["packages", "services"]);
    machine.must(REPOSITORY);
    machine.must(EAGER);
    machine.write("/usr/share/holo/packages/1.toml", "[[package]]\nname = \"greeter\"\n");
    machine.write(
        "/usr/share/holo/services/1.toml",
        "[[service]]\nname = \"greeter\"\nmask = true\nensure = \"stopped\"\n",
    );
    let before = machine.must(INVENTORY).to_string();
    let check = machine.holo(&["check"]);
    assert!(check.status == Some(3) && check.stdout_lossy().contains("would mask greeter.service"), "{check}");
    applied(&machine);
    assert_eq!(
        machine.must("systemctl is-enabled greeter || systemctl is-active greeter || true"),
        "masked\ninactive\n"
    );
    assert!(!machine.exists("/var/log/greeter"), "it was started");
    unchanged(&machine);
    // Everything goes, and nothing is started meanwhile.
    machine.must("rm /usr/share/holo/*/1.toml");
    applied(&machine);
    assert!(!machine.exists("/var/log/greeter"), "it was started");
    assert_eq!(machine.must(INVENTORY), before);
    // The order that a person states is the same.
    machine.write("/usr/share/holo/packages/1.toml", "[[package]]\nname = \"greeter\"\n");
    let stated = "[[service]]\nname = \"greeter\"\nmask = true\nbefore = [\"package:greeter\"]\n";
    machine.write("/usr/share/holo/services/1.toml", stated);
    applied(&machine);
    assert!(!machine.exists("/var/log/greeter"), "it was started");
}

fn stopped_despite_the_package() {
    let machine = machine(&["packages", "services"]);
    machine.must(REPOSITORY);
    machine.must(EAGER);
    let before = machine.must(INVENTORY).to_string();
    machine.write("/usr/share/holo/packages/1.toml", "[[package]]\nname = \"greeter\"\n");
    let stopped = "[[service]]\nname = \"greeter\"\nensure = \"stopped\"\nenable = false\n";
    machine.write(
        "/usr/share/holo/services/1.toml",
        stopped.to_owned() + "[[service]]\nname = \"x\"\nensure = \"stopped\"\n",
    );
    // A run that was killed at the installation has left its masks.
    let killed = "touch /run/systemd/system/killed.service; echo killed.service >/run/holo-masks";
    let left = "ls /run/systemd/system /run/holo-masks 2>&1 | grep -E 'service|masks' || true";
    machine.must(killed);
    applied(&machine);
    assert!(!machine.exists("/var/log/greeter"), "it was started");
    let state = "systemctl is-enabled greeter || systemctl is-active greeter || true";
    assert_eq!(machine.must(state), "disabled\ninactive\n");
    assert_eq!(machine.must(left), "ls: cannot access '/run/holo-masks': No such file or directory\n");
    unchanged(&machine);
    machine.must(killed);
    assert!(machine.holo(&["apply", "--verify"]).success());
    assert_eq!(machine.must(left), "ls: cannot access '/run/holo-masks': No such file or directory\n");
    machine.must("systemctl start greeter");
    assert!(machine.exists("/var/log/greeter"), "it is still masked");
    machine.must("systemctl stop greeter");
    machine.must("rm /usr/share/holo/*/1.toml /var/log/greeter");
    applied(&machine);
    assert_eq!(machine.must(INVENTORY), before);
}

fn undone_by_another() {
    let machine = machine(&["services"]);
    let unit = |rest: &str| format!("{rest}\n[Service]\nExecStart=sleep 86400\n");
    machine.write("/etc/systemd/system/one.service", unit(""));
    machine.write("/etc/systemd/system/two.service", unit("") + "ExecStartPre=systemctl stop one\n");
    machine.must("systemctl daemon-reload");
    let one = "[[service]]\nname = \"one\"\n";
    machine.write("/usr/share/holo/services/1.toml", one);
    applied(&machine);
    machine.write("/usr/share/holo/services/1.toml", format!("{one}[[service]]\nname = \"two\"\n"));
    let run = machine.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    let said = "!! not in its desired state any more since service:two changed: would start one.service\n";
    assert!(run.stderr_lossy().contains(said), "{run}");
    let history = machine.holo(&["history", "--json"]);
    assert!(history.stdout_lossy().contains("\"failed\":1"), "{history}");
    // The counts of programs are those of people.
    machine.must("systemctl stop two; systemctl start one");
    let run = machine.holo(&["apply", "--json"]);
    let lines = run.stdout_lossy().into_owned();
    assert!(lines.contains(r#""failed":1"#) && lines.contains(r#""unchanged":1,"changed":1"#), "{run}");
    // A contradiction without changes costs nothing and is none.
    machine.write("/usr/share/holo/services/1.toml", "[[service]]\nname = \"two\"\n");
    applied(&machine);
}

fn case_of_a_package() {
    let machine = Overlay::booted();
    let services = binaries::built("holo-services");
    machine.must(REPOSITORY);
    machine.script("/srv/holo-services", DEADLY.replace("PLUGIN", services.to_str().unwrap()));
    let plugin = |id: &str| format!("plugin {id}={}\n", binaries::built(&format!("holo-{id}")).display());
    // In the wrong order; dependencies determine the right one.
    let holorc = format!("plugin services=/srv/holo-services\n{}{}", plugin("files"), plugin("packages"));
    machine
        .must("rm -rf /etc/holorc.d; mkdir -p /usr/share/holo/files /usr/share/holo/packages /usr/share/holo/services");
    machine.write("/etc/holorc", holorc);
    let before = machine.must(INVENTORY).to_string();

    install_examples(&machine);
    let first = applied(&machine);
    let place = |text: &str| first.stdout_lossy().find(text);
    assert!(place("on package:greeter\n").is_some(), "{first}");
    assert!(place("on package:greeter\n") < place("on file:/etc/greeter.conf\n"), "{first}");
    assert!(place("on file:/etc/greeter.conf\n") < place("on service:greeter\n"), "{first}");
    assert_eq!(machine.must("systemctl is-active greeter; systemctl is-enabled greeter"), "active\nenabled\n");
    greetings(&machine, &["Hello from my site"]);
    unchanged(&machine);

    configure(&machine, "Good morning");
    applied(&machine);
    greetings(&machine, &["Hello from my site", "Good morning"]);
    unchanged(&machine);

    // Killed between the file and the restart.
    configure(&machine, "Good evening");
    machine.write("/run/deadly", "");
    let killed = machine.holo(&["apply"]);
    assert!(!killed.success(), "{killed}");
    assert!(!machine.exists("/run/deadly"), "it did not come so far\n{killed}");
    assert_eq!(machine.read("/etc/greeter.conf"), "GREETING=\"Good evening\"\n");
    greetings(&machine, &["Hello from my site", "Good morning"]);
    applied(&machine);
    greetings(&machine, &["Hello from my site", "Good morning", "Good evening"]);
    unchanged(&machine);

    machine.must("rm -r /usr/share/holo/*/20-mysite*");
    applied(&machine);
    let after = machine.must(INVENTORY).to_string();
    let (before, after): (BTreeSet<&str>, BTreeSet<&str>) = (before.lines().collect(), after.lines().collect());
    let different: Vec<_> = before.symmetric_difference(&after).collect();
    assert!(different.is_empty(), "the machine is not as before: {different:?}");
    assert_eq!(machine.read("/etc/greeter.conf"), "GREETING=\"Hello from the package\"\n", "what apt leaves");
    unchanged(&machine);
}

/// Installs the example's resource files where a package would.
fn install_examples(machine: &Overlay) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/greeter");
    let mut folders = vec![examples.clone()];
    let mut files: Vec<PathBuf> = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    assert_eq!(files.len(), 3);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        machine.write(Path::new("/usr/share/holo").join(file.strip_prefix(&examples).unwrap()), text);
    }
}

fn configure(machine: &Overlay, greeting: &str) {
    machine.write("/usr/share/holo/files/20-mysite/etc/greeter.conf", format!("GREETING=\"{greeting}\"\n"));
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

/// Asserts what the service has logged at its starts.
#[track_caller]
fn greetings(machine: &Overlay, expected: &[&str]) {
    let said = machine.read("/var/log/greeter").to_string();
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}
