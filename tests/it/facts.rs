//! `holo facts` and `holo data` below separate roots, and facts shared by a whole run.

use holo_testing::{Run, ScratchRoot, binaries::built};
use libtest_mimic::Trial;
use serde_json::{Value, json};

pub(crate) fn trials() -> Vec<Trial> {
    holo_testing::trials![
        facts_are_shown_all_or_one_by_one,
        facts_as_json_are_one_value,
        unknown_fact_is_an_error,
        failing_fact_source_is_a_warning,
        data_is_shown_with_its_origin,
        invalid_data_is_an_error_with_its_line,
        values_come_from_the_environment,
        facts_and_data_change_no_files_and_call_no_plugin,
        run_gathers_facts_once,
        run_without_queries_gathers_no_facts,
        example_of_the_man_page_works,
        the_man_page_names_every_fact,
        facts_and_plugins_read_one_os_release_below_the_root,
    ]
}

/// Returns a machine with its own facts.
fn root() -> ScratchRoot {
    ScratchRoot::new()
        .binary(built("holo"))
        .file("etc/os-release", "ID=debian\nVERSION_ID=12\n")
        .file("etc/hostname", "web1.example.org\n")
        .file("etc/holo/facts.d/10-site.toml", "site = {name = 'north', roles = ['web', 'db'], 'odd.key' = {}}\n")
}

#[track_caller]
fn shows(root: &ScratchRoot, arguments: &[&str], wanted: &str) {
    let run = root.holo(arguments);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    assert_eq!(run.stdout_lossy(), wanted, "{arguments:?}");
}

#[track_caller]
fn complains(run: &Run, status: i32, error: &str) {
    assert_eq!(
        (run.status, run.stdout_lossy().as_ref(), run.stderr_lossy().trim()),
        (Some(status), "", error),
        "{run}"
    );
}

fn facts_are_shown_all_or_one_by_one() {
    let root = root();
    let all = root.holo(&["facts"]);
    assert!(all.success() && all.stderr.is_empty(), "{all}");
    let all = all.stdout_lossy();
    for line in
        ["os.id: debian", "hostname: web1", "fqdn: web1.example.org", "site.roles: web, db", "site.\"odd.key\":"]
    {
        assert!(all.lines().any(|shown| shown == line), "{line} is not in {all}");
    }
    // Every listed fact can be queried.
    for line in all.lines() {
        let key = line.split(": ").next().unwrap().trim_end_matches(':');
        assert!(root.holo(&["facts", key]).success(), "{key}");
    }
    shows(&root, &["facts", "os.id"], "debian\n");
    shows(&root, &["facts", "site.roles"], "web\ndb\n");
    shows(&root, &["facts", "site.roles.1"], "db\n");
    shows(&root, &["facts", "site"], "site.name: north\nsite.\"odd.key\":\nsite.roles: web, db\n");
}

fn facts_as_json_are_one_value() {
    let root = root();
    let run = root.holo(&["facts", "--json"]);
    let all: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(all["site"], json!({"name": "north", "roles": ["web", "db"], "odd.key": {}}));
    assert_eq!(all["os"]["version_id"], "12");
    shows(&root, &["facts", "os.id", "--json"], "\"debian\"\n");
}

fn unknown_fact_is_an_error() {
    let root = root();
    complains(&root.holo(&["facts", "os.nothing"]), 1, "!! there is no fact os.nothing");
    complains(&root.holo(&["facts", "--json", "os.id.x"]), 1, "!! there is no fact os.id.x");
    complains(&root.holo(&["facts", "a..b"]), 1, "!! \"a..b\" is not a key: a part of it is empty");
    complains(&root.holo(&["data", "web"]), 1, "!! there is no data at web");
    complains(&root.holo(&["data", "web", "--explain"]), 1, "!! there is no data at web");
}

fn failing_fact_source_is_a_warning() {
    let root = root()
        .file("etc/holo/facts.d/20-bad.toml", "a = 1\nb\n")
        .script("etc/holo/facts.d/30-fails", "#!/bin/sh\nexit 3\n");
    let run = root.holo(&["facts", "site.name"]);
    assert!(run.success(), "{run}");
    assert_eq!(run.stdout_lossy(), "north\n");
    let errors = run.stderr_lossy();
    let sources = root.join("etc/holo/facts.d");
    assert!(errors.contains(&format!(">> no facts from {}/20-bad.toml:2: ", sources.display())), "{run}");
    assert!(errors.contains(&format!(">> no facts from {}/30-fails: exit status 3\n", sources.display())), "{run}");
}

