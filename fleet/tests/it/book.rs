//! The page `docs/fleet.md`: its commands are run in order, with a server, an operator and three hosts.
//!
//! A comment before a block says what it is: `file: PATH` is written on the operator's machine, `server: PATH` is the configuration of
//! the server, and `on: HOST` is run on a host. `start: WHO`, `reload: WHO` and `restart: WHO` stand for the service manager, which
//! scratch roots do not have. Blocks of the language `console` without a comment are run on the operator's machine.

use crate::harness::{Host, NEEDS, PATIENCE, Server};
use holo_testing::binaries::{built, directory};
use holo_testing::require::trial_of;
use holo_testing::{Run, ScratchRoot};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial_of("commands of docs/fleet.md", &NEEDS, commands_work),
        Trial::test("the man page has commands of docs/fleet.md", || {
            man_page_is_like_the_book();
            Ok(())
        }),
    ]
}

fn document(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

/// Where the network and other users would be.
const SCP: &str = r#"#!/bin/sh
for last; do :; done
place=${last#*@}
shift
while [ $# -gt 1 ]; do
    cp "$1" "$MACHINES/${place%%:*}${place#*:}" || exit
    shift
done
"#;
const SUDO: &str = "#!/bin/sh\nexec \"$@\"\n";

/// Plugins in place of those that need a package manager and systemd.
const NGINX: &str = r#"#!/bin/sh
case $1 in
info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\n' ;;
scan)
    [ -e "$HOLO_RESOURCE_DIR/50-web.toml" ] || exit 0
    echo "ENTITY: KIND:nginx"
    ! grep -q register "$HOLO_RESOURCE_DIR/50-web.toml" ||
        echo 'REGISTER: {"cluster":"production","service":"web","protocol":"http","port":80,"priority":1,"ttl":60}' ;;
check | apply) echo 'not changed' >&3 ;;
esac
"#;

/// A fenced block of the page, and the comment before it.
struct Block<'p> {
    comment: &'p str,
    language: &'p str,
    text: &'p str,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let (mut blocks, mut parts) = (Vec::new(), page.split("\n```"));
    let mut before = parts.next().unwrap();
    while let (Some(block), Some(after)) = (parts.next(), parts.next()) {
        let (language, text) = block.split_once('\n').unwrap();
        let comment = before.lines().last().unwrap_or_default();
        let comment = comment.strip_prefix("<!-- ").and_then(|comment| comment.strip_suffix(" -->"));
        blocks.push(Block { comment: comment.unwrap_or_default(), language, text });
        before = after;
    }
    blocks
}

/// The commands of a block, with their output.
fn steps(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut steps: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("$ ").or_else(|| line.strip_prefix("# ")) {
            Some(command) => steps.push((command, Vec::new())),
            None => steps.last_mut().unwrap().1.push(line),
        }
    }
    steps
}

/// The machines of the page.
struct Stage {
    server: Server,
    operator: ScratchRoot,
    hosts: Vec<Host>,
}

