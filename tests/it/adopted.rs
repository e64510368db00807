//! A manually configured web server: `holo adopt --all` describes it, and its description reproduces the server on
//! another machine.

mod year;

use holo_testing::overlay::NEEDS_TO_BOOT;
use holo_testing::{Need, Overlay, binaries, trial_of};
use libtest_mimic::Trial;

/// The plugins that describe a machine.
const PLUGINS: [&str; 6] = ["packages", "files", "users-groups", "ssh-keys", "services", "exec"];

/// A distribution with a web server in its repository. Unrelated files of the test machine in the same directories are
/// removed.
const DISTRIBUTION: &str = r#"
rm -rf /usr/local /opt /srv /etc/holo* /etc/apt/sources.list.d /var/lib/apt/lists
mkdir -p /usr/local/bin /etc/apt/sources.list.d /var/lib/apt/lists/partial /srv/repository
mkdir -p /srv/webserver/DEBIAN /srv/webserver/etc/webserver /srv/webserver/usr/lib/systemd/system /srv/webserver/usr/lib/webserver
cd /srv/webserver
cat >DEBIAN/control <<'CONTROL'
Package: webserver
Version: 1.0-1
Architecture: all
Maintainer: Nobody <nobody@example.org>
Depends: webserver-data
Description: serves
CONTROL
printf '%s\n' /etc/webserver/webserver.conf /etc/webserver/mime.conf >DEBIAN/conffiles
cat >DEBIAN/postinst <<'POSTINST'
#!/bin/sh
set -e
getent passwd webserver >/dev/null || useradd --system --home-dir /nonexistent --shell /usr/sbin/nologin webserver
deb-systemd-helper enable webserver.service >/dev/null
systemctl daemon-reload
systemctl start webserver.service
POSTINST
chmod 755 DEBIAN/postinst
printf '%s\n' 'GREETING="It works!"' '# The rest is as it was.' >etc/webserver/webserver.conf
echo 'text/html html' >etc/webserver/mime.conf
cat >usr/lib/webserver/webserver <<'PYTHON'
#!/usr/bin/python3
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["GREETING"].encode())
    def log_message(self, *arguments):
        pass
http.server.HTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
PYTHON
chmod 755 usr/lib/webserver/webserver
cat >usr/lib/systemd/system/webserver.service <<'UNIT'
[Service]
User=webserver
EnvironmentFile=/etc/webserver/webserver.conf
ExecStart=/usr/lib/webserver/webserver
[Install]
WantedBy=multi-user.target
UNIT
dpkg-deb --root-owner-group --build . /srv/repository/webserver_1.0-1_all.deb >/dev/null
mkdir -p /srv/data/DEBIAN
cat >/srv/data/DEBIAN/control <<'CONTROL'
Package: webserver-data
Version: 1.0-1
Architecture: all
Maintainer: Nobody <nobody@example.org>
Description: data of the web server
CONTROL
mkdir -p /srv/data/usr/lib/systemd/system
printf '[Service]\nExecStart=/bin/sleep 86400\n' >/srv/data/usr/lib/systemd/system/webserver-log.service
dpkg-deb --root-owner-group --build /srv/data /srv/repository/webserver-data_1.0-1_all.deb >/dev/null
cd /srv/repository
dpkg-scanpackages . /dev/null 2>/dev/null >Packages
: >/etc/apt/sources.list
"#;

/// The commands with which an administrator sets up the server.
const BY_HAND: &str = r#"
echo 'deb [trusted=yes] file:/srv/repository ./' >/etc/apt/sources.list.d/vendor.list
apt-get -q update >/dev/null
DEBIAN_FRONTEND=noninteractive apt-get -qy install webserver >/dev/null
sed -i 's/It works!/Hello from my server/' /etc/webserver/webserver.conf
systemctl restart webserver
rm /etc/webserver/mime.conf
echo EDITOR=vim >>/etc/environment
ln -sf /usr/lib/systemd/system/graphical.target /etc/systemd/system/default.target
mkdir -p /var/spool/cron/crontabs /srv/www
echo '@daily true' >/var/spool/cron/crontabs/root
chmod 600 /var/spool/cron/crontabs/root
echo hello >/srv/www/index.html

