//! A container for a program: the root of a system that is not running, with its own mounts, processes, and host name.
//!
//! Nothing that runs in it can change the machine: it sees only the files of its root, signals only its own processes, and has no
//! capability that concerns the kernel, the network or devices. It uses the machine's network, so that packages can be downloaded.
//!
//! Three processes of our own binary take part. The first one asks the kernel for the namespaces, the second one is the first process
//! inside, which sets up the mounts, and the third one becomes the program.

use crate::invocation::{CONTAIN, INSIDE, OURSELVES, ignored_signals};
use crate::{Program, words};
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{Mode, symlink};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};
use rustix::process::{Pid, WaitOptions, WaitStatus, chdir, chroot, pivot_root, wait};
use rustix::thread::{CapabilitySet, capability_is_in_bounding_set, remove_capability_from_bounding_set};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The exit code if the container cannot be set up; the message is on standard error.
const NOT_CONTAINED: i32 = 255;

/// The directories of a root on which file systems of the kernel are mounted.
const MOUNT_POINTS: [&str; 4] = ["dev", "proc", "run", "sys"];
/// The devices that every program may expect.
const DEVICES: [&str; 6] = ["full", "null", "random", "tty", "urandom", "zero"];
const LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "fd"),
    ("pts/ptmx", "ptmx"),
    ("/proc/self/fd/2", "stderr"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
];
/// The files in `/proc` through which root can change the kernel.
const OF_THE_KERNEL: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];
/// The capabilities inside, which concern files, processes and accounts.
const CAPABILITIES: [CapabilitySet; 17] = [
    CapabilitySet::AUDIT_WRITE,
    CapabilitySet::CHOWN,
    CapabilitySet::DAC_OVERRIDE,
    CapabilitySet::DAC_READ_SEARCH,
    CapabilitySet::FOWNER,
    CapabilitySet::FSETID,
    CapabilitySet::KILL,
    CapabilitySet::LINUX_IMMUTABLE,
    CapabilitySet::MKNOD,
    CapabilitySet::NET_BIND_SERVICE,
    CapabilitySet::NET_RAW,
    CapabilitySet::SETFCAP,
    CapabilitySet::SETGID,
    CapabilitySet::SETPCAP,
    CapabilitySet::SETUID,
    CapabilitySet::SYS_CHROOT,
    CapabilitySet::SYS_RESOURCE,
];

/// Returns a program that runs in a container with this directory as its root, where it is searched in `PATH`. Its exit code is 255 if
/// the container cannot be set up. Our own binary must [serve internal commands](crate::serve_if_asked).
#[must_use]
pub fn contained(root: &Path, name: impl Into<OsString>) -> Program {
    let mut program = Program::new(OURSELVES);
    program.arg(CONTAIN).arg(root).arg(name);
    program
}

/// The container cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}: {}", words::reason(source))]
struct ContainerError {
    action: String,
    source: io::Error,
}

fn failed<E: Into<io::Error>>(action: impl Display) -> impl FnOnce(E) -> ContainerError {
    move |error| ContainerError { action: action.to_string(), source: error.into() }
}

/// Creates the namespaces and the first process in them, and exits with its status.
pub(crate) fn contain(arguments: impl Iterator<Item = OsString>) -> ! {
    let begin = || {
        let own =
            CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
        unshare(own).map_err(failed("create a container"))?;
        // Whoever sends a signal to us waits for the program inside.
        let is_ignored = |signal: &i32| ignored_signals() & (1 << (signal - 1)) != 0;
        for signal in [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(signal)) {
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false))).map_err(failed("catch a signal"))?;
        }
        start(OsStr::new(OURSELVES), [INSIDE.into()].into_iter().chain(arguments))
    };
    end(begin())
}

/// Sets up the container, starts the program in it, and exits with its status. The kernel then ends all other processes inside. Signals
/// need no handling: the kernel does not deliver those to the first process that it does not catch.
pub(crate) fn run_inside(mut arguments: impl Iterator<Item = OsString>) -> ! {
    let mut begin = || {
        let (Some(root), Some(name)) = (arguments.next(), arguments.next()) else {
            return Err(failed("set up a container")(io::Error::other("it was called by hand")));
        };
        enter(&PathBuf::from(root))?;
        limit_capabilities().map_err(failed("give up capabilities"))?;
        start(&name, arguments.by_ref())
    };
    end(begin())
}

#[expect(clippy::disallowed_methods, reason = "a program that is not tracked, because its namespace ends with it")]
fn start(name: &OsStr, arguments: impl Iterator<Item = OsString>) -> Result<Child, ContainerError> {
    Command::new(name).args(arguments).spawn().map_err(failed(format_args!("run {}", name.display())))
}

