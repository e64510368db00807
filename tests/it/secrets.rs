//! Encrypted data: entities get it, and no output shows it.

use holo_process::Program;
use holo_testing::overlay::NEEDS_TO_BOOT;
use holo_testing::{Need, Overlay, Run, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub(crate) fn trials() -> Vec<Trial> {
    let programs = [Need::Program("age"), Need::Program("ssh-keygen")];
    let trial = |name: &str, case: fn()| trial_of(name, &programs, case);
    vec![
        trial("what is encrypted comes to where it is wanted, and is shown nowhere", shown_nowhere),
        trial("a warning says that everyone can read it", exposed),
        trial("without the key, only those fail that need it", without_the_key),
        trial("what would show it is refused", refused),
        trial("it has to be valid as any other value", valid),
        trial_of("the journal of the system does not have it", &[&programs[..], NEEDS_TO_BOOT].concat(), in_no_journal),
        trial("definitions show it to those alone who ask for it", in_definitions),
    ]
}

const SECRET: &str = "hunter2hunter2";

/// Returns a machine with a key, and with a password in its data that is encrypted for it.
fn root() -> ScratchRoot {
    let root = ScratchRoot::in_memory()
        .binary(built("holo"))
        .env("HOLO_HISTORY", "1")
        .env("HOLO_GENERATIONS", "1")
        .plugin("files")
        .plugin("scaffold")
        .file("etc/os-release", "ID=debian\n")
        .file("etc/overlaid.conf", "stock\n");
    let _ = built("holo-secret");
    encrypt(&root, SECRET);
    root
}

fn encrypt(root: &ScratchRoot, text: &str) {
    let key = root.join("etc/ssh/ssh_host_ed25519_key");
    fs::create_dir_all(key.parent().unwrap()).unwrap();
    if !key.exists() {
        run(Program::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key), "");
    }
    let armored = run(Program::new("age").args(["-a", "-R"]).arg(key.with_extension("pub")), text);
    root.write("etc/holo/data/common.toml", format!("port = 80\n[db]\npassword = \"\"\"\n{armored}\"\"\"\n"));
}

