//! The host for the cases, with helpers for declarations, actions and checks.

use holo_testing::{Overlay, Run, binaries::built};

/// Logs the calls of systemctl.
const SPY: &str = "#!/bin/sh\necho \"$*\" >>/run/calls\nexec /usr/bin/systemctl \"$@\"\n";

/// A system with holo and the plugins `services`, `files` and `exec`.
pub(crate) struct Host {
    pub(crate) system: Overlay,
}

impl Host {
    pub(crate) fn new(system: Overlay) -> Host {
        let plugin = |id: &str| format!("plugin {id}={}\n", built(&format!("holo-{id}")).display());
        system.write("/etc/holorc", plugin("exec") + &plugin("files") + &plugin("services"));
        system
            .must("rm -rf /etc/holorc.d; mkdir -p /usr/share/holo/exec /usr/share/holo/files /usr/share/holo/services");
        let host = Host { system };
        host.spy();
        host
    }

    /// Logs calls of systemctl from now on.
    #[track_caller]
    pub(crate) fn spy(&self) {
        self.system.script("/usr/local/sbin/systemctl", SPY);
    }

    /// Removes all declarations and records before a case.
    pub(crate) fn tidy(&self) {
        self.system.must(
            "mkdir -p /usr/share/holo /var/lib/holo; find /usr/share/holo /var/lib/holo -mindepth 2 -delete; rm -rf /var/lib/holo/.engine /var/lib/holo/state.db*; : >/run/calls",
        );
    }

    /// Creates a unit in the administrator's directory.
    #[track_caller]
    pub(crate) fn unit(&self, name: &str, content: &str) {
        self.system.write(format!("/etc/systemd/system/{name}"), content);
    }

    /// Creates a unit that runs until it is stopped, and can be enabled.
    #[track_caller]
    pub(crate) fn daemon(&self, name: &str) {
        self.unit(name, "[Service]\nExecStart=sleep 86400\n[Install]\nWantedBy=basic.target\n");
    }

    /// Declares only this.
    #[track_caller]
    pub(crate) fn declare(&self, text: &str) {
        self.system.write("/usr/share/holo/services/10-case.toml", text);
    }

    /// Declares only a unit with these further lines.
    #[track_caller]
    pub(crate) fn service(&self, name: &str, lines: &str) {
        self.declare(&format!("[[service]]\nname = '{name}'\n{lines}\n"));
    }

    /// Removes all declarations.
    #[track_caller]
    pub(crate) fn declare_nothing(&self) {
        self.system.must("rm -f /usr/share/holo/services/*");
    }

    /// Applies everything, checks that it succeeds, and returns the output.
    #[track_caller]
    pub(crate) fn apply(&self) -> String {
        let run = self.system.holo(&["apply"]);
        assert!(run.success(), "{run}");
        run.stdout_lossy().into_owned() + &run.stderr_lossy()
    }

    /// Applies everything, checks that it fails, and returns the output.
    #[track_caller]
    pub(crate) fn apply_fails(&self) -> String {
        let run = self.system.holo(&["apply"]);
        assert_eq!(run.status, Some(1), "{run}");
        run.stdout_lossy().into_owned() + &run.stderr_lossy()
    }

    /// Applies everything, and checks that there are no changes.
    #[track_caller]
    pub(crate) fn nothing_to_do(&self) {
        let said = self.apply();
        assert_eq!(said, "", "something was done");
        let run = self.check();
        assert_eq!(run.status, Some(0), "{run}");
    }

    pub(crate) fn check(&self) -> Run {
        self.system.holo(&["check"])
    }

    /// Returns a property of a unit from systemd.
    #[track_caller]
    pub(crate) fn property(&self, unit: &str, property: &str) -> String {
        let text = self.system.must(&format!("/usr/bin/systemctl show --value --property={property} -- '{unit}'"));
        text.to_string().trim().to_owned()
    }

    #[track_caller]
    pub(crate) fn is_active(&self, unit: &str) -> bool {
        self.property(unit, "ActiveState") == "active"
    }

    #[track_caller]
    pub(crate) fn enablement(&self, unit: &str) -> String {
        self.property(unit, "UnitFileState")
    }

    /// Returns the calls of systemctl since the start of the case or the last such call, without their common words.
    #[track_caller]
    pub(crate) fn calls(&self) -> Vec<String> {
        let text = self.system.must("cat /run/calls; : >/run/calls").to_string();
        let common = "--no-pager --no-ask-password ";
        text.lines().map(|line| line.strip_prefix(common).unwrap_or(line).to_owned()).collect()
    }

    /// Returns the verbs of these calls.
    #[track_caller]
    pub(crate) fn verbs(&self) -> Vec<String> {
        self.calls().iter().map(|call| call.split(' ').next().unwrap_or_default().to_owned()).collect()
    }
}