fn root_with_data() -> ScratchRoot {
    root()
        .file("etc/holo/data/host/web1.toml", "web = {port = 8080}\nservers = ['a']\n")
        .file("etc/holo/data/hierarchy.toml", "merge = 'deep'\nkeys = {servers = 'concatenate'}\n")
        .file("usr/share/holo/data/os/debian.json", r#"{"web": {"user": "www-data"}, "servers": ["b", "c"]}"#)
        .file("usr/share/holo/data/common.toml", "\nweb = {port = 80, user = 'www'}\n")
}

fn data_is_shown_with_its_origin() {
    let root = root_with_data();
    shows(&root, &["data"], "servers: a, b, c\nweb.port: 8080\nweb.user: www-data\n");
    shows(&root, &["data", "servers"], "a\nb\nc\n");
    shows(&root, &["data", "web.port"], "8080\n");
    shows(&root, &["data", "web", "--json"], "{\n  \"port\": 8080,\n  \"user\": \"www-data\"\n}\n");
    let (own, packages) = (root.join("etc/holo/data"), root.join("usr/share/holo/data"));
    let (own, packages) = (own.display(), packages.display());
    shows(
        &root,
        &["data", "--explain"],
        &format!(
            "servers: a, b, c\n    from {own}/host/web1.toml:2\n    from {packages}/os/debian.json\n\
             web.port: 8080\n    from {own}/host/web1.toml:1\n    over {packages}/common.toml:2: 80\n\
             web.user: www-data\n    from {packages}/os/debian.json\n    over {packages}/common.toml:2: www\n"
        ),
    );
    let run = root.holo(&["data", "--explain", "--json", "web.port"]);
    let explained: Value = serde_json::from_slice(&run.stdout).unwrap();
    let over = json!([{"file": format!("{packages}/common.toml"), "line": 2, "value": 80}]);
    assert_eq!(
        explained,
        json!({"web.port": {"value": 8080, "from": [{"file": format!("{own}/host/web1.toml"), "line": 1}], "over": over}})
    );
}

fn values_come_from_the_environment() {
    let hierarchy = "[values.\"web.port\"]\nenv = \"WEB_PORT\"\nvalidate = \"value < 65536\"\n\
                     [values.\"web.new.name\"]\nenv = \"WEB_NAME\"\n[values.\"servers.x\"]\nenv = \"SERVER\"\n";
    let root = root_with_data().file("etc/holo/data/hierarchy.toml", hierarchy);
    shows(&root, &["data", "web.port"], "8080\n");
    let root = root.env("WEB_PORT", "8081").env("WEB_NAME", "017");
    // The rest of the table is kept.
    shows(&root, &["data", "web", "--json"], "{\n  \"new\": {\n    \"name\": \"017\"\n  },\n  \"port\": 8081\n}\n");
    let host = root.join("etc/holo/data/host/web1.toml");
    let explained = format!("web.port: 8081\n    from $WEB_PORT\n    over {}:1: 8080\n", host.display());
    assert!(root.holo(&["data", "--explain"]).stdout_lossy().contains(&explained));
    let root = root.env("WEB_PORT", "many");
    let wrong = "!! $WEB_PORT: web.port: this is not a number, as the value that it replaces is; correct the variable, or unset it";
    complains(&root.holo(&["data"]), 255, wrong);
    let root = root.env("WEB_PORT", "70000");
    let rule = format!("`value < 65536` in {}:1", root.join("etc/holo/data/hierarchy.toml").display());
    let wrong = format!("!! $WEB_PORT: web.port: 70000 is not valid by {rule}: it does not hold");
    complains(&root.holo(&["data"]), 255, &wrong);
    let root = root.env("WEB_PORT", "").env("SERVER", "x");
    let wrong = "!! $SERVER: servers.x: a part of this key is not a table in data, so no value can be added";
    complains(&root.holo(&["data"]), 255, wrong);
}

fn invalid_data_is_an_error_with_its_line() {
    let root = root_with_data().file("etc/holo/data/hierarchy.toml", "layers = [\n  '../{{ facts.hostname }}']\n");
    let place = root.join("etc/holo/data/hierarchy.toml");
    let error = format!("!! {}:2: layers: the layer \"../web1\" would leave the directory", place.display());
    complains(&root.holo(&["data"]), 255, &error);
    root.write("etc/holo/data/hierarchy.toml", "");
    root.write("etc/holo/data/host/web1.toml", "a = 1\nb\n");
    let run = root.holo(&["data", "web"]);
    assert!(run.stderr_lossy().contains("web1.toml:2: "), "{run}");
    assert_eq!(run.status, Some(255), "{run}");
}

fn facts_and_data_change_no_files_and_call_no_plugin() {
    let root = root_with_data()
        .holorc("plugin p=/no/such/program\n")
        .script("usr/share/holo/generators/g", "#!/bin/sh\nexit 1\n")
        .file("run/holo.pid", "1\n");
    let before = root.dump();
    for verb in ["facts", "data"] {
        let run = root.holo(&[verb]);
        assert!(run.success() && run.stderr.is_empty(), "{run}");
    }
    assert_eq!(root.dump(), before);
}

/// A shell plugin that queries a fact in every operation.
const ASKING: &str = r#"#!/bin/sh
case $1 in
    info) printf 'MIN_API_VERSION=3\nMAX_API_VERSION=4\n' ;;
    scan) echo "ENTITY: ${0##*-}:$("$HOLO" facts site.name)" ;;
    apply) echo "$("$HOLO" facts counted.value)" ;;
