//! Tests of the registry: services that come, become sick, are lost and go, and those who follow them.

use crate::harness::{Host, NATS, NEEDS, Operator, PATIENCE, Server, prepared};
use holo_testing::binaries::built;
use holo_testing::require::trial_of;
use holo_testing::{Need, ScratchRoot};
use libtest_mimic::Trial;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::time::Instant;

pub(crate) fn trials() -> Vec<Trial> {
    let needs = [NATS, Need::Program("ssh-keygen"), Need::Program("promtool")];
    vec![
        trial_of("a load balancer follows three web servers as they come and go", &needs, balancer),
        trial_of("services and what is known of them outlast the loss of the server", &NEEDS, lost_server),
        trial_of("operators query, watch, add and remove services", &NEEDS, commands),
    ]
}

/// A plugin with an entity that is as healthy as a file says.
const SERVER: &str = r#"#!/bin/sh
case $1 in
info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\nHEALTH=1\n' ;;
scan)
    [ ! -e "$HOLO_ROOT_DIR/srv/down" ] || exit 0
    echo 'ENTITY: server:web'
    echo 'REGISTER: {"cluster":"eu","service":"web","protocol":"http","address":"10.0.0.1","port":80,"priority":1,"ttl":6}' ;;
check | apply) echo 'not changed' >&3 ;;
health) printf '%s\tserver:web\n' "$(cat "$HOLO_ROOT_DIR/srv/health")" >&3 ;;
esac
"#;

fn web(server: &Server, operator: &Operator, number: u8) -> Host {
    let definition = format!(
        "[[file]]\npath = \"/srv/app/web\"\ncontent = \"up\\n\"\nregister = [{{ cluster = \"eu\", service = \"web\", \
         protocol = \"http\", address = \"10.0.0.{number}\", port = 80, ttl = \"6s\", annotations = {{ zone = \"a\" }} }}]\n"
    );
    Host::with_files(server, operator, &format!("web{number}"), "", |root| {
        let root = root.file("usr/share/holo/files/10-web.toml", definition);
        root.file("etc/holorc.d/10-files", format!("plugin files={}\n", built("holo-files").display()))
    })
}

const BALANCER: &str = "[[file]]\npath = \"/srv/app/other\"\ncontent = \"x\\n\"\n\n[[file]]\npath = \"/srv/app/lb.conf\"\n\
                        content = '''\n\
                        {% for s in registrations('eu', 'http', 'web', '*') %}{{ s.address }}:{{ s.port }} {% endfor %}\n'''\n";
const TARGETS: &str = "{{ registrations('*', '*', 'web', '*').prometheus_file_sd }}";

fn with_balancer(root: ScratchRoot) -> ScratchRoot {
    let plugins = ["files", "scaffold"].map(|name| {
        let program = built(&format!("holo-{name}"));
        format!("plugin {name}={}\n", program.display())
    });
    root.file("etc/holorc.d/10-plugins", plugins.concat())
        .file("usr/share/holo/files/10-lb.toml.jinja", BALANCER)
        .file(
            "usr/share/holo/scaffold/10-targets.toml",
            "[[scaffold]]\ntarget = \"/srv/targets\"\nsource = \"targets\"\n",
        )
        .file("usr/share/holo/scaffold/targets/web.json.jinja", TARGETS)
}