fn run(program: &mut Program, input: &str) -> String {
    let output = program.stdin(input).output().unwrap();
    assert_eq!(output.ended.failure(), None, "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn exposed() {
    let root = root().file("etc/open.conf", "old\n").file("etc/closed.conf", "old\n").mode("etc/closed.conf", 0o640);
    let line =
        |name: &str| format!("[[line]]\npath = \"/etc/{name}.conf\"\nline = \"password={{{{ data.db.password }}}}\"\n");
    root.write(
        "usr/share/holo/files/1.toml.jinja",
        line("open") + &line("closed") + &line("new").replace("[[line]]\n", "[[line]]\ncreate = true\n"),
    );
    root.write("usr/share/holo/files/2.toml", "[[overlay]]\npath = \"/etc/overlaid.conf\"\nsensitive = true\n");
    root.write("usr/share/holo/files/30-overlay/etc/overlaid.conf.holotemplate", "{{ data.db.password }}\n");
    for verb in ["check", "apply"] {
        let run = root.holo(&[verb]);
        hides(&run);
        let said = run.stderr_lossy().replace(&format!("{}/", root.path().display()), "");
        let warnings: Vec<&str> = said.lines().filter(|line| line.contains("everyone can read")).collect();
        let [overlay, edit] = warnings[..] else { panic!("{run}") };
        assert!(
            edit.starts_with(">> line:")
                && edit.ends_with(" writes sensitive content into etc/open.conf, which everyone can read"),
            "{run}"
        );
        assert!(
            overlay.ends_with(
                "file:/etc/overlaid.conf writes sensitive content into etc/overlaid.conf, which everyone can read"
            ),
            "{run}"
        );
    }
    assert!(!root.holo(&["apply"]).stderr_lossy().contains("everyone"));
}

fn in_definitions() {
    let root = root();
    let definition = "[[note]]\nname = \"a\"\nport = {{ data.port }}\npassword = \"{{ data.db.password }}\"\n\
                      list = [\"x\", \"{{ data.db.password }}\"]\n[note.within]\ntext = \"pw={{ data.db.password }}\"\n";
    root.write("usr/share/holo/demo/x.toml.jinja", definition);
    let run = root.holo(&["definitions", "demo"]);
    hides(&run);
    let shown = run.stdout_lossy().into_owned();
    for part in [
        r#""port":80"#,
        r#""password":"(sensitive)""#,
        r#""list":"(sensitive)""#,
        r#""within":{"text":"(sensitive)"}"#,
        r#""sensitive":["list","password","within.text"]"#,
    ] {
        assert!(shown.contains(part), "{part}\n{run}");
    }
    let with_secret = [format!("\"password\":\"{SECRET}\""), format!("\"text\":\"pw={SECRET}\"")];
    let shows = |run: &Run| assert!(with_secret.iter().all(|part| run.stdout_lossy().contains(part)), "{run}");
    shows(&root.holo(&["definitions", "demo", "--show-secrets"]));
    // A plugin that calls the command needs the value.
    let directories = root.join("usr/share/holo/demo");
    shows(&root.env("HOLO_RESOURCE_DIRS", directories).holo(&["definitions", "demo"]));
}

const RESOURCES: [(&str, &str); 6] = [
    (
        "files/10-files.toml.jinja",
        "[[file]]\npath = \"/etc/secret.conf\"\ncontent = \"password={{ data.db.password }}\\n\"\n\n\
         [[file]]\npath = \"/etc/open.conf\"\ncontent = \"port={{ data.port }}\\n\"\n",
    ),
    (
        "files/20-source.toml",
        "[[file]]\npath = \"/etc/rendered.conf\"\nsource = \"rendered.holotemplate\"\nsensitive = true\n\n\
         [[overlay]]\npath = \"/etc/overlaid.conf\"\nsensitive = true\n",
    ),
    ("files/rendered.holotemplate", "password: {{ data.db.password }}\n"),
    ("files/30-overlay/etc/overlaid.conf.holotemplate", "{{ input }}{{ lookup('db.password') }}\n"),
    ("scaffold/app.toml", "[[scaffold]]\ntarget = \"/etc/app\"\nsource = \"app\"\n"),
    ("scaffold/app/secret.conf", "token={{ data.db.password | upper }}\n"),
];

fn with_resources(root: &ScratchRoot) {
    for (path, text) in RESOURCES {
        root.write(format!("usr/share/holo/{path}"), text);
    }
    root.write("usr/share/holo/scaffold/app/open.conf", "port={{ data.port }}\n");
}

#[track_caller]
fn hides(run: &Run) {
    let text = format!("{}{}", run.stdout_lossy(), run.stderr_lossy());
    assert!(!text.to_lowercase().contains("hunter"), "{run}");
}

/// Collects the files below the root that contain the secret, by path.
fn with_secret(root: &Path, directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            with_secret(root, &path, found);
        } else if metadata.is_file() {
            let content = fs::read(&path).unwrap_or_default();
            if String::from_utf8_lossy(&content).to_lowercase().contains("hunter") {
                let mode = metadata.permissions().mode() & 0o077;
                let is_reachable = path.ancestors().take_while(|directory| *directory != root).all(|directory| {
                    fs::metadata(directory).unwrap().permissions().mode() & 0o001 != 0 || directory == path
                });
                // An overlay keeps the mode of its target, which was readable for everyone before.
                let is_overlaid = path.ends_with("etc/overlaid.conf");
                assert!(mode == 0 || !is_reachable || is_overlaid, "{} can be read", path.display());
                found.push(path.strip_prefix(root).unwrap().display().to_string());
            }
        }
    }
}

