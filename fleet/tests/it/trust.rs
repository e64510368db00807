//! What stolen credentials and a server in wrong hands can do.

use crate::harness::{Host, NEEDS, Operator, Server};
use async_nats::jetstream;
use futures_util::StreamExt;
use holo_testing::binaries::built;
use holo_testing::require::trial_of;
use libtest_mimic::Trial;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial_of("stolen credentials of a host do not reach beyond it", &NEEDS, stolen_host),
        trial_of("a host whose key is revoked works on, and comes back with a new one", &NEEDS, revoked),
        trial_of("roles of operators are kept apart", &NEEDS, roles),
    ]
}

const USERS: &str = r#"
[[host]]
name = "web1"
channel = "web"
roles = ["eu"]
[[host]]
name = "db1"
channel = "db"
[[operator]]
name = "anna"
role = "admin"
[[operator]]
name = "rob"
role = "release"
[[operator]]
name = "vic"
role = "view"
"#;

/// Returns a server with users, and its administrator.
fn with_users() -> (Server, Operator) {
    let mut server = Server::stopped();
    let operator = Operator::new(&server);
    operator.root.write("users.toml", USERS);
    let (users, output) = (path(&operator, "users.toml"), path(&operator, "accounts"));
    operator.must(&["accounts", "--hosts", &users, "--output", &output]);
    let seed = operator.root.read("accounts/hosts/web1.nk");
    // Running it again keeps the seeds, but for those to rotate.
    operator.must(&["accounts", "--hosts", &users, "--output", &output, "--rotate", "db1"]);
    assert_eq!(operator.root.read("accounts/hosts/web1.nk"), seed);
    let mode = operator.root.join("accounts/hosts/web1.nk").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    server.configure(&operator.root.read("accounts/nats-server.conf").to_string());
    server.start_again();
    (server, become_user(operator, "anna"))
}

fn path(operator: &Operator, path: &str) -> String {
    operator.root.join(path).to_string_lossy().into_owned()
}

fn become_user(operator: Operator, name: &str) -> Operator {
    let root = operator.root.env("HOLO_FLEET_CREDENTIALS", format!("/accounts/operators/{name}.nk"));
    Operator { root }
}

fn host(server: &Server, operator: &Operator, name: &str, section: &str) -> Host {
    let seed = operator.root.read(format!("accounts/hosts/{name}.nk"));
    // Each registers a service, and reads the registry.
    let definition = "[[file]]\npath = \"/srv/app/services\"\ncontent = \"{% for s in registrations() %}{{ s.host }} {% endfor %}\"\n\
                      register = [{ cluster = \"eu\", service = \"web\", protocol = \"http\", address = \"HOST\", port = 80 }]\n";
    Host::with_files(server, operator, name, &format!("credentials = \"/etc/holo/fleet.nk\"\n{section}"), |root| {
        root.file("etc/holo/fleet.nk", seed)
            .mode("etc/holo/fleet.nk", 0o600)
            .file("etc/holorc.d/10-files", format!("plugin files={}\n", built("holo-files").display()))
            .file("usr/share/holo/files/10-web.toml.jinja", definition.replace("HOST", name))
    })
}

