//! Cases of units of users: with a running manager, without one, and for all users.

use super::Case;
use super::host::Host;

pub(crate) const ALL: &[Case] = &[
    ("a unit of a user is started and enabled by the user's manager, and comes back to how it was", with_manager),
    ("without the user's manager a unit is enabled, and it is said that it was not started", without_manager),
    ("what is enabled or masked for all users has no manager", all_users),
    ("a unit of a user who is not there yet is an error, and a scrubbed one of a user who is gone is not", nobody),
    ("units of the same name of the system, of users and of all users are different ones", namesakes),
    ("a refresh restarts a unit of a user, and its first drop-in is read before", refreshed),
    ("nobody is led astray by links in a home directory", led_astray),
    ("a user's manager that does not answer as it should fails that user's units alone", broken_manager),
    ("units of users are adopted with the keys that say whose they are", adopted),
    ("units that go along with a user's unit stay as they were", along),
];

const UNIT: &str = "[Service]\nExecStart=sleep 86400\n[Install]\nWantedBy=default.target\n";
const OWN: &str = ".config/systemd/user";

/// A user created for a case and removed after it.
struct User<'h> {
    host: &'h Host,
    name: &'static str,
}

impl<'h> User<'h> {
    fn new(host: &'h Host, name: &'static str) -> User<'h> {
        // Each user logs the calls.
        host.system.must(&format!("chmod 666 /run/calls; useradd --create-home --shell /bin/sh {name}"));
        User { host, name }
    }

    /// Starts the user's manager.
    fn start_manager(&self) {
        self.host
            .system
            .must(&format!("systemctl start dbus.socket; systemctl start user@$(id -u {}).service", self.name));
    }

    fn stop_manager(&self) {
        self.host.system.must(&format!("systemctl stop user@$(id -u {}).service", self.name));
    }

    /// Runs a command as the user, in the home directory.
    #[track_caller]
    fn must(&self, command: &str) -> String {
        let name = self.name;
        self.host
            .system
            .must(&format!(
                "cd ~{name}; exec setpriv --reuid {name} --regid {name} --init-groups \
             env HOME=/home/{name} XDG_RUNTIME_DIR=/run/user/$(id -u {name}) sh -ec '{command}'"
            ))
            .to_string()
    }

    #[track_caller]
    fn unit(&self, name: &str, content: &str) {
        self.must(&format!("mkdir -p {OWN}; printf \"{}\" >{OWN}/{name}", content.replace('\n', "\\n")));
    }

    #[track_caller]
    fn property(&self, unit: &str, property: &str) -> String {
        self.must(&format!("/usr/bin/systemctl --user show --value --property={property} {unit}")).trim().to_owned()
    }

    #[track_caller]
    fn is_active(&self, unit: &str) -> bool {
        self.property(unit, "ActiveState") == "active"
    }

    fn is_enabled(&self, unit: &str) -> bool {
        self.host.system.exists(format!("/home/{}/{OWN}/default.target.wants/{unit}", self.name))
    }

    /// Declares only a unit of this user.
    fn declare(&self, unit: &str, lines: &str) {
        self.host.service(unit, &format!("scope = 'user'\nuser = '{}'\n{lines}", self.name));
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        let name = self.name;
        self.host.system.must(&format!(
            "systemctl stop user@$(id -u {name}).service user-runtime-dir@$(id -u {name}).service; userdel --remove {name} 2>/dev/null || true"
        ));
    }
}