impl Stage {
    fn new() -> Stage {
        let programs = directory().unwrap().display().to_string();
        for program in ["holo", "holo-fleet", "holo-agent", "holo-files", "holo-packages", "holo-services"] {
            let _ = built(program);
        }
        let host = |name: &&str| {
            let plugin = |kind: &str| NGINX.replace("KIND", kind);
            let plugins = format!("plugin files={}\nplugin packages\nplugin services\n", built("holo-files").display());
            let root = Host::blank(name).holorc(plugins).file("etc/os-release", "ID=debian\n");
            let root = root.script("usr/lib/holo/holo-packages", plugin("package"));
            let root = root.script("usr/lib/holo/holo-services", plugin("service"));
            let folders = [
                "etc/holo",
                "usr/share/holo/files",
                "etc/nginx/conf.d",
                "usr/share/holo/packages",
                "usr/share/holo/services",
            ];
            let root = folders.iter().fold(root, |root, folder| root.dir(folder));
            Host::stopped(name, root.env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap())))
        };
        let hosts: Vec<Host> = ["web1", "web2", "web3"].iter().map(host).collect();
        let server = Server::stopped();
        let operator = ScratchRoot::new()
            .time_limit(Duration::from_secs(180))
            .dir("root/.ssh")
            .script("bin/scp", SCP)
            .script("bin/sudo", SUDO);
        let machines = operator.join("machines");
        fs::create_dir_all(machines.join("nats.example.org")).unwrap();
        symlink(server.folder(), machines.join("nats.example.org/etc")).unwrap();
        for host in &hosts {
            symlink(host.root.path(), machines.join(host.name())).unwrap();
        }
        let path = format!("{}:{programs}:{}", operator.join("bin").display(), std::env::var("PATH").unwrap());
        let operator = operator.env("PATH", path).env("MACHINES", machines).env("HOME", "/root").env("USER", "anna");
        let key = operator.join("root/.ssh/id_ed25519");
        let made = operator.run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &key.to_string_lossy()]);
        assert!(made.success(), "{made}");
        Stage { server, operator, hosts }
    }

    fn write(&self, path: &str, text: &str) {
        let schema = match path.rsplit('/').next() {
            Some("users.toml") => Some(include_str!("../../../schema/holo-fleet-accounts.schema.json")),
            Some("holo-bundle.toml") => Some(include_str!("../../../schema/holo-bundle.schema.json")),
            Some("fleet.toml") => Some(include_str!("../../../schema/holo-fleet-operator.schema.json")),
            _ => None,
        };
        if let Some(schema) = schema {
            let (schema, document) = (crate::harness::schema(schema), toml::from_str(text).unwrap());
            assert!(schema.is_valid(&document), "{path}: {:?}", schema.validate(&document));
            assert!(!schema.is_valid(&serde_json::json!({ "nam": "x" })), "{path}: the schema permits all keys");
        }
        let text = text.replace("nats://nats.example.org:4222", &self.server.url());
        self.operator.write(Path::new("root").join(path.trim_start_matches("~/")), format!("{text}\n"));
    }

    fn start_hosts(&mut self) {
        for host in &mut self.hosts {
            // All of them run on this machine, whose name they would have.
            let section = format!("[fleet]\nhost = \"{}\"\n", host.name());
            let config = host.root.read("etc/holo/agent.toml").to_string().replace("[fleet]\n", &section);
            host.root.write("etc/holo/agent.toml", config);
            host.start_again();
        }
    }

    fn host(&mut self, name: &str) -> &mut Host {
        self.hosts.iter_mut().find(|host| host.name() == name).unwrap()
    }
}