fn balancer() {
    let (server, operator) = prepared();
    let mut lb = Host::with_files(&server, &operator, "lb", "", with_balancer);
    lb.until_file("srv/app/lb.conf", "\n");
    let one = Host::with_files(&server, &operator, "web1", "", |root| {
        let root = root.file("etc/holorc.d/10-server", "plugin server\n").script("usr/lib/holo/holo-server", SERVER);
        root.dir("usr/share/holo/server").file("srv/health", "ok")
    });
    let (mut two, mut three) = (web(&server, &operator, 2), web(&server, &operator, 3));
    lb.until_file("srv/app/lb.conf", "10.0.0.1:80 10.0.0.2:80 10.0.0.3:80 \n");
    promtool(&mut lb);
    let _controller = operator.background(&["controller"]);
    // It becomes sick, and recovers.
    one.root.write("srv/health", "critical");
    lb.until_file("srv/app/lb.conf", "10.0.0.2:80 10.0.0.3:80 \n");
    one.root.write("srv/health", "ok");
    lb.until_file("srv/app/lb.conf", "10.0.0.1:80 10.0.0.2:80 10.0.0.3:80 \n");
    // It is lost, with everything that could withdraw it.
    let program = Pid::from_raw(two.fleet_program().cast_signed()).unwrap();
    kill_process(program, Signal::KILL).unwrap();
    two.kill();
    lb.until_file("srv/app/lb.conf", "10.0.0.1:80 10.0.0.3:80 \n");
    // It ends in order, which takes less than its time to live.
    let begun = Instant::now();
    three.stop();
    let ended = begun.elapsed();
    lb.until_file("srv/app/lb.conf", "10.0.0.1:80 \n");
    let queried = operator.json(&["registry", "query", "--json"]);
    assert_eq!(queried.len(), 1, "{queried:?} after {ended:?}");
    // It comes back.
    two.start_again();
    lb.until_file("srv/app/lb.conf", "10.0.0.1:80 10.0.0.2:80 \n");
    // Somebody changes it: it is repaired, and registered again.
    two.root.write("usr/share/holo/files/10-web.toml", "");
    lb.until_file("srv/app/lb.conf", "10.0.0.1:80 \n");
    one.root.write("srv/down", "");
    one.root.write("etc/holorc.d/20-touch", "");
    lb.until_file("srv/app/lb.conf", "\n");
    // Only what used the registry was changed.
    let repaired = operator.json(&["events", "--host", "lb", "--kind", "repaired", "--json"]);
    let entities: std::collections::BTreeSet<&str> =
        repaired.iter().map(|event| event["entity"].as_str().unwrap()).collect();
    assert_eq!(entities.into_iter().collect::<Vec<_>>(), ["file:/srv/app/lb.conf", "scaffold:/srv/targets"]);
    // Without the agent, the snapshot counts too.
    lb.stop();
    lb.root.write("srv/app/lb.conf", "");
    let snapshot =
        "[{\"cluster\":\"eu\",\"service\":\"web\",\"protocol\":\"http\",\"address\":\"10.0.0.9\",\"port\":81}]";
    lb.root.write("var/lib/holo-fleet/registry.json", snapshot);
    let applied = lb.root.holo(&["apply", "--force"]);
    assert!(applied.success(), "{applied}");
    assert_eq!(lb.root.read("srv/app/lb.conf"), "10.0.0.9:81 \n");
}

/// Has promtool read the targets.
fn promtool(lb: &mut Host) {
    let group = |number: u8, annotations: &Value| {
        let host = format!("web{number}");
        let mut labels = json!({ "cluster": "eu", "service": "web", "protocol": "http", "host": host });
        labels.as_object_mut().unwrap().extend(annotations.as_object().unwrap().clone());
        json!({ "targets": [format!("10.0.0.{number}:80")], "labels": labels })
    };
    let zone = json!({ "zone": "a" });
    let groups = json!([group(1, &json!({})), group(2, &zone), group(3, &zone)]);
    lb.until_file("srv/targets/web.json", &format!("{groups:#}\n"));
    let targets = lb.root.join("srv/targets/web.json").display().to_string();
    let config = format!("scrape_configs:\n  - job_name: web\n    file_sd_configs:\n      - files: [{targets:?}]\n");
    lb.root.write("srv/prometheus.yml", config);
    let config = lb.root.join("srv/prometheus.yml").display().to_string();
    let checked = lb.root.run("promtool", &["check", "config", &config]);
    assert!(checked.success(), "{checked}");
    let found = lb.root.run("promtool", &["check", "service-discovery", &config, "web"]);
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(found.as_array().unwrap().len(), 3, "{found:#}");
    // Their order is not defined.
    let zones = found.as_array().unwrap().iter().filter(|target| target["labels"]["zone"] == "a");
    assert_eq!(zones.count(), 2, "{found:#}");
}