fn with_manager(host: &Host) {
    let alice = User::new(host, "alice");
    alice.unit("sync.service", UNIT);
    alice.start_manager();
    alice.declare("sync", "enable = true");
    let scan = host.system.holo(&["scan"]);
    assert!(scan.stdout_lossy().contains("unit sync.service of alice (running, enabled)"), "{scan}");
    let check = host.check();
    assert_eq!(check.status, Some(3), "{check}");
    let said = check.stdout_lossy();
    assert!(
        said.contains("would enable sync.service of alice") && said.contains("would start sync.service of alice"),
        "{check}"
    );
    assert!(!alice.is_active("sync") && !alice.is_enabled("sync.service"));
    let said = host.apply();
    assert!(said.contains("service:alice/sync") && said.contains("started sync.service of alice\n"), "{said}");
    assert!(alice.is_active("sync") && alice.is_enabled("sync.service"));
    let owner = host.system.must("stat -c %U /home/alice/.config/systemd/user/default.target.wants");
    assert_eq!(owner.to_string().trim(), "alice", "nothing in a home directory is root's");
    host.nothing_to_do();
    alice.must("/usr/bin/systemctl --user stop sync");
    assert!(host.apply().contains("started sync.service of alice"));
    host.declare_nothing();
    let said = host.apply();
    assert!(said.contains("Scrubbing service:alice/sync"), "{said}");
    assert!(!alice.is_active("sync") && !alice.is_enabled("sync.service"));
    host.nothing_to_do();
    // It can be masked if its file is not at the path of the mask.
    host.system.write("/usr/lib/systemd/user/theirs.service", UNIT);
    alice.must("/usr/bin/systemctl --user daemon-reload; /usr/bin/systemctl --user start theirs");
    alice.declare("theirs", "mask = true");
    host.apply();
    assert_eq!((alice.is_active("theirs"), alice.property("theirs", "UnitFileState").as_str()), (false, "masked"));
    host.nothing_to_do();
    host.declare_nothing();
    host.apply();
    assert_eq!((alice.is_active("theirs"), alice.property("theirs", "UnitFileState").as_str()), (true, "disabled"));
    // A failed unit is shown with its log.
    alice.unit("fails.service", "[Service]\nType=oneshot\nExecStart=sh -c \\\"exit 3\\\"\n");
    alice.declare("fails", "");
    let said = host.apply_fails();
    assert!(
        said.contains("cannot start fails.service of alice") && said.contains("fails.service: Main process exited"),
        "{said}"
    );
    host.system.must("rm /usr/lib/systemd/user/theirs.service");
}

fn without_manager(host: &Host) {
    let alice = User::new(host, "alice");
    alice.unit("sync.service", UNIT);
    alice.declare("sync", "enable = true");
    let remark = ">> sync.service of alice is enabled, but not started: the user manager of alice is not running";
    let check = host.check();
    assert_eq!(check.status, Some(3), "{check}");
    let said = host.apply();
    assert!(said.contains("enabled sync.service of alice\n") && said.contains(remark), "{said}");
    assert!(alice.is_enabled("sync.service"));
    let said = host.apply();
    assert!(said.contains(remark) && !said.contains("\nenabled"), "it is said for as long as it is so: {said}");
    let check = host.check();
    assert_eq!(check.status, Some(0), "{check}");
    // It is started when the manager starts.
    alice.start_manager();
    assert!(alice.is_active("sync"));
    host.nothing_to_do();
    alice.stop_manager();
    host.declare_nothing();
    host.apply();
    assert!(!alice.is_enabled("sync.service"));
    // A unit that is not enabled would never be started.
    alice.declare("sync", "");
    let said = host.apply_fails();
    assert!(
        said.contains("sync.service of alice cannot be started: the user manager of alice is not running")
            && said.contains("enable-linger alice"),
        "{said}"
    );
    assert_eq!(host.check().status, Some(1));
    for lines in ["ensure = 'stopped'\nenable = false", "ensure = 'unmanaged'"] {
        alice.declare("sync", lines);
        host.nothing_to_do();
    }
    alice.declare("nowhere", "mask = true");
    host.apply();
    assert_eq!(alice.must(&format!("readlink {OWN}/nowhere.service")).trim(), "/dev/null");
    host.nothing_to_do();
    host.declare_nothing();
    host.apply();
    assert!(!host.system.exists("/home/alice/.config/systemd/user/nowhere.service"));
    alice.declare("nowhere", "enable = true");
    assert!(host.apply_fails().contains("nowhere.service of alice does not exist"));
}