fn shown_nowhere() {
    let root = root();
    with_resources(&root);
    let reads: [&[&str]; 8] = [
        &["check"],
        &["check", "--diff"],
        &["diff"],
        &["scan"],
        &["scan", "--json"],
        &["data"],
        &["data", "--json", "--explain"],
        &["why", "/etc/secret.conf"],
    ];
    reads.iter().for_each(|arguments| hides(&root.holo(arguments)));
    let applied = root.holo(&["apply"]);
    assert!(applied.success(), "{applied}");
    hides(&applied);
    let content = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    assert_eq!(content("etc/secret.conf"), format!("password={SECRET}\n"));
    assert_eq!(content("etc/rendered.conf"), format!("password: {SECRET}\n"));
    assert_eq!(content("etc/overlaid.conf"), format!("stock\n{SECRET}\n"));
    assert_eq!(content("etc/app/secret.conf"), format!("token={}\n", SECRET.to_uppercase()));
    assert_eq!((content("etc/app/open.conf"), content("etc/open.conf")), ("port=80\n".into(), "port=80\n".into()));
    let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode("etc/secret.conf"), mode("etc/app/secret.conf"), mode("etc/app/open.conf")),
        (0o600, 0o600, 0o644)
    );
    assert!(root.holo(&["apply"]).stdout_lossy().is_empty());
    // Both the applied and the manually changed content differ from the wanted one now.
    encrypt(&root, "hunter3hunter3");
    for path in ["etc/secret.conf", "etc/rendered.conf", "etc/app/secret.conf"] {
        root.write(path, "HUNTER4\n");
    }
    reads.iter().for_each(|arguments| hides(&root.holo(arguments)));
    let refused = root.holo(&["apply"]);
    assert!(!refused.success(), "{refused}");
    hides(&refused);
    hides(&root.holo(&["apply", "--json", "--force"]));
    assert_eq!(fs::read_to_string(root.join("etc/secret.conf")).unwrap(), "password=hunter3hunter3\n");
    for arguments in [&["history"][..], &["history", "--json"], &["history", "last"], &["report", "--output", "-"]] {
        hides(&root.holo(arguments));
    }
    let mut found = Vec::new();
    with_secret(root.path(), root.path(), &mut found);
    found.retain(|path| !path.starts_with("etc/"));
    assert!(found.iter().all(|path| path.starts_with("var/lib/holo/")), "{found:?}");
    assert!(!found.iter().any(|path| path.contains(".engine")), "{found:?}");
}

/// Commands that print the secret, in places where it would be shown if the definition were not sensitive.
const COMMANDS: &str = r#"
[[exec]]
name = "prints"
command = ["sh", "-c", "echo $0", "{{ data.db.password }}"]
sensitive = true
[[exec]]
name = "fails"
command = ["sh", "-c", "echo $0; echo $0 >&2; exit 7", "{{ data.db.password }}"]
sensitive = true
log_output = false
"#;

fn in_no_journal() {
    let machine = Overlay::booted();
    let plugin = |id: &str| format!("plugin {id}={}\n", built(&format!("holo-{id}")).display());
    let _ = built("holo-secret");
    machine.must("rm -rf /etc/holorc.d /etc/holo /usr/share/holo; mkdir -p /usr/share/holo");
    machine.write("/etc/holorc", ["files", "scaffold", "exec"].map(plugin).concat());
    machine.write("/etc/overlaid.conf", "stock\n");
    machine.write("/srv/plain", SECRET);
    machine.must("rm -f /etc/ssh/ssh_host_*; ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key");
    let armored = machine.must("age -a -R /etc/ssh/ssh_host_ed25519_key.pub </srv/plain");
    machine.write("/etc/holo/data/common.toml", format!("port = 80\n[db]\npassword = \"\"\"\n{armored}\"\"\"\n"));
    RESOURCES.iter().for_each(|(path, text)| machine.write(Path::new("/usr/share/holo").join(path), text));
    machine.write("/usr/share/holo/exec/commands.toml.jinja", COMMANDS);
    // Output goes to the journal, too.
    let call = |arguments: &str| {
        machine.sh(&format!("systemd-run --quiet --wait --collect {} {arguments}", built("holo").display()))
    };
    call("apply --diff");
    assert_eq!(machine.read("/etc/secret.conf"), format!("password={SECRET}\n"));
    // A manual change, so that there are refusals, overwrites and differences.
    machine.must("for file in secret rendered overlaid; do echo hunter3hunter3 >/etc/$file.conf; done");
    for arguments in
        ["apply", "check --diff", "diff", "apply --force --diff", "history show --diff", "why /etc/secret.conf"]
    {
        call(arguments);
    }
    assert_eq!(machine.read("/etc/secret.conf"), format!("password={SECRET}\n"));
    let journal = machine.must("journalctl --sync; journalctl --all --output=export").to_string();
    for word in ["file:/etc/secret.conf", "file:/etc/overlaid.conf", "exec:fails", "SYSLOG_IDENTIFIER=holo"] {
        assert!(journal.contains(word), "{word} is not in the journal");
    }
    let told: Vec<&str> = journal.lines().filter(|line| line.to_lowercase().contains("hunter")).collect();
    assert!(told.is_empty(), "{told:#?}");
}

