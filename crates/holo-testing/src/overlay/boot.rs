//! The machine's own system with systemd as process 1: units are started, stopped and enabled as on a real machine.

use super::{CAN_BE_MADE, Overlay};
use crate::files::{Context, IoError, sure};
use crate::require::Need;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// The requirements of a test with a booted overlay, for [`trial`](crate::trial()).
pub const NEEDS_TO_BOOT: &[Need] = &[
    Need::Root,
    Need::Program("unshare"),
    Need::Program("nsenter"),
    Need::Program("mount"),
    Need::Program("systemd-nspawn"),
    Need::Program("systemctl"),
    CAN_BE_MADE,
    Need::ControlGroups,
];

/// The timeout for booting, which takes a fraction of a second on an idle machine.
const BOOT_LIMIT: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Gives the system its own control groups, as those of two systems would collide, and removes them at the end.
const KEEP: &str = r#"
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
    [ -e $hierarchy/cgroup.procs ] || continue
    mkdir $hierarchy/holo-test-$$
    echo $$ >$hierarchy/holo-test-$$/cgroup.procs
done
groups=$(echo /sys/fs/cgroup/holo-test-$$ /sys/fs/cgroup/*/holo-test-$$)
status=0
unshare --mount --pid --fork --kill-child --mount-proc sh -ec "$ASSEMBLE" sh "$@" || status=$?
for group in $groups; do
    [ -d $group ] || continue
    echo $$ >${group%/*}/cgroup.procs
    # What was killed last is still on its way out.
    for again in 1 2 3 4 5 6 7 8 9; do
        find $group -depth -type d -exec rmdir {} + 2>/dev/null && break
        sleep 0.1
    done
done
exit $status
"#;

/// The option for a network that nothing else uses.
const OWN_NETWORK: &str = "--private-network";

/// Creates and boots the system in namespaces that end with the test, because the input of their first process does. The arguments are
/// the mount point, the root of the system, its target or an empty string for the default, its network, and directories
/// to bind.
const ASSEMBLE: &str = r#"
directory=$1 lower=$2 target=$3 network=$4; shift 4
mount -t tmpfs tmpfs "$directory"
cd "$directory"
mkdir upper work root
mount -t overlay overlay -o lowerdir="$lower",upperdir=upper,workdir=work root
: >root/etc/machine-id
echo holo-test >root/etc/hostname
for bound; do
    shift
    set -- "$@" "--bind-ro=$bound"
done
exec 3<&0
cat <&3 & lives=$!
(
    # With this status it asks for another one, since the system wants to boot again.
    status=133
    while [ $status = 133 ]; do
        status=0
        systemd-nspawn --quiet --directory=root --boot --register=no --keep-unit --machine=holo-test $network \
            --console=pipe "$@" -- ${target:+--unit=$target} </dev/null >log 2>&1 || status=$?
    done
    [ $status = 0 ] || cat log >&2
    kill $lives
) &
echo ready
wait $lives
"#;

impl Overlay {
    /// Creates a system and boots it to `basic.target`: its first process is this machine's systemd, with its own
    /// journal and an isolated network. `/run` and `/tmp` are empty, and only units that an administrator added to
    /// these targets are started.
    ///
    /// Booting takes half a second, and shutting down less; tests that can share a system should do so.
    #[must_use]
    #[track_caller]
    pub fn booted() -> Self {
        Self::booted_with(&[])
    }

    /// Like `booted`, with these directories of the machine readable.
    #[must_use]
    #[track_caller]
    pub fn booted_with(directories: &[&Path]) -> Self {
        sure(Self::boot(Path::new("/"), "basic.target", OWN_NETWORK, directories))
    }

    /// Like `booted`, with the network of this machine: services and systems with it must use different ports.
    #[must_use]
    #[track_caller]
    pub fn booted_online() -> Self {
        sure(Self::boot(Path::new("/"), "basic.target", "", &[]))
    }

    /// Boots a copy of another system, whose root is this directory, to its default target. Its own files do not change.
    #[must_use]
    #[track_caller]
    pub fn booted_from(root: &Path) -> Self {
        sure(Self::boot(root, "", OWN_NETWORK, &[]))
    }

    fn boot(root: &Path, target: &str, network: &str, directories: &[&Path]) -> Result<Self, IoError> {
        let arguments = ["-ec".as_ref(), KEEP.as_ref(), "sh".as_ref()];
        let system = [root.as_os_str(), target.as_ref(), network.as_ref()];
        let mut system = Self::keep("sh", &arguments, ("ASSEMBLE", ASSEMBLE), &system, directories)?;
        system.namespaces = &["--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup"];
        system.wait_until_up(None)?;
        Ok(system)
    }

    /// Reboots the system immediately, like a power cut: no process is stopped gracefully. Its disk is kept, `/run` and
    /// `/tmp` are empty.
    #[track_caller]
    pub fn cut_power(&mut self) {
        self.boot_again(&["reboot", "--force", "--force"]);
    }

    /// Reboots the system.
    #[track_caller]
    pub fn reboot(&mut self) {
        self.boot_again(&["reboot"]);
    }

    #[track_caller]
    fn boot_again(&mut self, arguments: &[&str]) {
        // The process that requests it is killed too.
        let _killed = self.run("systemctl", arguments);
        sure(self.wait_until_up(Some(self.inside)));
    }

    /// Waits until a system with another first process than this one has booted.
    fn wait_until_up(&mut self, before: Option<u32>) -> Result<(), IoError> {
        let begun = Instant::now();
        let fault = loop {
            if let Some(first) = first_inside(self.keeper_id()).filter(|first| Some(*first) != before) {
                self.inside = first;
                let state = self.run("systemctl", &["is-system-running", "--wait"]).stdout;
                // Units of the machine that fail to start here are irrelevant to tests.
                if state == "running\n" || state == "degraded\n" {
                    return Ok(());
                }
            }
            if status_of(self.keeper_id(), "State:").starts_with('Z') {
                break "it has ended".to_owned();
            } else if begun.elapsed() > BOOT_LIMIT {
                break format!("it is not up after {BOOT_LIMIT:?}");
            }
            thread::sleep(LOOK_AGAIN);
        };
        Err(std::io::Error::other(fault)).context("boot", Path::new("systemd"))
    }
}

/// Returns the systemd inside: the descendant of the keeper that is process 1 two namespaces below.
fn first_inside(keeper: u32) -> Option<u32> {
    let depth = |process: &str| {
        let numbers = status_of(process, "NSpid:");
        (numbers.split_whitespace().count(), numbers.ends_with("\t1"))
    };
    let ours = depth("self").0;
    let mut processes = vec![keeper];
    while let Some(process) = processes.pop() {
        if depth(&process.to_string()) == (ours + 2, true) {
            return Some(process);
        }
        let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
        processes.extend(children.split_whitespace().filter_map(|number| number.parse::<u32>().ok()));
    }
    None
}

/// Returns a field of a process's status; empty if the process does not exist.
fn status_of(process: impl std::fmt::Display, key: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let value = status.lines().find_map(|line| line.strip_prefix(key));
    value.map(|value| value.trim().to_owned()).unwrap_or_default()
}
