//! Whether holo runs inside of a transaction of a package manager, for example in a hook or in the install script of a package. The manager
//! keeps its lock until holo has exited, so that waiting for the lock would never end.

use holo_process::{Ancestor, ancestors};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;

/// Programs that run hooks and scripts while they hold the lock of a package manager.
const PROGRAMS: [&str; 24] = [
    "apk",
    "apt",
    "apt-get",
    "aptd",
    "aptitude",
    "dnf",
    "dnf-3",
    "dnf-automatic",
    "dnf5",
    "dnf5daemon-server",
    "dpkg",
    // It holds the lock of debconf, which installations need too.
    "dpkg-reconfigure",
    "microdnf",
    "packagekitd",
    "pacman",
    "pamac",
    "pamac-daemon",
    "rpm",
    "synaptic",
    "tdnf",
    "unattended-upgrade",
    "yum",
    "zypp-rpm",
    "zypper",
];
/// The lock files below the root, by which other programs are found.
const LOCKS: [&str; 6] = [
    "var/lib/dpkg/lock-frontend",
    "var/lib/dpkg/lock",
    "var/lib/rpm/.rpm.lock",
    "usr/lib/sysimage/rpm/.rpm.lock",
    "lib/apk/db/lock",
    "usr/lib/apk/db/lock",
];
/// The length to which the kernel cuts the names of processes.
const MAX_NAME: usize = 15;

/// Returns the name of the program in whose transaction this process runs, if any. It is determined once, because the ancestors of a
/// process stay the same.
#[must_use]
pub fn program(root: &Path) -> Option<&'static str> {
    static PROGRAM: OnceLock<Option<String>> = OnceLock::new();
    PROGRAM.get_or_init(|| find(Path::new("/proc"), root)).as_deref()
}

/// Finds this program: the outermost ancestor with a known name, which is the one that the user knows, or one that holds a lock.
fn find(proc: &Path, root: &Path) -> Option<String> {
    let ancestors = ancestors(proc);
    let known =
        |ancestor: &Ancestor| PROGRAMS.iter().find(|name| name.bytes().take(MAX_NAME).eq(ancestor.name.bytes()));
    if let Some(name) = ancestors.iter().rev().find_map(known) {
        return Some((*name).to_owned());
    }
    let inodes: Vec<u64> =
        LOCKS.iter().filter_map(|path| fs::metadata(root.join(path)).ok()).map(|file| file.ino()).collect();
    let locks = fs::read_to_string(proc.join("locks")).ok()?;
    let holders: Vec<i32> = locks.lines().filter_map(|line| holder(line, &inodes)).collect();
    ancestors.into_iter().find(|ancestor| holders.contains(&ancestor.pid)).map(|ancestor| ancestor.name)
}

/// Parses a line such as `1: POSIX  ADVISORY  WRITE 712 fe:00:4660 0 EOF`, and returns the process that holds the lock of one of these
/// files. The device is not compared, because it is not that of the file on all file systems.
fn holder(line: &str, inodes: &[u64]) -> Option<i32> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    // In the line of a process that waits for the lock, an arrow comes second.
    let [_, _, _, _, pid, file, ..] = fields[..] else { return None };
    let inode = file.rsplit(':').next()?.parse().ok()?;
    if inodes.contains(&inode) { pid.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// Creates a directory like `/proc` with a chain of processes, from this one outwards, each with its PID and name.
    fn proc(chain: &[(i32, &str)]) -> TempDir {
        let proc = tempfile::tempdir().unwrap();
        for (index, (pid, name)) in chain.iter().enumerate() {
            let parent = chain.get(index + 1).map_or(0, |(pid, _)| *pid);
            let folder = proc.path().join(if index == 0 { "self".to_owned() } else { pid.to_string() });
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("stat"), format!("{pid} ({name}) S {parent} 1 1 0 -1 0")).unwrap();
        }
        proc
    }

    fn found(chain: &[(i32, &str)]) -> Option<String> {
        find(proc(chain).path(), Path::new("/nowhere"))
    }

    #[test]
    fn outermost_package_manager_is_found_by_its_name() {
        let end = [(9, "holo"), (8, "foo.postinst")];
        let chain = |rest: &[(i32, &'static str)]| [&[(10, "holo-packages")], &end[..], rest].concat();
        assert_eq!(found(&chain(&[(7, "dpkg"), (6, "apt-get"), (5, "bash"), (1, "systemd")])).unwrap(), "apt-get");
        assert_eq!(found(&chain(&[(7, "dpkg"), (6, "unattended-upgr"), (1, "init")])).unwrap(), "unattended-upgrade");
        assert_eq!(found(&chain(&[(7, "pacman"), (1, "sh")])).unwrap(), "pacman");
        assert_eq!(found(&chain(&[(7, "bash"), (6, "sshd"), (1, "systemd")])), None);
        assert_eq!(found(&chain(&[(7, "apt-daily"), (6, "rpmbuild"), (5, "dpkg-buildpacka"), (1, "sh")])), None);
        assert_eq!(found(&[(10, "holo-packages")]), None);
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn holder_of_a_lock_is_found_by_its_number() {
        let root = tempfile::tempdir().unwrap();
        let lock = root.path().join("var/lib/dpkg/lock");
        fs::create_dir_all(lock.parent().unwrap()).unwrap();
        fs::write(&lock, "").unwrap();
        let inode = fs::metadata(&lock).unwrap().ino();
        let proc = proc(&[(10, "holo-packages"), (9, "holo"), (7, "my (own) tool"), (1, "init")]);
        let found = |locks: String| {
            fs::write(proc.path().join("locks"), locks).unwrap();
            find(proc.path(), root.path())
        };
        assert_eq!(found(format!("1: POSIX  ADVISORY  WRITE 7 fe:00:{inode} 0 EOF\n")).unwrap(), "my (own) tool");
        // Another process, one that waits, or another file.
        assert_eq!(found(format!("1: POSIX  ADVISORY  WRITE 77 fe:00:{inode} 0 EOF\n")), None);
        assert_eq!(found(format!("1: -> POSIX  ADVISORY  WRITE 7 fe:00:{inode} 0 EOF\n")), None);
        assert_eq!(found(format!("1: FLOCK  ADVISORY  WRITE 7 fe:00:{} 0 EOF\n", inode + 1)), None);
        assert_eq!(found("1: POSIX\n\n2: OFDLCK ADVISORY READ -1\n".to_owned()), None);
    }
}
