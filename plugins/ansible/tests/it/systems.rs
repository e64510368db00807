//! Tests of modules that work on the machine itself: accounts, crontabs, services and settings of a temporary system.

use crate::ansible::{COLLECTIONS, VERSIONS, Version, collections, host, said, with_each};
use holo_testing::overlay::{NEEDS, NEEDS_TO_BOOT};
use holo_testing::{Need, Overlay, trial_of};
use libtest_mimic::Trial;

/// A task on a system.
struct Case {
    module: &'static str,
    args: &'static str,
    /// A script that prepares the system.
    before: &'static str,
    /// The description of the change.
    change: &'static str,
    /// A script that succeeds only after the task.
    is_done: &'static str,
}

const AT_REST: [Case; 4] = [
    Case {
        module: "group",
        args: "name = 'crew', gid = 4711",
        before: ":",
        change: "changed",
        is_done: "getent group crew | grep -q :4711:",
    },
    Case {
        module: "user",
        args: "name = 'fred', uid = 4711, shell = '/bin/sh', create_home = true",
        before: ":",
        change: "changed",
        is_done: "getent passwd fred | grep -q :4711: && test -d /home/fred",
    },
    Case {
        module: "cron",
        args: "name = 'tidy', cron_file = 'tidy', user = 'root', minute = '0', hour = '5', job = '/bin/true'",
        // The module requires the program, but does not run it for a file in cron.d.
        before: "mkdir -p /etc/cron.d; ln -sf /bin/false /usr/local/bin/crontab",
        change: "changed",
        is_done: "grep -q '^0 5 [*] [*] [*] root /bin/true$' /etc/cron.d/tidy",
    },
    Case {
        module: "known_hosts",
        args: "name = 'host.example', key = 'host.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIC5bdvhBGmPIe+H26T6NYSni7qEaHNMD3U+PRVoFb4La'",
        before: "rm -rf /root/.ssh; mkdir -m 0700 /root/.ssh",
        change: "changed",
        is_done: "grep -q host.example /root/.ssh/known_hosts",
    },
];

const DAEMON: &str = "printf '[Service]\\nExecStart=sleep 86400\\n[Install]\\nWantedBy=basic.target\\n' >/etc/systemd/system/d.service; \
    systemctl daemon-reload; systemctl disable --quiet --now d.service";
const RUNS: &str = "systemctl --quiet is-active d.service && systemctl --quiet is-enabled d.service";

const BOOTED: [Case; 4] = [
    Case {
        module: "systemd_service",
        args: "name = 'd.service', state = 'started', enabled = true",
        before: DAEMON,
        change: "changed",
        is_done: RUNS,
    },
    Case {
        module: "service",
        args: "name = 'd', state = 'started', enabled = true, sleep = 1",
        before: DAEMON,
        change: "changed",
        is_done: RUNS,
    },
    Case {
        module: "hostname",
        args: "name = 'elsewhere'",
        before: "hostname here; echo here >/etc/hostname",
        change: "changed",
        is_done: "grep -qx elsewhere /etc/hostname && test \"$(hostname)\" = elsewhere",
    },
    Case {
        module: "ansible.posix.sysctl",
        args: "name = 'net.ipv4.ip_forward', value = '1', sysctl_set = true",
        before: "echo 0 >/proc/sys/net/ipv4/ip_forward",
        change: "changed",
        is_done: "grep -qx 1 /proc/sys/net/ipv4/ip_forward && grep -q ip_forward /etc/sysctl.conf",
    },
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = with_each("modules that work on a system foretell what they do", NEEDS, |version| {
        let system = System::new(Overlay::new(), version);
        AT_REST.iter().for_each(|case| system.converges(case));
    });
    trials.extend(with_each("tasks are done in the order of their definitions", NEEDS, in_order));
    let needs: Vec<Need> = VERSIONS.iter().map(|version| version.need).chain([COLLECTIONS]).collect();
    // Both share a booted system.
    trials.push(trial_of(
        "modules that work on a system that runs foretell what they do",
        &[NEEDS_TO_BOOT, &needs].concat(),
        || {
            let mut system = System::new(Overlay::booted(), VERSIONS[0]);
            for version in VERSIONS {
                system.set_version(version);
                BOOTED.iter().for_each(|case| system.converges(case));
            }
        },
    ));
    trials
}

/// A system on which modules of an Ansible version run.
struct System(Overlay);

impl System {
    fn new(system: Overlay, version: Version) -> System {
        let mut system = System(system.plugin("ansible"));
        system.set_version(version);
        system
    }

    fn set_version(&mut self, version: Version) {
        let more = format!("collections = ['{}']\n", collections().display());
        self.0.write("/usr/share/holo/ansible/00-host.toml", host(&version.python(), &more));
    }

    #[track_caller]
    fn holo(&self, arguments: &[&str], status: i32) -> String {
        let run = self.0.holo(arguments);
        assert_eq!(run.status, Some(status), "{run}");
        said(&run)
    }

    #[track_caller]
    fn converges(&self, case: &Case) {
        let Case { module, args, before, change, is_done } = case;
        self.0.must(before);
        self.0.write(
            "/usr/share/holo/ansible/10-case.toml",
            format!("[[task]]\nname = 'x'\nmodule = '{module}'\nargs = {{ {args} }}\n"),
        );
        assert!(!self.0.sh(is_done).success(), "{module}");
        let said = self.holo(&["check"], 3);
        assert!(said.contains(&format!("\n{change}\n")), "{module}: {said}");
        assert!(!self.0.sh(is_done).success(), "{module}");
        let said = self.holo(&["apply"], 0);
        assert!(said.contains(&format!("\n{change}\n")), "{module}: {said}");
        assert!(self.0.sh(is_done).success(), "{module}: {said}");
        let said = self.holo(&["apply"], 0);
        assert!(!said.contains(&format!("\n{change}\n")), "{module}: {said}");
        self.holo(&["check"], 0);
    }
}

/// Without edges between them, tasks run in the order of their files and lines, regardless of their names.
fn in_order(version: Version) {
    let system = System::new(Overlay::new(), version);
    let task = |name: &str, lines: &str| {
        let command = format!("sh -c 'echo {name} >>/root/order'");
        format!("[[task]]\nname = '{name}'\nmodule = 'command'\nargs.cmd = \"{command}\"\n{lines}\n")
    };
    let order = |tasks: &[String]| {
        system.0.must("rm -f /root/order");
        system.0.write("/usr/share/holo/ansible/10-case.toml", tasks.concat());
        system.holo(&["apply"], 0);
        system.0.read("/root/order").to_string().lines().collect::<Vec<_>>().join(" ")
    };
    system.0.write("/usr/share/holo/ansible/05-case.toml", task("y", ""));
    assert_eq!(order(&["z", "a", "m", "b", "c"].map(|name| task(name, ""))), "y z a m b c");
    let one_waits = [task("z", ""), task("a", "after = ['ansible:b']"), task("b", "")];
    assert_eq!(order(&one_waits), "b y z a");
}