groupadd --gid 1600 crew
useradd --create-home --uid 1601 --groups crew --comment 'Jane Doe' --shell /bin/bash jane
install -d -m 700 -o jane -g jane /home/jane/.ssh
cat >/home/jane/.ssh/authorized_keys <<'KEYS'
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMlEihSDsXtKfjGZmUFcJVFeRT7ctkIuJqrXfdbEAr5w jane@laptop
restrict ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIdzC/U28SStyTYU9/4RVVeARpSAo/wvLM9mqvU7bpfP backup
KEYS
chown jane:jane /home/jane/.ssh/authorized_keys
chmod 600 /home/jane/.ssh/authorized_keys

useradd --system --home-dir /nonexistent --shell /usr/sbin/nologin ticker
cat >/usr/local/bin/ticker <<'SCRIPT'
#!/bin/sh
while sleep 1; do curl --silent http://127.0.0.1:8080/ >/dev/null; done
SCRIPT
chmod 755 /usr/local/bin/ticker
cat >/etc/systemd/system/ticker.service <<'UNIT'
[Service]
User=ticker
ExecStart=/usr/local/bin/ticker
[Install]
WantedBy=multi-user.target
UNIT
systemctl daemon-reload
systemctl enable --quiet --now ticker
systemctl disable --quiet --now fstrim.timer
systemctl mask --quiet getty@tty5.service

# What no other machine can be.
systemctl start webserver-log
systemctl mask --quiet webserver-log
printf '[Service]\nExecStart=/bin/false\n[Install]\nWantedBy=multi-user.target\n' >/etc/systemd/system/broken.service
systemctl daemon-reload
systemctl enable --quiet --now broken || true
mkdir /etc/odd
touch "/etc/odd/x$(printf '\n[[file]]')" "/etc/odd/caf$(printf '\351')"
"#;

/// Shows the state of units that were left in a state that no definition describes.
const UNUSUAL: &str = "
echo $(systemctl is-enabled webserver-log broken || true) $(systemctl is-active webserver-log broken || true)
";

