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
    vec![case]
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