fn all_users(host: &Host) {
    host.system.write("/usr/lib/systemd/user/every.service", UNIT);
    host.service("every", "scope = 'user'\nenable = true");
    let said = host.apply();
    assert!(said.contains("service:@users/every") && said.contains("enabled every.service of all users"), "{said}");
    let link = "/etc/systemd/user/default.target.wants/every.service";
    assert!(host.system.exists(link));
    host.nothing_to_do();
    host.service("every", "scope = 'user'\nmask = true");
    host.apply();
    assert_eq!(host.system.must("readlink /etc/systemd/user/every.service").to_string().trim(), "/dev/null");
    host.nothing_to_do();
    host.declare_nothing();
    host.apply();
    assert!(!host.system.exists(link) && !host.system.exists("/etc/systemd/user/every.service"));
    host.nothing_to_do();
    host.service("every", "scope = 'user'\nensure = 'running'");
    let said = host.apply_fails();
    assert!(said.contains("ensure: it is not said whose unit that is; user names the user"), "{said}");
    host.service("every", "user = 'alice'");
    assert!(host.apply_fails().contains("user: only units with scope = \"user\" are those of a user"));
    host.system.must("rm /usr/lib/systemd/user/every.service");
}

fn nobody(host: &Host) {
    host.service("sync", "scope = 'user'\nuser = 'ghost'\nenable = true");
    let said = host.apply_fails();
    assert!(said.contains("sync.service of ghost belongs to a user that does not exist"), "{said}");
    assert_eq!(host.check().status, Some(1));
    host.service("sync", "scope = 'user'\nuser = 'ghost'\nensure = 'stopped'\nenable = false\nmask = false");
    host.nothing_to_do();
    host.service("sync", "scope = 'user'\nuser = '../x'\nenable = true");
    assert!(host.apply_fails().contains("user: is not a valid name of a user"));
    let alice = User::new(host, "alice");
    alice.unit("sync.service", UNIT);
    alice.declare("sync", "enable = true");
    host.apply();
    drop(alice);
    host.declare_nothing();
    let said = host.apply();
    assert!(said.contains("Scrubbing service:alice/sync"), "{said}");
    host.nothing_to_do();
}

fn namesakes(host: &Host) {
    let (alice, bob) = (User::new(host, "alice"), User::new(host, "bob"));
    host.daemon("same.service");
    [&alice, &bob].iter().for_each(|user| user.unit("same.service", UNIT));
    host.system.write("/usr/lib/systemd/user/same.service", UNIT);
    [&alice, &bob].iter().for_each(|user| user.start_manager());
    let tables = ["", "scope = 'user'\n", "scope = 'user'\nuser = 'alice'\n", "scope = 'user'\nuser = 'bob'\n"];
    host.declare(&tables.map(|lines| format!("[[service]]\nname = 'same'\nenable = true\n{lines}")).concat());
    host.apply();
    assert!(host.is_active("same") && alice.is_active("same") && bob.is_active("same"));
    host.nothing_to_do();
    // Each is handled separately, regardless of its name.
    host.declare(
        &tables[..3]
            .iter()
            .map(|lines| format!("[[service]]\nname = 'same.service'\nenable = true\n{lines}"))
            .collect::<String>(),
    );
    let said = host.apply();
    assert!(said.contains("Scrubbing service:bob/same") && said.matches("Scrubbing").count() == 1, "{said}");
    assert!(host.is_active("same") && alice.is_active("same") && !bob.is_active("same"));
    host.declare(&format!("[[service]]\nname = 'same'\n{0}[[service]]\nname = 'same.service'\n{0}", tables[2]));
    let said = host.apply_fails();
    assert!(said.contains("service:alice/same.service") && said.contains("service:alice/same "), "{said}");
    // A unit enabled for all users is enabled for each, and cannot be disabled for one.
    bob.declare("same", "ensure = 'stopped'\nenable = true");
    host.apply();
    host.system.must("systemctl --global enable same");
    host.nothing_to_do();
    bob.declare("same", "ensure = 'stopped'\nenable = false");
    let said = host.apply_fails();
    assert!(said.contains("same.service of bob is enabled for all users, and cannot be disabled for one"), "{said}");
    host.system.must("systemctl --global disable same");
    host.declare_nothing();
    host.apply();
    assert!(!host.is_active("same") && !alice.is_active("same"));
    host.system.must("rm /usr/lib/systemd/user/same.service /etc/systemd/system/same.service; systemctl daemon-reload");
}