fn stolen_host() {
    let (server, operator) = with_users();
    operator.must(&["init"]);
    operator.root.write("secret.toml", "secret = \"of db1\"\n");
    operator.must(&["data", "set", "host.db1", &path(&operator, "secret.toml")]);
    let mut web = host(&server, &operator, "web1", "channel = \"web\"\nroles = [\"eu\"]");
    let _db = host(&server, &operator, "db1", "channel = \"db\"");
    operator.until(&["hosts", "--json"], |lines| lines.len() == 2 && lines.iter().all(is_good));
    web.until_file("srv/app/services", "db1 web1 ");
    let services = operator.json(&["registry", "query", "--json"]).len();
    let forged = json!({
        "host": "db1", "cluster": "eu", "service": "web", "protocol": "http", "address": "evil", "port": 80, "priority": 1,
        "ttl": 600
    })
    .to_string();
    let report_of_db = || {
        let mut lines = operator.json(&["hosts", "--json", "--where", "host == \"db1\""]);
        // It may have to apply once more what it knows of services.
        ["seen", "drift", "result"].iter().for_each(|key| drop(lines[0].as_object_mut().unwrap().remove(*key)));
        lines
    };
    let before = report_of_db();
    let seed = operator.root.read("accounts/hosts/web1.nk").to_string();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = async_nats::ConnectOptions::new().nkey(seed.trim().to_owned());
        let options = options.custom_inbox_prefix("_INBOX_stolen").request_timeout(Some(Duration::from_secs(1)));
        let client = options.connect(server.url()).await.unwrap();
        let mut heard = Vec::new();
        // The requests to another host, the answers to others, and everything.
        for subject in ["holo.run.db1.*", "_INBOX.>", ">", "holo.event.>", "$KV.holo-data.>"] {
            heard.push(client.subscribe(subject).await.unwrap());
        }
        let written = [
            ("$KV.holo-hosts.db1", "{}"),
            ("$KV.holo-channels.web", "{}"),
            ("$KV.holo-channels.web.progress", "{}"),
            ("$KV.holo-data.common", "{}"),
            ("$KV.holo-registry.x", "{}"),
            ("$KV.holo-registry.eu.http.web.db1.evil=3A80", &forged),
            // Its own key, with the name of another host.
            ("$KV.holo-registry.eu.http.web.web1.evil=3A80", &forged),
            ("$O.holo-bundles.M.eA==", "{}"),
            ("holo.event.db1.run", "{\"kind\":\"run\"}"),
            ("holo.event.web1.invented", "{\"kind\":\"invented\"}"),
            ("holo.claim.db1", "another"),
            ("holo.run.db1.check", "{\"selectors\":[]}"),
        ];
        for (subject, text) in written {
            client.publish(subject, text.to_owned().into()).await.unwrap();
        }
        client.flush().await.unwrap();
        let context = jetstream::new(client.clone());
        // Its own inbox is not the one that its credentials permit, so that nothing is answered at all.
        let stream = context.get_stream_no_info("KV_holo-data").await.unwrap();
        assert!(stream.direct_get_last_for_subject("$KV.holo-data.host.db1").await.is_err());
        for mut subscription in heard {
            let message = tokio::time::timeout(Duration::from_millis(200), subscription.next()).await;
            assert!(!matches!(message, Ok(Some(_))), "{message:?}");
        }
        reading_with_its_own_inbox(&server, seed.trim()).await;
    });
    assert_eq!(report_of_db(), before);
    let found = operator.json(&["registry", "query", "--json"]);
    assert!(found.len() == services && found.iter().all(|line| line["address"] != "evil"), "{found:#?}");
    web.until_said("eu.http.web.web1.evil=3A80: it has the key of another entry; it is ignored");
    assert_eq!(web.root.read("srv/app/services"), "db1 web1 ");
    let events = operator.json(&["events", "--json"]);
    assert!(!events.iter().any(|event| event["kind"] == "invented"), "{events:#?}");
    assert!(!events.iter().any(|event| event["kind"] == "fleet" && event["state"] == "name_refused"), "{events:#?}");
    assert_eq!(operator.must(&["status", "--json"]), "");
    assert_eq!(operator.must(&["bundle", "list", "--json"]), "");
}

fn is_good(line: &serde_json::Value) -> bool {
    line["result"] == "unchanged" || line["result"] == "changed"
}

/// Reads what is not meant for the host, with all that its credentials permit.
async fn reading_with_its_own_inbox(server: &Server, seed: &str) {
    let public = nkeys::KeyPair::from_seed(seed).unwrap().public_key();
    let options = async_nats::ConnectOptions::new().nkey(seed.to_owned());
    let options = options.custom_inbox_prefix(format!("_INBOX_{public}")).request_timeout(Some(Duration::from_secs(1)));
    let context = jetstream::new(options.connect(server.url()).await.unwrap());
    let get = async |bucket: &str, key: &str| {
        let stream = context.get_stream_no_info(format!("KV_{bucket}")).await.unwrap();
        stream.direct_get_last_for_subject(format!("$KV.{bucket}.{key}")).await.is_ok()
    };
    assert!(get("holo-hosts", "web1").await);
    assert!(!get("holo-hosts", "db1").await);
    assert!(!get("holo-data", "host.db1").await);
    // The key in the body is not that in the subject.
    let stream = context.get_stream_no_info("KV_holo-data").await.unwrap();
    assert!(stream.direct_get(1).await.is_err());
    let all = context.get_stream("HOLO_EVENTS").await;
    assert!(all.is_err());
    // A consumer would deliver to any subject.
    let config =
        jetstream::consumer::push::Config { deliver_subject: "$KV.holo-hosts.db1".into(), ..Default::default() };
    assert!(context.create_consumer_on_stream(config, "KV_holo-hosts").await.is_err());
}

