//! Machines with systemd and apt, from the package of a web server to a rollout that fails.

use crate::harness::{NEEDS, Operator, PATIENCE, Server, free_port, prepared};
use crate::link::{Condition, Link};
use holo_testing::binaries::built;
use holo_testing::overlay::NEEDS_TO_BOOT;
use holo_testing::{Need, Overlay, trial_of};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::Instant;

pub(crate) fn trials() -> Vec<Trial> {
    let programs = ["apt-get", "dpkg-deb", "dpkg-scanpackages", "python3"].map(Need::Program);
    let needs: Vec<Need> = [NEEDS_TO_BOOT, &NEEDS, &programs].concat();
    vec![trial_of("three machines with systemd run a web server", &needs, three_machines)]
}

/// A repository with a web server, whose configuration is its page and its port.
const REPOSITORY: &str = r#"
mkdir -p /srv/repository /srv/web/DEBIAN /srv/web/etc /srv/web/usr/bin /srv/web/lib/systemd/system
cat >/srv/web/DEBIAN/control <<'END'
Package: little-web-server
Version: 1
Architecture: all
Maintainer: Test <test@example.org>
Description: serves one page
END
echo /etc/little.conf >/srv/web/DEBIAN/conffiles
printf 'port 1\nIt works\n' >/srv/web/etc/little.conf
cat >/srv/web/usr/bin/little-web-server <<'END'
#!/usr/bin/python3
import http.server
port, page = open('/etc/little.conf').read().split('\n', 1)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(500 if 'broken' in page else 200)
        self.end_headers()
        self.wfile.write(page.encode())
http.server.ThreadingHTTPServer.allow_reuse_address = True
http.server.ThreadingHTTPServer(('127.0.0.1', int(port.split()[1])), Handler).serve_forever()
END
chmod 755 /srv/web/usr/bin/little-web-server
printf '[Service]\nExecStart=/usr/bin/little-web-server\n[Install]\nWantedBy=multi-user.target\n' \
    >/srv/web/lib/systemd/system/little-web-server.service
dpkg-deb --build --root-owner-group /srv/web /srv/repository/little-web-server_1_all.deb
cd /srv/repository && dpkg-scanpackages . >Packages
rm -rf /srv/web /etc/apt/sources.list /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/srv/repository ./' >/etc/apt/sources.list
apt-get update
"#;

const SERVICE: &str = r#"[[service]]
name = "little-web-server"
enable = true
requires = ["package:little-web-server"]
subscribes = ["file:/etc/little.conf"]
health_check = [{ http = "http://127.0.0.1:{{ data.port }}/", tries = 10 }]
"#;

struct Machine {
    system: Overlay,
    link: Link,
    port: u16,
}

impl Machine {
    fn boot(name: &str, server: &Server, operator: &Operator) -> Machine {
        let system = Overlay::booted_online();
        let link = Link::to(&server.url());
        for program in ["holo", "holo-agent", "holo-fleet", "holo-probe"] {
            system.must(&format!("cp {} /usr/bin/{program}", built(program).display()));
        }
        for unit in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../units")).unwrap().flatten() {
            let path = Path::new("/usr/lib/systemd/system").join(unit.file_name());
            system.write(path, fs::read(unit.path()).unwrap());
        }
        system.must(REPOSITORY);
        system.must("rm -rf /etc/holorc.d /usr/share/holo; mkdir -p /etc/holorc.d; systemctl daemon-reload");
        system.write("/etc/holorc", "");
        system.write("/etc/holo/allowed_signers", operator.root.read("etc/holo/allowed_signers"));
        let section =
            format!("health_interval = \"1s\"\n[fleet]\nurl = {:?}\nhost = {name:?}\nchannel = \"web\"\n", link.url());
        system.write("/etc/holo/agent.toml", section);
        let port = free_port();
        operator.root.write("data.toml", format!("port = {port}\n"));
        operator.must(&["data", "set", &format!("host.{name}"), &operator.root.join("data.toml").to_string_lossy()]);
        system.must("systemctl start holo-agent");
        Machine { system, link, port }
    }

    /// Returns what the web server serves.
    fn page(&self) -> String {
        let script = format!(
            "python3 -c 'import urllib.request as r; print(r.urlopen(\"http://127.0.0.1:{}/\").read().decode(), end=\"\")'",
            self.port
        );
        self.system.sh(&script).stdout_lossy().into_owned()
    }

    #[track_caller]
    fn until_page(&self, page: &str) {
        let begun = Instant::now();
        while self.page() != page {
            let journal =
                || self.system.sh("journalctl --no-pager -u 'holo*' -u 'little*' | tail -60; cat /etc/little.conf");
            assert!(begun.elapsed() < PATIENCE, "{page:?} is not served: {}", journal());
        }
    }

    /// Returns the invocations of the service, which tell whether it was started again.
    fn invocation(&self) -> String {
        self.system.must("systemctl show --value --property=InvocationID little-web-server").to_string()
    }
}