/// Exits like the program, or with a message about the error.
fn end(started: Result<Child, ContainerError>) -> ! {
    let program = match started {
        Ok(program) => Pid::from_child(&program),
        Err(error) => {
            crate::streams::complain(format_args!("!! {error}"));
            std::process::exit(NOT_CONTAINED);
        }
    };
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => std::process::exit(code(status)),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => std::process::exit(NOT_CONTAINED),
        }
    }
}

/// Returns the value of `$?` in a shell. The first process of a container cannot end by a signal.
fn code(status: WaitStatus) -> i32 {
    let signal = status.terminating_signal().map(|signal| 128 + signal);
    signal.or_else(|| status.exit_status()).unwrap_or(NOT_CONTAINED)
}

/// Makes the directory our root, with new file systems of the kernel.
fn enter(root: &Path) -> Result<(), ContainerError> {
    let below = |path: &str| root.join(path);
    for directory in MOUNT_POINTS.map(below) {
        // A symlink could lead out of the root.
        let is_directory = directory.symlink_metadata().is_ok_and(|found| found.is_dir());
        if !is_directory {
            let reason = format!("{} is not a directory; a root needs it", directory.display());
            return Err(failed(format_args!("enter {}", root.display()))(io::Error::other(reason)));
        }
    }
    let on = |path: &Path| failed(format!("mount on {}", path.display()));
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).map_err(on(Path::new("/")))?;
    mount_bind_recursive(root, root).map_err(on(root))?;
    // Otherwise a program could create the node of a disk, and write to it.
    mount_remount(root, MountFlags::BIND | MountFlags::NODEV, "").map_err(on(root))?;
    let new = |file_system: &str, path: &str, flags: MountFlags, options: &str| {
        let options = std::ffi::CString::new(options).unwrap_or_default();
        mount(file_system, below(path), file_system, flags | MountFlags::NOSUID, &*options).map_err(on(&below(path)))
    };
    let read_only = |path: &Path| {
        mount_remount(path, MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV, "")
            .map_err(on(path))
    };
    new("proc", "proc", MountFlags::NODEV | MountFlags::NOEXEC, "")?;
    for path in OF_THE_KERNEL.map(|name| below("proc").join(name)).iter().filter(|path| path.exists()) {
        mount_bind(path, path).map_err(on(path))?;
        read_only(path)?;
    }
    mount_bind("/sys", below("sys")).map_err(on(&below("sys")))?;
    read_only(&below("sys"))?;
    // The lock of an apply is in `/run`, and must not outlive it.
    new("tmpfs", "run", MountFlags::NODEV, "mode=0755")?;
    create_directory(&below("run/lock"), 0o1777)?;
    new("tmpfs", "dev", MountFlags::NODEV, "mode=0755")?;
    for (device, path) in DEVICES.map(|name| (Path::new("/dev").join(name), below("dev").join(name))) {
        File::create(&path).map_err(failed(format_args!("create {}", path.display())))?;
        mount_bind(&device, &path).map_err(on(&path))?;
    }
    for (target, path) in LINKS.map(|(target, name)| (target, below("dev").join(name))) {
        symlink(target, &path).map_err(failed(format_args!("create {}", path.display())))?;
    }
    create_directory(&below("dev/pts"), 0o755)?;
    create_directory(&below("dev/shm"), 0o1777)?;
    new("devpts", "dev/pts", MountFlags::NOEXEC, "newinstance,mode=0620,ptmxmode=0666")?;
    let change = |result: rustix::io::Result<()>| result.map_err(failed(format_args!("enter {}", root.display())));
    change(chdir(root))?;
    // The former root is put on top of the new one, and then taken away, so that nothing leads to it. A root that is not a mount point,
    // such as that of some chroots, cannot be taken away.
    change(match pivot_root(".", ".") {
        Ok(()) => unmount(".", UnmountFlags::DETACH),
        Err(_) => chroot("."),
    })?;
    change(chdir("/"))
}

fn create_directory(path: &Path, mode: u32) -> Result<(), ContainerError> {
    let create = || {
        fs::create_dir(path)?;
        // The umask does not apply.
        rustix::fs::chmod(path, Mode::from_raw_mode(mode)).map_err(io::Error::from)
    };
    create().map_err(failed(format_args!("create {}", path.display())))
}

/// Removes all other capabilities from the bounding set, so that no program inside gets them.
fn limit_capabilities() -> io::Result<()> {
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match capability_is_in_bounding_set(capability) {
            Ok(true) if !CAPABILITIES.contains(&capability) => remove_capability_from_bounding_set(capability)?,
            Ok(_) => {}
            // Capability numbers are contiguous.
            Err(rustix::io::Errno::INVAL) => break,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