/// Whoever has a stolen key is shut out at once; the machine works on, and comes back with its new key.
fn revoked() {
    let (mut server, operator) = with_users();
    operator.must(&["init"]);
    let mut web = host(&server, &operator, "web1", "channel = \"web\"");
    operator.until(&["hosts", "--json"], |lines| lines.len() == 1);
    let (users, output) = (path(&operator, "users.toml"), path(&operator, "accounts"));
    operator.must(&["accounts", "--hosts", &users, "--output", &output, "--rotate", "web1"]);
    server.configure(&operator.root.read("accounts/nats-server.conf").to_string());
    server.reload();
    web.until_said("not connected to the fleet");
    assert!(web.agent(&["run-now", "--wait"]).success());
    let events = |operator: &Operator| operator.json(&["events", "--json", "--host", "web1", "--kind", "run"]).len();
    let before = events(&operator);
    std::fs::write(web.root.join("etc/holo/fleet.nk"), operator.root.read("accounts/hosts/web1.nk")).unwrap();
    operator.until(&["events", "--json", "--host", "web1", "--kind", "run"], |lines| lines.len() > before);
    operator.until(&["run", "--hosts", "true", "check", "--json"], |lines| lines[0]["exit_code"] == json!(0));
}

fn roles() {
    let (server, operator) = with_users();
    operator.must(&["init"]);
    let _web = host(
        &server,
        &operator,
        "web1",
        "channel = \"web\"\nallow = [\"check\", \"diff\", \"apply\"]\nroles = [\"eu\"]",
    );
    operator.until(&["hosts", "--json"], |lines| lines.len() == 1 && is_good(&lines[0]));
    // The host has a configuration of its own.
    operator.root.write("srv/site/holo-bundle.toml", "name = \"site\"\nversion = \"1\"\n");
    let definition = "[[file]]\npath = \"/srv/app/conf\"\ncontent = \"port 80\\n\"\n";
    operator.root.write("srv/site/usr/share/holo/files/20-app.toml", definition);
    let bundle = operator.publish_folder("srv/site", "site", "1");
    operator.root.write("data.toml", "port = 80\n");
    let data = path(&operator, "data.toml");
    let refused = |operator: &Operator, arguments: &[&str]| {
        let run = operator.run(arguments);
        assert!(
            !run.success() && run.stderr_lossy().contains("the server refuses this: "),
            "{arguments:?}: {}",
            run.stderr_lossy()
        );
    };
    let operator = become_user(operator, "vic");
    assert!(operator.must(&["hosts"]).contains("web1"));
    operator.must(&["events"]);
    operator.must(&["run", "--hosts", "true", "check"]);
    operator.until(&["registry", "query", "--json"], |lines| lines.len() == 1);
    let service = ["--cluster", "eu", "--service", "db", "--protocol", "pg", "--address", "db1"];
    let add = [&["registry", "add", "--port", "1"], &service[..]].concat();
    refused(&operator, &add);
    refused(&operator, &["registry", "remove", "--cluster", "eu"]);
    let mut watch = operator.background(&["registry", "watch"]);
    refused(&operator, &["run", "--hosts", "true", "apply"]);
    refused(&operator, &["rollout", "preview", "web", "site"]);
    refused(&operator, &["data", "set", "common", &data]);
    refused(&operator, &["hosts", "remove", "web1"]);
    let operator = become_user(operator, "rob");
    operator.must(&["run", "--hosts", "true", "apply"]);
    assert!(operator.must(&["rollout", "preview", "web", "site"]).contains("would make"));
    watch.kill();
    operator.must(&add);
    operator.must(&[&["registry", "remove"], &service[..]].concat());
    operator.must(&["data", "set", "common", &data]);
    assert_eq!(operator.must(&["data", "get", "common"]), "port = 80\n");
    operator.must(&["rollout", "start", "web", &bundle, "--waves", "100%", "--soak", "0s", "--follow"]);
    let listed = operator.json(&["data", "list", "--json"]);
    assert_eq!((&listed[0]["layer"], &listed[0]["bytes"]), (&json!("common"), &json!(10)));
}