/// Lists everything that characterises the server.
const INVENTORY: &str = r#"
dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\n' | grep ^installed
apt-mark showmanual
sha256sum /etc/webserver/* /usr/local/bin/* /etc/systemd/system/ticker.service
stat -c '%n %a %U:%G' /etc/webserver/* /usr/local/bin/* /etc/systemd/system/ticker.service /home/jane /home/jane/.ssh
for unit in webserver.service ticker.service fstrim.timer getty@tty5.service; do
    echo "$unit $(systemctl is-enabled $unit || true) $(systemctl is-active $unit || true)"
done
ls /etc/webserver
cat /etc/environment /var/spool/cron/crontabs/root /srv/www/*
readlink /etc/systemd/system/default.target
getent passwd
getent group
ssh-keygen -lf /home/jane/.ssh/authorized_keys | cut -d' ' -f1,2
"#;

pub(crate) fn trials() -> Vec<Trial> {
    let tools =
        ["apt-get", "dpkg-deb", "dpkg-scanpackages", "deb-systemd-helper", "useradd", "python3", "curl", "ssh-keygen"];
    let needs: Vec<Need> = NEEDS_TO_BOOT.iter().copied().chain(tools.map(Need::Program)).collect();
    let tools_of_a_year = [
        "apt-ftparchive",
        "gpg",
        "setfacl",
        "setfattr",
        "setcap",
        "update-alternatives",
        "git",
        "dpkg-statoverride",
        "dpkg-divert",
        "chage",
        "locale-gen",
    ];
    let more = tools_of_a_year.map(Need::Program);
    let for_a_year: Vec<Need> = needs.iter().copied().chain(more).collect();
    vec![
        trial_of("a server that was made by hand is described, and made again", &needs, case_of_a_server),
        trial_of("a machine after a year of life and its clone are the same", &for_a_year, year::case_of_a_year),
    ]
}

fn case_of_a_server() {
    let machine = machine();
    machine.must(BY_HAND);
    assert_eq!(answer(&machine), "Hello from my server");
    let by_hand = machine.must(INVENTORY).to_string();

    let run = machine.holo(&["adopt", "--all", "--include", "/srv/www"]);
    assert!(run.success(), "{run}");
    let words = "webserver-log.service is masked, but runs, which its definition cannot reproduce on another system";
    assert!(run.stderr_lossy().contains(words), "{run}");
    for entity in [r"file:/etc/odd/x\n[[file]]", r"file:/etc/odd/caf\xe9", "file:/etc/machine-id"] {
        assert!(run.stdout_lossy().contains(&format!("      entity {entity}\n")), "{run}");
    }
    let check = machine.holo(&["check"]);
    let said = (check.status, check.stdout_lossy(), check.stderr_lossy());
    assert_eq!(said, (Some(0), "".into(), "".into()), "{run}\n{check}");
    unchanged(&machine);
    assert_eq!(machine.must(UNUSUAL), "masked enabled active failed\n");
    assert_eq!(machine.must(INVENTORY).to_string(), by_hand);
    let again = machine.holo(&["adopt", "--all"]);
    assert_eq!((again.status, again.stdout_lossy().contains("wrote")), (Some(0), false), "{again}");

    let resources = machine.must("tar -C /etc/holo/resources -cf - . | base64");
    let fresh = self::machine();
    fresh.write("/root/resources", resources.as_slice());
    fresh.must("mkdir -p /etc/holo/resources; base64 -d /root/resources | tar -C /etc/holo/resources -xf -");
    let first = fresh.holo(&["apply"]);
    assert!(first.success(), "{first}");
    assert_eq!(answer(&fresh), "Hello from my server", "{first}");
    let made = fresh.must(INVENTORY).to_string();
    let different = differences(&by_hand, &made);
    assert!(different.is_empty(), "{different:#?}\n{first}");
    unchanged(&fresh);

    fresh.must(
        "sed -i /backup/d /home/jane/.ssh/authorized_keys; sed -i /ssh-keyset:jane/d /home/jane/.ssh/authorized_keys",
    );
    let diff = fresh.holo(&["diff"]).stdout_lossy().into_owned();
    assert!(diff.contains("\n+++ /home/jane/.ssh/authorized_keys\n"), "{diff}");
}

/// Returns the lines that only one of two texts contains.
fn differences(one: &str, other: &str) -> Vec<String> {
    let only = |one: &str, other: &str, sign: &str| -> Vec<String> {
        let lines: Vec<&str> = other.lines().collect();
        one.lines().filter(|line| !lines.contains(line)).map(|line| format!("{sign}{line}")).collect()
    };
    [only(one, other, "-"), only(other, one, "+")].concat()
}

fn machine() -> Overlay {
    let machine = Overlay::booted();
    machine.must(DISTRIBUTION);
    configure(&machine);
    machine
}

/// Configures the plugins.
fn configure(machine: &Overlay) {
    machine.must(&PLUGINS.map(|id| format!("mkdir -p /usr/share/holo/{id}\n")).concat());
    let plugin = |id: &str| format!("plugin {id}={}\n", binaries::built(&format!("holo-{id}")).display());
    machine.write("/etc/holorc", PLUGINS.map(plugin).concat());
}

fn answer(machine: &Overlay) -> String {
    machine.must("curl --silent --retry 20 --retry-delay 1 --retry-connrefused http://127.0.0.1:8080/").to_string()
}

#[track_caller]
fn unchanged(machine: &Overlay) {
    let run = machine.holo(&["apply"]);
    assert_eq!((run.status, run.stdout_lossy(), run.stderr_lossy()), (Some(0), "".into(), "".into()), "{run}");
}