esac
"#;

fn run_gathers_facts_once() {
    let root = root()
        .env("HOLO", built("holo"))
        .holorc("")
        .dir("usr/share/holo/a")
        .dir("usr/share/holo/b")
        .script("plugins/holo-a", ASKING)
        .script("plugins/holo-b", ASKING)
        .script("usr/share/holo/generators/g", "#!/bin/sh\n\"$HOLO\" facts counted.value >/dev/null\n")
        .script(
            "etc/holo/facts.d/20-counted",
            "#!/bin/sh\necho x >>\"$HOLO_ROOT_DIR/counted\"\necho odd >&2\necho '{\"counted\": {\"value\": 7}}'\n",
        );
    let lines = ["a", "b"].map(|id| format!("plugin {id}={}\n", root.join(format!("plugins/holo-{id}")).display()));
    root.write("etc/holorc", lines.concat());
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    for id in ["a", "b"] {
        assert!(run.stdout_lossy().contains(&format!("Working on {id}:north\n")), "{run}");
    }
    assert_eq!(run.stdout_lossy().matches("\n7\n").count(), 2, "{run}");
    assert_eq!(root.read("counted"), "x\n", "{run}");
    // The next run gathers facts again.
    assert!(root.holo(&["scan"]).success());
    assert_eq!(root.read("counted"), "x\nx\n");
    assert!(!root.exists("tmp/facts.json"));
}

fn run_without_queries_gathers_no_facts() {
    let root = root().holorc("").script("etc/holo/facts.d/20-counted", "#!/bin/sh\ntouch \"$HOLO_ROOT_DIR/counted\"\n");
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    assert!(!root.exists("counted"));
}

/// Files that the page shows with `cat` are created accordingly; every other command must print what the page shows.
fn example_of_the_man_page_works() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/man/holo-facts.7")).unwrap();
    let example = page.split(".Sh EXAMPLES").nth(1).unwrap().split(".Bd -literal").nth(1).unwrap();
    let example = example.split(".Ed").next().unwrap().split_once('\n').unwrap().1;
    let root = ScratchRoot::new().binary(built("holo"));
    let mut commands = 0;
    for step in format!("\n{example}").split("\n$ ").skip(1) {
        let (command, shown) = step.split_once('\n').unwrap();
        let shown = format!("{}\n", shown.trim_end_matches('\n'));
        let words: Vec<&str> = command.split(' ').collect();
        match words[..] {
            ["cat", path] => root.write(path.trim_start_matches('/'), shown),
            ["holo", ..] => {
                let run = root.holo(&words[1..]);
                let said = run.stdout_lossy().replace(&root.path().display().to_string(), "");
                assert!(run.success() && run.stderr.is_empty(), "{run}");
                assert_eq!(said, shown, "{command}");
                commands += 1;
            }
            _ => panic!("{command}"),
        }
    }
    assert_eq!(commands, 3);
}

/// The page contains every fact that exists without custom sources.
fn the_man_page_names_every_fact() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/man/holo-facts.7")).unwrap();
    let facts = page.split(".Ss Facts\n").nth(1).unwrap().split(".Ss ").next().unwrap();
    let words: Vec<&str> = facts.split([' ', ',', '\n']).collect();
    let run = ScratchRoot::new().binary(built("holo")).holo(&["facts"]);
    let shown = run.stdout_lossy();
    let keys = shown.lines().map(|line| line.split(": ").next().unwrap().trim_end_matches(':'));
    for key in keys.filter(|key| !key.starts_with("network.interfaces.") && !key.starts_with("mounts.")) {
        let (first, last) = key.rsplit_once('.').unwrap_or(("", key));
        assert!(
            words.contains(&key) || words.contains(&first) && words.contains(&last),
            "{key} is not in holo-facts(7)"
        );
    }
}

fn facts_and_plugins_read_one_os_release_below_the_root() {
    let root = ScratchRoot::new()
        .binary(built("holo"))
        .symlink("etc/os-release", "/usr/lib/holo-test/os-release")
        .file("usr/lib/holo-test/os-release", "ID='manjaro'\nID_LIKE=\"arch\"\n")
        .plugin("packages")
        .plugin("files")
        .file("usr/share/holo/packages/10-test.toml", "[[package]]\nname = 'holo-test'\n")
        .file("etc/motd", "old\n")
        .file("usr/share/holo/files/10-test/etc/motd", "new\n");
    shows(&root, &["facts", "os.id"], "manjaro\n");
    shows(&root, &["facts", "package_manager"], "pacman\n");
    let run = root.holo(&["apply"]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    assert!(run.stdout_lossy().contains("MOCK: pacman "), "{run}");
    // Arch's package manager saves its new version as `.pacnew`.
    root.write("etc/motd.pacnew", "newer\n");
    let run = root.holo(&["apply", "file:/etc/motd"]);
    assert!(run.success() && !root.exists("etc/motd.pacnew"), "{run}");
}