fn lost_server() {
    let (mut server, operator) = prepared();
    let mut lb = Host::with_files(&server, &operator, "lb", "", with_balancer);
    let _two = web(&server, &operator, 2);
    lb.until_file("srv/app/lb.conf", "10.0.0.2:80 \n");
    let snapshot = lb.root.join("var/lib/holo-fleet/registry.json");
    let written = snapshot.metadata().unwrap().modified().unwrap();
    server.kill();
    // Longer than the time to live.
    std::thread::sleep(std::time::Duration::from_secs(8));
    server.lose_data();
    server.start_again();
    operator.until_success(&["init"]);
    operator.until(&["registry", "query", "--json"], |lines| lines.len() == 1);
    lb.listen();
    assert_eq!(snapshot.metadata().unwrap().modified().unwrap(), written);
    assert_eq!(lb.root.read("srv/app/lb.conf"), "10.0.0.2:80 \n");
}

fn commands() {
    let (_server, operator) = prepared();
    let service = ["--cluster", "eu", "--service", "db", "--protocol", "pg"];
    let add = |address: &str, more: &[&str]| {
        let arguments = [&["registry", "add"], &service[..], &["--address", address, "--port", "5432"], more].concat();
        operator.run(&arguments)
    };
    let watched = operator.root.join("watched").display().to_string();
    let script = format!("exec {} registry watch --service db --json >{watched}", built("holo-fleet").display());
    let mut watch = holo_process::Program::new("/bin/sh");
    watch.arg("-c").arg(script).env("HOLO_ROOT_DIR", operator.root.path());
    let watch = watch.start().unwrap();
    let added = add("fe80::1", &["--ttl", "1h", "--annotation", "zone=a b", "--json"]);
    let line: Value = serde_json::from_slice(&added.stdout).unwrap();
    assert_eq!((&line["change"], &line["annotations"]["zone"]), (&json!("added"), &json!("a b")), "{added}");
    assert_eq!(
        add("10.0.0.1", &["--ttl", "3s", "--priority", "2"]).stdout_lossy(),
        "added    eu  pg  db  10.0.0.1:5432  priority 2  by 10.0.0.1\n"
    );
    let found = operator.json(&["registry", "query", "--json"]);
    assert_eq!(found.len(), 2);
    assert_eq!(
        (&found[0]["address"], &found[0]["ttl"], &found[0]["host"]),
        (&json!("fe80::1"), &json!(3600), &json!("fe80::1"))
    );
    assert!(operator.must(&["registry", "query", "--address", "fe80::1"]).contains("[fe80::1]:5432"));
    assert_eq!(operator.must(&["registry", "query", "--cluster", "us"]), "");
    operator.until(&["registry", "query", "--json"], |lines| lines.len() == 1);
    assert!(
        operator.must(&["registry", "remove", "--service", "db"]).starts_with("removed  eu  pg  db  [fe80::1]:5432")
    );
    assert_eq!(operator.must(&["registry", "query"]), "");
    for (arguments, says) in [
        (
            &["registry", "remove", "--service", "db"][..],
            "there is no such service; look at: holo-fleet registry query",
        ),
        (&["registry", "remove"], "name what to remove, with --cluster, --service, --protocol or --address"),
    ] {
        let run = operator.run(arguments);
        assert!(run.status == Some(1) && run.stderr_lossy().contains(says), "{run}");
    }
    for (address, more, says) in [
        ("a;b", &[][..], "\"a;b\" is not a host name or an IP address"),
        ("a", &["--ttl", "1s"], "a registration lasts from 3s to 30d"),
        ("a", &["--annotation", "x"], "\"x\" is not an annotation"),
    ] {
        let run = add(address, more);
        assert!(!run.success() && run.stderr_lossy().contains(says), "{run}");
    }
    // What is there when it begins is not new.
    let expected = [("added", "fe80::1"), ("added", "10.0.0.1"), ("expired", "10.0.0.1"), ("removed", "fe80::1")];
    let begun = Instant::now();
    loop {
        let text = operator.root.read("watched").to_string();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let seen: Vec<(String, String)> = lines
            .map(|line| {
                (line["change"].as_str().unwrap_or("added").to_owned(), line["address"].as_str().unwrap().to_owned())
            })
            .collect();
        let seen: Vec<(&str, &str)> = seen.iter().map(|(change, address)| (&**change, &**address)).collect();
        if seen == expected {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{text}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    drop(watch);
}