fn valid() {
    let root = root();
    let hierarchy = |rule: &str| {
        root.write("etc/holo/data/hierarchy.toml", format!("[values.\"db.password\"]\nvalidate = \"{rule}\"\n"));
        let run = root.holo(&["data", "port"]);
        hides(&run);
        run
    };
    let run = hierarchy("value | length >= 12");
    assert_eq!((run.status, run.stdout_lossy()), (Some(0), "80\n".into()), "{run}");
    let place = root.join("etc/holo/data");
    for (rule, reason) in
        [("value | length > 100", "it does not hold"), ("value.no.such", "it cannot be worked out for this value")]
    {
        let run = hierarchy(rule);
        let rule = format!("by `{rule}` in {}:1", place.join("hierarchy.toml").display());
        let wrong = format!("{}:3: db.password is not valid {rule}: {reason}", place.join("common.toml").display());
        assert!(run.status == Some(255) && run.stderr_lossy().contains(&wrong), "{wrong}\n{run}");
    }
    // Users who cannot decrypt it get an error where it is used.
    fs::remove_file(root.join("etc/ssh/ssh_host_ed25519_key")).unwrap();
    let run = hierarchy("value | length > 100");
    assert_eq!((run.status, run.stdout_lossy()), (Some(0), "80\n".into()), "{run}");
}

fn without_the_key() {
    let root = root();
    with_resources(&root);
    fs::remove_file(root.join("etc/ssh/ssh_host_ed25519_key")).unwrap();
    let applied = root.holo(&["apply"]);
    assert!(!applied.success());
    let said = applied.stderr_lossy().into_owned() + &applied.stdout_lossy();
    assert!(said.contains("etc/holo/data/common.toml:3: db.password: this cannot be decrypted: "), "{applied}");
    assert!(!root.join("etc/app").exists() && !root.join("etc/secret.conf").exists());
    assert_eq!(fs::read_to_string(root.join("etc/overlaid.conf")).unwrap(), "stock\n");
    // Entities that do not need it are applied.
    root.write("usr/share/holo/scaffold/app/secret.conf", "port={{ data.port }}\n");
    let applied = root.holo(&["apply", "scaffold:/etc/app"]);
    assert!(applied.stdout_lossy().contains("scaffold:/etc/app"), "{applied}");
    assert_eq!(fs::read_to_string(root.join("etc/app/secret.conf")).unwrap(), "port=80\n");
}

fn refused() {
    let root = root();
    root.write(
        "usr/share/holo/files/10-files.toml.jinja",
        "[[file]]\npath = \"/etc/{{ data.db.password }}\"\ncontent = \"x\"\n\n\
         [[file]]\npath = \"/etc/a\"\ncontent = \"x\"\nowner = \"{{ data.db.password }} \"\n\n\
         [[file]]\npath = \"/etc/b\"\ncontent = \"x\"\nif = \"'{{ data.db.password }}' == 'x'\"\n\n\
         [[file]]\npath = \"/etc/c\"\ncontent = \"x\"\nmode = \"{{ data.db.password }}\"\n",
    );
    root.write("usr/share/holo/files/20-link.toml", "[[file]]\npath = \"/etc/d\"\nsource = \"d.holotemplate\"\n");
    root.write("usr/share/holo/files/d.holotemplate", "{{ data.db.password }}\n");
    root.write("usr/share/holo/files/30-o/etc/overlaid.conf.holotemplate", "{{ data.db.password }}\n");
    let checked = root.holo(&["check"]);
    hides(&checked);
    let applied = root.holo(&["apply"]);
    hides(&applied);
    let said = applied.stderr_lossy().into_owned() + &applied.stdout_lossy();
    for words in [
        "10-files.toml.jinja:2 as rendered: [[file]]: path: an encrypted value cannot be used here",
        "file:/etc/a: owner: the error is not shown",
        "file:/etc/b: if: an encrypted value cannot be used here",
        "file:/etc/c: mode: the error is not shown",
        "d.holotemplate: the template contains an encrypted value; set sensitive = true",
        "overlaid.conf.holotemplate: the template contains an encrypted value; set [[overlay]] path = \
         \"/etc/overlaid.conf\", sensitive = true",
    ] {
        assert!(said.contains(words), "{words} is not in {applied}");
    }
    root.write("usr/share/holo/files/10-files.toml.jinja", "[[file]]\n{{ data.db.password }} = \"x\"\n");
    let applied = root.holo(&["apply"]);
    hides(&applied);
    let said = applied.stderr_lossy().into_owned() + &applied.stdout_lossy();
    assert!(said.contains("a key or the name of a table depends on a value that is encrypted"), "{applied}");
    root.write("usr/share/holo/files/10-files.toml.jinja", "[[file]]\npath = {{ data.db.password }}\n");
    hides(&root.holo(&["apply"]));
}
