//! Tests of valid and invalid files.

use super::*;

fn load(text: &str) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = ConfigFile::new(folder.path().join("agent.toml"));
    std::fs::write(file.path(), text).unwrap();
    let directory = format!("{}/", folder.path().display());
    file.load().map_err(|error| error.to_string().replace(&directory, ""))
}

#[test]
fn a_file_that_is_missing_says_nothing_else_than_an_empty_one() {
    assert_eq!(ConfigFile::new("/nowhere/agent.toml").load().unwrap(), Config::default());
    assert_eq!(load("").unwrap(), Config::default());
}

#[test]
fn every_key_is_read() {
    let config = load(
        "interval = \"10m\"\nwatch = false\nhealth_interval = \"20s\"\nmode = \"report\"\ntimeout = \"2h\"\nmetrics = \"[::1]:9189\"\n\
         textfile = \"/var/lib/node_exporter/holo.prom\"\nholo = \"/opt/holo\"\n\
         [maintenance]\ndays = \"mon-fri\"\nhours = \"2-5\"\n[defaults]\non_edit = \"overwrite\"\n\
         [fleet]\nurl = [\"tls://a\", \"tls://b\"]\nchannel = \"web\"\n",
    );
    let fleet = serde_json::json!({ "url": ["tls://a", "tls://b"], "channel": "web" });
    let expected = Config {
        interval: Duration::from_secs(600),
        health_interval: Duration::from_secs(20),
        watch: false,
        mode: Mode::Report,
        timeout: Duration::from_secs(7200),
        maintenance: Some("hours=2-5 days=mon-fri".parse().unwrap()),
        defaults: Defaults { on_edit: OnEdit::Overwrite },
        metrics: Some("[::1]:9189".parse().unwrap()),
        textfile: Some("/var/lib/node_exporter/holo.prom".into()),
        fleet: fleet.as_object().cloned(),
        holo: Some("/opt/holo".into()),
    };
    assert_eq!(config.unwrap(), expected);
}

#[test]
fn mistakes_name_file_line_and_key_and_say_what_would_be_right() {
    for (text, says) in [
        ("\ninterval = \"half an hour\"\n", "agent.toml:2: interval: a duration is a number with a unit"),
        ("interval = \"30\"\n", "agent.toml:1: interval: a duration needs a unit, as in 30s, 30m or 30h"),
        ("interval = 0\n", "agent.toml:1: interval: "),
        ("watch = \"yes\"\n", "agent.toml:1: watch: expected"),
        ("mode = \"enforced\"\n", "agent.toml:1: mode: "),
        ("metrics = \"localhost\"\n", "agent.toml:1: metrics: \"localhost\" is not an address and a port, such as"),
        ("textfile = \"x.prom\"\n", "agent.toml:1: textfile: \"x.prom\" is not the path of a file"),
        ("intervall = \"1m\"\n", "agent.toml:1: intervall: unknown key, did you mean interval?"),
        ("[maintenance]\nhours = \"5\"\n", "agent.toml:2: maintenance.hours: expected ranges of hours, as in"),
        ("[defaults]\non_edit = \"ask\"\n", "agent.toml:2: defaults.on_edit: "),
        ("[maintenance]\n", "agent.toml:1: maintenance: needs hours, days or both, as in"),
        ("interval\n", "agent.toml:1: "),
    ] {
        let error = load(text).unwrap_err();
        assert!(error.starts_with(says), "{text}: {error}");
    }
    assert!(load("mode = \"enforced\"\n").unwrap_err().contains("enforce"));
}

#[test]
fn the_schema_is_that_of_the_types() {
    holo_testing::schema_is_kept("holo-agent.schema.json", &schemars::schema_for!(Config));
}

#[test]
fn files_that_other_users_may_modify_are_refused() {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let [config, program] = ["agent.toml", "holo"].map(|name| folder.path().join(name));
    write(&program, "#!/bin/sh\n").unwrap();
    write(&config, format!("holo = {program:?}\n")).unwrap();
    let file = ConfigFile::new(&config);
    assert_eq!(file.load().unwrap().holo, Some(program.clone()));
    for path in [&config, &program] {
        set_permissions(path, Permissions::from_mode(0o777)).unwrap();
        let error = file.load().unwrap_err().to_string();
        let expected =
            format!("{} is writable for other users (mode 0777), and is not used; to fix this: ", path.display());
        assert!(error.contains(&expected), "{error}");
        set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    assert!(file.load().is_ok());
}