/// Runs a command below a root. What only looks is repeated until it shows what the page does.
fn follow(root: &ScratchRoot, command: &str, expected: &[&str]) {
    const LOOKS: [&str; 9] = [
        "holo-fleet hosts",
        "holo-fleet status",
        "holo-fleet log",
        "holo-fleet events",
        "holo-fleet data list",
        "holo-fleet registry query",
        "holo-fleet run",
        "holo data",
        "cat ",
    ];
    let (begun, run) = (Instant::now(), || shell(root, command));
    loop {
        let done = run();
        let shown = done.stdout_lossy().replace(&*root.path().to_string_lossy(), "");
        if done.success() && are_like(expected, &shown.lines().collect::<Vec<_>>()) {
            return;
        }
        let can_repeat = LOOKS.iter().any(|look| command.starts_with(look)) && begun.elapsed() < PATIENCE;
        assert!(can_repeat, "$ {command}\n{shown}{}\nThe page shows:\n{}", done.stderr_lossy(), expected.join("\n"));
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn shell(root: &ScratchRoot, command: &str) -> Run {
    let below =
        |text: &str| text.replace(" /etc/", " \"$HOLO_ROOT_DIR\"/etc/").replace("~/", "\"$HOLO_ROOT_DIR\"/root/");
    root.run("bash", &["-c", &format!("[ ! -d root ] || cd root\n{}", below(command))])
}

/// Compares lines; `…` stands for any lines, or for any text in a word. Spaces, dates and times are not compared.
fn are_like(expected: &[&str], actual: &[&str]) -> bool {
    match (expected, actual) {
        ([], []) => true,
        (["…", rest @ ..], _) => (0..=actual.len()).any(|count| are_like(rest, &actual[count..])),
        ([first, rest @ ..], [line, others @ ..]) => is_line_like(first, line) && are_like(rest, others),
        _ => false,
    }
}

fn is_line_like(expected: &str, line: &str) -> bool {
    let is_time = |word: &str| {
        let shape: String = word.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
        ["0000-00-00", "00:00:00"].contains(&&*shape)
    };
    let is_like = |expected: &str, word: &str| match expected.split_once('…') {
        Some((begin, end)) => word.starts_with(begin) && word.ends_with(end),
        // The watch of the agent may be faster than the run that is requested.
        None if expected == "changed" => ["changed", "unchanged"].contains(&word),
        None => expected == word || (is_time(expected) && is_time(word)),
    };
    let (expected, words): (Vec<&str>, Vec<&str>) =
        (expected.split_whitespace().collect(), line.split_whitespace().collect());
    expected.len() == words.len() && expected.iter().zip(words).all(|(expected, word)| is_like(expected, word))
}

fn commands_work() {
    let page = document("docs/fleet.md");
    let mut stage = Stage::new();
    let mut stolen = String::new();
    for Block { comment, language, text } in blocks(&page) {
        match comment.split_once(": ") {
            Some(("file", path)) => stage.write(path, text),
            Some(("server", _)) => {
                let place = "listen: \"0.0.0.0:4222\"\njetstream { store_dir: \"/var/lib/nats\" }\n";
                stage.server.configure(text.strip_prefix(place).unwrap());
            }
            Some(("start", "server")) => stage.server.start_again(),
            Some(("start", "hosts")) => stage.start_hosts(),
            Some(("reload", "server")) => {
                stage.server.reload();
                stage.operator.write("root/stolen.nk", &stolen);
                let used = "chmod 600 stolen.nk; HOLO_FLEET_CREDENTIALS=/root/stolen.nk holo-fleet status";
                let begun = Instant::now();
                // With permissions that do not include this, it would connect.
                while !shell(&stage.operator, used).stderr_lossy().contains("no connection to ") {
                    assert!(begun.elapsed() < PATIENCE, "{}", shell(&stage.operator, used));
                }
            }
            Some(("restart", name)) => {
                let host = stage.host(name);
                host.stop();
                host.start_again();
                let count = "holo-fleet events --host web1 --kind fleet | grep -c state=connected";
                follow(&stage.operator, count, &["2"]);
            }
            Some(("on", name)) => {
                let root = &stage.host(name).root;
                steps(text).iter().for_each(|(command, output)| follow(root, command, output));
            }
            Some((other, _)) => panic!("{other}: {text}"),
            None if language == "console" => {
                for (command, output) in steps(text) {
                    if command.contains("--rotate") {
                        stolen = stage.operator.read("root/accounts/hosts/web1.nk").to_string();
                    }
                    follow(&stage.operator, command, &output);
                }
            }
            None => {}
        }
    }
    assert!(!stolen.is_empty());
    assert_eq!(stage.host("web1").root.read("etc/nginx/conf.d/site.conf"), "server { listen 80; root /srv/www; }\n");
}

fn man_page_is_like_the_book() {
    let (page, book) = (document("man/holo-fleet.8"), document("docs/fleet.md"));
    let (_, examples) = page.split_once("These are commands of docs/fleet.md.\n").unwrap();
    let commands: Vec<&str> = examples.lines().take_while(|line| *line != ".Ed").skip(1).collect();
    assert!(commands.len() > 3, "{commands:?}");
    for command in commands {
        let shown = format!("\n$ {}\n", command.strip_prefix("# ").unwrap());
        assert!(book.contains(&shown), "{shown}");
    }
}
