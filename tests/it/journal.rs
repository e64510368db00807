//! The entries that an apply writes to a real systemd journal.

use holo_testing::overlay::NEEDS_TO_BOOT;
use holo_testing::{Need, Overlay, binaries, trial_of};
use libtest_mimic::Trial;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Returns definitions of commands whose names are so long that the entry about the refresh exceeds a datagram.
fn long_names() -> String {
    let name = |number: usize| format!("{number}{}", "x".repeat(3000));
    let command = |name: &str| format!("[[exec]]\nname = \"{name}\"\ncommand = \"true\"\n");
    let commands: String = (0..100).map(|number| command(&name(number))).collect();
    let subscribed: String = (0..100).map(|number| format!("\"exec:{}\",\n", name(number))).collect();
    format!("{commands}{}subscribes = [{subscribed}]\n", command("last"))
}

pub(crate) fn trials() -> Vec<Trial> {
    let needs: Vec<Need> = NEEDS_TO_BOOT.iter().copied().chain([Need::Program("journalctl")]).collect();
    vec![trial_of("what becomes of entities is a line each in the journal, which may hang", &needs, lines_of_entities)]
}

/// Returns our journal entries, oldest first.
#[track_caller]
fn journal(machine: &Overlay) -> Vec<Value> {
    let lines = machine.must("journalctl --sync; journalctl --all --output=json SYSLOG_IDENTIFIER=holo");
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    lines.to_string().lines().map(parse).collect()
}

#[track_caller]
fn apply(machine: &Overlay, status: i32) {
    let run = machine.holo(&["apply"]);
    assert_eq!(run.status, Some(status), "{run}");
}

fn field<'a>(line: &'a Value, name: &str) -> &'a str {
    line[name].as_str().unwrap_or_default()
}

fn lines_of_entities() {
    let machine = Overlay::booted();
    let plugin = |id: &str| format!("plugin {id}={}\n", binaries::built(&format!("holo-{id}")).display());
    machine.must("rm -rf /etc/holorc.d /etc/holo; mkdir -p /usr/share/holo && cd /usr/share/holo && rm -rf * && mkdir files exec");
    machine.write("/etc/holorc", format!("{}{}", plugin("files"), plugin("exec")));
    machine.write("/usr/share/holo/files/10-x/etc/motd", "first\n");
    machine.must("ls >/dev/null /etc/motd || echo stock >/etc/motd");
    let secret = "[[file]]\npath = \"/srv/key\"\nmode = \"0600\"\nsensitive = true\ncontent = \"hunter2\"\n";
    machine.write("/usr/share/holo/files/key.toml", secret);
    machine.write(
        "/usr/share/holo/exec/bad.toml",
        "[[exec]]\nname = \"bad\"\ncommand = [\"sh\", \"-c\", \"echo why it failed >&2; exit 7\"]\n",
    );
    apply(&machine, 1);
    let found = journal(&machine);
    let of = |id: &str| found.iter().filter(|line| field(line, "HOLO_ENTITY") == id).collect::<Vec<_>>();
    let expected = [("file:/etc/motd", "changed", "5"), ("file:/srv/key", "changed", "5"), ("exec:bad", "failed", "3")];
    for (id, result, priority) in expected {
        let [line] = of(id)[..] else { panic!("{id}: {found:?}") };
        assert_eq!(field(line, "HOLO_RESULT"), result, "{line}");
        assert_eq!(field(line, "PRIORITY"), priority, "{line}");
        assert!(field(line, "MESSAGE").starts_with(&format!("{id}: {result}")), "{line}");
    }
    assert_eq!(found.len(), expected.len(), "{found:?}");
    assert!(!format!("{found:?}").contains("hunter2"), "{found:?}");
    let history = machine.must(&format!("{} history", binaries::built("holo").display())).to_string();
    let run = history.split('\t').next().unwrap();
    assert!(found.iter().all(|line| field(line, "HOLO_RUN") == run), "{run}: {found:?}");

    // A run without work, a run in test mode, and a run with history disabled write no entries.
    machine.must("rm /usr/share/holo/exec/bad.toml");
    apply(&machine, 0);
    machine.must("mkdir -p /srv/root/etc /srv/root/run /srv/root/usr/share/holo/files/10-x/etc; echo stock >/srv/root/etc/motd; echo x >/srv/root/usr/share/holo/files/10-x/etc/motd");
    machine.must(&format!("cp /etc/holorc /srv/root/etc; sed -i /exec/d /srv/root/etc/holorc; HOLO_HISTORY=1 HOLO_ROOT_DIR=/srv/root {} apply", binaries::built("holo").display()));
    machine.write("/usr/share/holo/files/10-x/etc/motd", "second\n");
    machine.must(&format!("HOLO_HISTORY=0 {} apply", binaries::built("holo").display()));
    assert_eq!(journal(&machine).len(), found.len());

    // A refused manual change is logged.
    machine.write("/usr/share/holo/files/10-x/etc/motd", "third\n");
    machine.write("/etc/motd", "edited\n");
    apply(&machine, 1);
    let line = journal(&machine).pop().unwrap();
    assert_eq!((field(&line, "HOLO_RESULT"), field(&line, "PRIORITY")), ("refused", "4"), "{line}");
    assert_eq!(field(&line, "MESSAGE"), "file:/etc/motd: refused: modified by user", "{line}");
    machine.must("rm -r /usr/share/holo/files/10-x");
    let _ = machine.holo(&["apply", "--force"]);

    // A message may exceed a datagram.
    machine.write("/usr/share/holo/exec/long.toml", long_names());
    apply(&machine, 0);
    let line = journal(&machine).into_iter().find(|line| field(line, "HOLO_ENTITY") == "exec:last").unwrap();
    assert!(field(&line, "MESSAGE").len() > 300_000, "{}", field(&line, "MESSAGE").len());
    machine.must("rm /usr/share/holo/exec/long.toml");

    // A journal that reads no entries causes only a short delay.
    let before = journal(&machine).len();
    machine.must("mkdir -p /usr/share/holo/files/20-many/srv/many /srv/many; cd /srv/many; for i in $(seq 2000); do echo 1 >$i; echo 2 >/usr/share/holo/files/20-many/srv/many/$i; done");
    let pid = machine.must("systemctl show --property=MainPID --value systemd-journald; ").to_string();
    machine.must(&format!("kill -STOP {pid}"));
    let began = Instant::now();
    apply(&machine, 0);
    let took = began.elapsed();
    machine.must(&format!("kill -CONT {pid}"));
    assert!(took < Duration::from_secs(30), "{took:?}");
    machine.must("for i in $(seq 2000); do echo 3 >/usr/share/holo/files/20-many/srv/many/$i; done");
    apply(&machine, 0);
    let lines = journal(&machine);
    let last = field(lines.last().unwrap(), "HOLO_RUN");
    assert!(lines.len() > before + 2000, "{} lines after {before}", lines.len());
    assert_eq!(lines.iter().filter(|line| field(line, "HOLO_RUN") == last).count(), 2000);
}