fn refreshed(host: &Host) {
    let alice = User::new(host, "alice");
    alice.unit("sync.service", UNIT);
    alice.start_manager();
    let drop_in =
        "[[file]]\npath = '/etc/systemd/user/sync.service.d/10.conf'\ncontent = \"[Service]\\nEnvironment=A=%\\n\"\n";
    alice.declare("sync", "enable = true\nsubscribes = ['file:/etc/systemd/user/sync.service.d/10.conf']");
    host.system.write("/usr/share/holo/files/10.toml", drop_in.replace('%', "1"));
    host.apply();
    assert_eq!(alice.property("sync", "Environment"), "A=1");
    let first = alice.property("sync", "InvocationID");
    host.nothing_to_do();
    host.system.write("/usr/share/holo/files/10.toml", drop_in.replace('%', "2"));
    let said = host.apply();
    assert!(
        said.contains("read the files of sync.service of alice again")
            && said.contains("restarted sync.service of alice"),
        "{said}"
    );
    assert_eq!(alice.property("sync", "Environment"), "A=2");
    assert_ne!(alice.property("sync", "InvocationID"), first);
    host.nothing_to_do();
    host.system.must("rm /usr/share/holo/files/10.toml");
    host.declare_nothing();
    host.apply();
    // The same for drop-ins shared with others.
    alice.unit("a-b.service", UNIT);
    alice.must("/usr/bin/systemctl --user daemon-reload");
    alice.declare("a-b", "");
    host.apply();
    host.system.write("/etc/systemd/user/a-.service.d/10.conf", "[Service]\nEnvironment=A=3\n");
    assert!(host.apply().contains("read the files of a-b.service of alice again"));
    assert_eq!(alice.property("a-b", "Environment"), "A=3");
    host.nothing_to_do();
    host.system.must("rm -r /etc/systemd/user/a-.service.d");
    // A file that overrides another one is loaded too.
    host.system.write("/usr/lib/systemd/user/over.service", UNIT);
    alice.must("/usr/bin/systemctl --user daemon-reload");
    alice.declare("over", "");
    host.apply();
    alice.unit("over.service", &UNIT.replace("sleep", "tail -f /dev/null --pid"));
    let said = host.apply();
    assert!(said.contains("read the files of over.service of alice again"), "{said}");
    assert_eq!(alice.property("over", "FragmentPath"), format!("/home/alice/{OWN}/over.service"));
    host.system.must("rm /usr/lib/systemd/user/over.service");
}

