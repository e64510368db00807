//! The init system.

use crate::{Root, is_offline};
use std::path::Path;

/// The directory that exists if systemd is process 1.
const RUN: &str = "run/systemd/system";

/// systemd's directories for units of the system from users and packages, in order of precedence, highest first. Those in which it
/// writes generated units are not among them.
pub const UNIT_DIRECTORIES: [&str; 5] =
    ["etc/systemd/system", RUN, "usr/local/lib/systemd/system", "usr/lib/systemd/system", "lib/systemd/system"];

/// The file in which OpenRC stores the current runlevel after booting.
const RUNLEVEL: &str = "run/openrc/softlevel";

/// Files whose existence indicates an installed init system.
const INSTALLED: [(&str, &str); 8] = [
    ("systemd", "usr/lib/systemd/systemd"),
    ("systemd", "lib/systemd/systemd"),
    ("openrc", "sbin/openrc-run"),
    ("openrc", "usr/bin/openrc-run"),
    ("runit", "etc/runit/2"),
    ("dinit", "sbin/dinit"),
    ("s6", "etc/s6-linux-init"),
    ("sysvinit", "etc/inittab"),
];

/// Returns the init system: process 1 of the running system, or the one installed below another root. Empty if unknown.
#[must_use]
pub fn init_system(root: &Root) -> &'static str {
    if !root.is_running() || is_offline() {
        return installed_init_system(root);
    }
    if is_run_by_systemd() {
        return "systemd";
    }
    if is_run_by_openrc() {
        return "openrc";
    }
    match std::fs::read_to_string("/proc/1/comm").unwrap_or_default().trim() {
        "systemd" => "systemd",
        "runit" => "runit",
        "s6-svscan" => "s6",
        "dinit" => "dinit",
        "openrc-init" => "openrc",
        "init" => installed_init_system(root),
        _ => "",
    }
}

/// Returns true if systemd runs this machine, like `sd_booted(3)`.
#[must_use]
pub fn is_run_by_systemd() -> bool {
    // A chroot may have the `/run` of the machine.
    !is_offline() && Path::new("/").join(RUN).is_dir()
}

/// Returns true if OpenRC runs the services of this machine, regardless of process 1.
#[must_use]
pub fn is_run_by_openrc() -> bool {
    !is_offline() && !is_run_by_systemd() && Path::new("/").join(RUNLEVEL).is_file()
}

/// Returns the init system installed below a root, running or not. Empty if unknown.
#[must_use]
pub fn installed_init_system(root: &Root) -> &'static str {
    INSTALLED.iter().find(|(_, path)| root.has(path)).map_or("", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::tests::root;

    #[test]
    fn below_another_root_the_one_that_is_installed_counts() {
        let of = |paths: &[&str]| init_system(&Root::new(root(paths).path()));
        assert_eq!(of(&["usr/lib/systemd/systemd", "etc/inittab"]), "systemd");
        assert_eq!(of(&["sbin/openrc-run", "etc/inittab"]), "openrc");
        assert_eq!(of(&["etc/inittab"]), "sysvinit");
        assert_eq!(of(&[]), "");
    }
}