fn publish(operator: &Operator, version: &str, page: &str) -> String {
    let folder = format!("srv/web-{version}");
    let write = |path: &str, text: &str| operator.root.write(format!("{folder}/{path}"), text);
    write("holo-bundle.toml", &format!("name = \"web\"\nversion = \"{version}\"\n"));
    let plugin = |id: &str| format!("plugin {id}={}\n", built(&format!("holo-{id}")).display());
    write("etc/holorc.d/50-web", &["packages", "files", "services"].map(plugin).concat());
    write(
        "usr/share/holo/packages/50-web.toml",
        "[[package]]\nname = \"little-web-server\"\nbefore = [\"file:/etc/little.conf\"]\n",
    );
    write("usr/share/holo/files/50-web/etc/little.conf.holotemplate", &format!("port {{{{ data.port }}}}\n{page}\n"));
    write("usr/share/holo/services/50-web.toml.jinja", SERVICE);
    operator.publish_folder(&folder, "web", version)
}

fn three_machines() {
    let (mut server, operator) = prepared();
    let machines = ["web1", "web2", "web3"].map(|name| Machine::boot(name, &server, &operator));
    operator.until(&["hosts", "--json"], |lines| lines.len() == 3);
    let rollout = |bundle: &str, more: &[&str]| {
        let usual = ["rollout", "start", "web", bundle, "--soak", "3s", "--follow"];
        operator.run(&[&usual, more].concat())
    };
    let first = publish(&operator, "1", "one");
    let run = rollout(&first, &["--waves", "1,100%", "--max-failed", "0"]);
    assert!(run.success(), "{run}");
    machines.iter().for_each(|machine| machine.until_page("one\n"));

    // A version that the health check finds broken: only the first machine notices.
    let before: Vec<String> = machines.iter().map(Machine::invocation).collect();
    let second = publish(&operator, "2", "broken");
    let run = rollout(&second, &["--waves", "1,100%", "--max-failed", "0", "--auto-rollback"]);
    assert_eq!(run.status, Some(1), "{run}");
    machines.iter().for_each(|machine| machine.until_page("one\n"));
    let after: Vec<String> = machines.iter().map(Machine::invocation).collect();
    let restarted = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    assert_eq!(restarted, 1, "{before:?} {after:?}");
    let state = operator.json(&["rollout", "status", "web", "--json"]);
    assert_eq!((&state[0]["state"], &state[0]["wave"]), (&json!("rolled_back"), &json!(1)));

    // The network of one machine is cut in the middle of a rollout, and it repairs itself meanwhile.
    machines[2].link.set(Condition::Cut);
    let third = publish(&operator, "3", "three");
    let run = rollout(&third, &["--waves", "100%", "--silent-after", "20s", "--max-failed", "1"]);
    assert!(run.success(), "{run}");
    machines[..2].iter().for_each(|machine| machine.until_page("three\n"));
    machines[2].system.must("systemctl stop little-web-server");
    machines[2].until_page("one\n");
    machines[2].link.set(Condition::Good);
    machines[2].until_page("three\n");

    // The server is away, with its data and without: nothing changes on the machines.
    for keeps_data in [true, false] {
        server.kill();
        machines[0].system.must("systemctl stop little-web-server");
        machines[0].until_page("three\n");
        if !keeps_data {
            server.lose_data();
        }
        server.start_again();
    }
    operator.until_success(&["init"]);
    let is_three = |line: &Value| line["bundle"] == "web@3" && line["result"] != "failed";
    operator.until(&["hosts", "--json"], |lines| lines.len() == 3 && lines.iter().all(is_three));
    machines.iter().for_each(|machine| machine.until_page("three\n"));
    // The machines fetch what is new from the server that knows nothing of before.
    let fourth = publish(&operator, "4", "four");
    let run = rollout(&fourth, &["--waves", "1,100%", "--max-failed", "0"]);
    assert!(run.success(), "{run}");
    machines.iter().for_each(|machine| machine.until_page("four\n"));
    // Without the agent, they are ordinary machines.
    machines[0].system.must("systemctl stop holo-agent; rm /usr/bin/holo-agent /usr/bin/holo-fleet; holo check");
}