fn led_astray(host: &Host) {
    let alice = User::new(host, "alice");
    // The directories for symlinks lead to a directory that only root can write to.
    host.system.must("mkdir -p /root/astray; chmod 755 /root; printf 'precious' >/root/astray/other.service");
    alice.must("mkdir -p .config/systemd; ln -s /root/astray .config/systemd/user");
    host.system.write("/usr/lib/systemd/user/sync.service", UNIT);
    alice.declare("sync", "ensure = 'unmanaged'\nenable = true");
    let said = host.apply_fails();
    assert!(said.contains("cannot enable sync.service of alice"), "{said}");
    assert_eq!(host.system.must("ls /root/astray").to_string().trim(), "other.service");
    // A FIFO as a unit file does not block.
    alice.must("rm .config/systemd/user; mkdir .config/systemd/user; mkfifo .config/systemd/user/sync.service");
    let check = host.check();
    assert!(check.stderr_lossy().contains("sync.service of alice: timed out after 20s") || check.success(), "{check}");
    // A file that only root can read is not readable for the user.
    host.system.must("chmod 700 /root; printf '[Install]\\nAlso=secret.service\\n' >/root/astray/sync.service; chmod 600 /root/astray/sync.service");
    alice.must(
        "rm .config/systemd/user/sync.service; ln -s /root/astray/sync.service .config/systemd/user/sync.service",
    );
    let said = host.apply();
    assert!(said.contains("enabled sync.service of alice"), "that of the packages counts: {said}");
    let records = host.system.must("grep -rl secret.service /var/lib/holo || true");
    assert_eq!(records.to_string(), "");
    host.declare_nothing();
    host.apply();
    host.system.must("rm -r /root/astray /usr/lib/systemd/user/sync.service");
}

fn broken_manager(host: &Host) {
    let alice = User::new(host, "alice");
    let bob = User::new(host, "bob");
    bob.unit("sync.service", UNIT);
    alice.start_manager();
    bob.start_manager();
    host.system.must("systemctl stop user@$(id -u alice).service user-runtime-dir@$(id -u alice).service; d=/run/user/$(id -u alice); mkdir -p $d/systemd; \
                      python3 -c 'import socket,sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' $d/systemd/private; chown -R alice $d");
    let table = |user| format!("[[service]]\nname = 'sync'\nscope = 'user'\nuser = '{user}'\n");
    host.declare(&[table("alice"), table("bob")].concat());
    let said = host.apply_fails();
    assert!(said.contains("sync.service of alice: Failed to connect to bus:"), "{said}");
    assert!(bob.is_active("sync"));
    host.system.must("rm -r /run/user/$(id -u alice)");
    host.declare_nothing();
    host.apply();
}

fn adopted(host: &Host) {
    let alice = User::new(host, "alice");
    alice.unit("sync.service", UNIT);
    alice.start_manager();
    alice.must("/usr/bin/systemctl --user daemon-reload; /usr/bin/systemctl --user enable --now sync");
    let run = host.system.holo(&["adopt", "service:alice/sync"]);
    assert!(run.success(), "{run}");
    let text = host.system.read("/etc/holo/resources/services/adopted.toml").to_string();
    let table = "[[service]]\nname = \"sync\"\nscope = \"user\"\nuser = \"alice\"\nenable = true\n";
    assert!(text.contains(table), "{text}");
    host.nothing_to_do();
    let run = host.system.holo(&["adopt", "--dry-run", "service:alice/nowhere"]);
    assert!(!run.success() && run.stderr_lossy().contains("nowhere.service of alice does not exist"), "{run}");
    host.system.must("rm -rf /etc/holo/resources/services");
}

fn along(host: &Host) {
    let alice = User::new(host, "alice");
    alice.unit("main.service", &format!("{UNIT}Also=other.service another.service\n"));
    ["other.service", "another.service"].iter().for_each(|name| alice.unit(name, UNIT));
    for runs in [false, true] {
        if runs {
            alice.start_manager();
        }
        alice.must("SYSTEMD_OFFLINE=1 /usr/bin/systemctl --user enable other");
        alice.declare("main", "ensure = 'unmanaged'\nenable = true");
        host.apply();
        assert!(["main", "other", "another"].iter().all(|name| alice.is_enabled(&format!("{name}.service"))));
        host.declare_nothing();
        host.apply();
        assert!(
            alice.is_enabled("other.service")
                && !alice.is_enabled("main.service")
                && !alice.is_enabled("another.service")
        );
        let owner = host.system.must(&format!("stat -c %U /home/alice/{OWN}/default.target.wants/other.service"));
        assert_eq!(owner.to_string().trim(), "alice");
        host.nothing_to_do();
    }
}
