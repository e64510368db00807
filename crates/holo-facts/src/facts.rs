//! Facts: built-in ones about the machine, and those from custom sources. They are gathered once per run.

mod kernel;
mod network;
mod sources;

use crate::document;
use holo_definitions::LocatedError;
use holo_system::{OsRelease, Root, package_manager};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde_json::{Map, Value, json};
use std::fmt::{self, Display};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// All facts: a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts(Value);

impl Facts {
    /// Gathers all facts of the system below the root, including those of sources below `inputs`. Kernel facts are
    /// those of the running kernel.
    ///
    /// A source that fails or hangs is left out with a warning; all sources together take less than two seconds.
    #[must_use]
    pub fn gather(root: &Path, inputs: &Path) -> (Facts, Vec<Warning>) {
        let mut warnings = Vec::new();
        let given = sources::gather(&Root::new(inputs), &mut warnings);
        let root = Root::new(root);
        let mut facts = built_in(&root);
        for table in given {
            overlay(&mut facts, table);
        }
        (Facts(Value::Object(facts)), warnings)
    }

    /// Returns the facts of this run: the first caller gathers them and writes them to the file, all others read it.
    ///
    /// Only the caller that gathers them gets warnings, so that they are reported once.
    #[must_use]
    pub fn of_run(root: &Path, inputs: &Path, file: &Path) -> (Facts, Vec<Warning>) {
        once(file, || Facts::gather(root, inputs))
    }

    /// The table.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.0
    }
}

/// Returns the facts that need no program. All names always exist: an unknown value is empty, or 0.
fn built_in(root: &Root) -> Map<String, Value> {
    let mut facts = Map::new();
    add(root, &mut facts);
    kernel::add(&mut facts);
    facts.insert("network".to_owned(), network::facts());
    facts.insert("virtualization".to_owned(), kernel::facts());
    facts
}

/// Merges a table into another: nested tables are merged, all other values replaced.
fn overlay(under: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value::Object(under)), Value::Object(over)) => overlay(under, over),
            (_, value) => {
                under.insert(key, value);
            }
        }
    }
}

/// The maximum time to wait for another process that gathers facts. It finishes much earlier unless it was stopped.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Returns the facts in the file, or gathers them and writes them there.
///
/// The file is its own lock and is written in place: a partial table is not valid, so that readers wait for the lock.
/// No temporary files can be left behind. If the file cannot be shared, facts are not lost, but gathered again.
fn once(path: &Path, gather: impl FnOnce() -> (Facts, Vec<Warning>)) -> (Facts, Vec<Warning>) {
    if let Some(facts) = open(path, OFlags::RDONLY).and_then(|file| read(path, file)) {
        return (facts, Vec::new());
    }
    let Some(mut file) = open(path, OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW) else {
        return gather();
    };
    if lock(&file).is_err() {
        return gather();
    }
    if let Some(facts) = file.try_clone().ok().and_then(|file| read(path, file)) {
        return (facts, Vec::new());
    }
    let gathered = gather();
    // This error need not be reported; the next caller gathers the facts itself.
    let _ = write(&mut file, gathered.0.value());
    gathered
}

/// Opens a facts file if it is owned by the current user or root.
fn open(path: &Path, flags: OFlags) -> Option<File> {
    let flags = flags | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).ok()?;
    let owner = rustix::fs::fstat(&file).ok()?.st_uid;
    (owner == 0 || owner == rustix::process::geteuid().as_raw()).then(|| file.into())
}

fn read(path: &Path, file: File) -> Option<Facts> {
    let content = holo_system::content(file.into()).ok()?;
    document::json(path.display(), &content).ok().map(|facts| Facts(Value::Object(facts)))
}

/// Waits until no other process gathers facts. The lock is released when the file is closed or the process ends.
fn lock(file: &File) -> io::Result<()> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < give_up => thread::sleep(LOOK_EVERY),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Replaces the content of the file, which is empty or was left by a killed process.
fn write(file: &mut File, facts: &Value) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(facts.to_string().as_bytes())
}

fn add(root: &Root, facts: &mut Map<String, Value>) {
    let release = OsRelease::read(root);
    let manager = package_manager::of_system(root, &release);
    facts.insert("init".to_owned(), holo_system::init_system(root).into());
    facts.insert("package_manager".to_owned(), manager.map_or("", |manager| manager.name).into());
    facts.insert("os".to_owned(), os_release(&release));
    let given = root.text("etc/hostname").and_then(|text| first_word(&text));
    let full = given.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
    let hosts = root.text("etc/hosts").unwrap_or_default();
    let (hostname, fqdn, domain) = names(&full, &hosts);
    facts.insert("hostname".to_owned(), hostname.into());
    facts.insert("fqdn".to_owned(), fqdn.into());
    facts.insert("domain".to_owned(), domain.into());
}

/// Returns the values of `os-release(5)`, with the defaults defined there.
fn os_release(release: &OsRelease) -> Value {
    let or = |key: &str, default: &str| release.get(key).unwrap_or(default).to_owned();
    let name = or("NAME", "Linux");
    json!({
        "id": or("ID", "linux"),
        "id_like": release.id_like().collect::<Vec<_>>(),
        "pretty_name": or("PRETTY_NAME", &name),
        "name": name,
        "version": or("VERSION", ""),
        "version_id": or("VERSION_ID", ""),
        "codename": or("VERSION_CODENAME", ""),
        "variant_id": or("VARIANT_ID", ""),
    })
}

/// Returns the first word that is not in a comment.
fn first_word(text: &str) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).next()
}

/// Returns the host name up to its first dot, the full name, and the part of the full name after its first dot.
fn names(name: &str, hosts: &str) -> (String, String, String) {
    let hostname = name.split('.').next().unwrap_or_default();
    let in_hosts = || {
        let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or_default());
        let names = lines.flat_map(|line| line.split_whitespace().skip(1));
        names.into_iter().find(|full| full.strip_prefix(hostname).is_some_and(|rest| rest.starts_with('.')))
    };
    let fqdn = if name.contains('.') { name } else { in_hosts().unwrap_or(name) };
    let domain = fqdn.split_once('.').map_or("", |(_, domain)| domain);
    (hostname.to_owned(), fqdn.to_owned(), domain.to_owned())
}

/// The error of a source without facts; the other sources are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub LocatedError);

impl Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no facts from {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tables_go_into_each_other() {
        let mut facts = json!({"os": {"id": "debian", "like": ["x"]}, "a": 1});
        let Value::Object(over) = json!({"os": {"like": ["y"], "site": "z"}, "a": {"b": 2}}) else { panic!() };
        if let Value::Object(under) = &mut facts {
            overlay(under, over);
        }
        assert_eq!(facts, json!({"os": {"id": "debian", "like": ["y"], "site": "z"}, "a": {"b": 2}}));
    }

    #[test]
    fn all_names_are_there_below_an_empty_root() {
        let folder = tempfile::tempdir().unwrap();
        let (facts, warnings) = Facts::gather(folder.path(), folder.path());
        assert_eq!(warnings, []);
        let names = [
            "architecture",
            "domain",
            "fqdn",
            "hostname",
            "init",
            "kernel.name",
            "kernel.release",
            "kernel.version",
            "memory.total",
            "mounts",
            "network.interfaces",
            "network.ipv4.address",
            "network.ipv4.gateway",
            "network.ipv4.interface",
            "network.ipv6.address",
            "network.ipv6.gateway",
            "network.ipv6.interface",
            "os.codename",
            "os.id",
            "os.id_like",
            "os.name",
            "os.pretty_name",
            "os.variant_id",
            "os.version",
            "os.version_id",
            "package_manager",
            "processors.count",
            "processors.model",
            "swap.total",
            "virtualization.kind",
            "virtualization.name",
        ];
        for name in names {
            let found = crate::key::find(facts.value(), name).unwrap();
            assert!(found.is_some_and(|value| !value.is_null()), "{name}");
        }
        assert_eq!(facts.value()["os"]["id"], "linux");
        assert_ne!(facts.value()["hostname"], "");
    }
}

#[cfg(test)]
mod shared_tests {
    use super::*;
    use holo_definitions::LocatedError;
    use serde_json::json;
    use std::os::unix::fs::MetadataExt;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn facts() -> (Facts, Vec<Warning>) {
        (Facts(json!({"a": 1})), vec![Warning(LocatedError::new("x", "y"))])
    }

    fn names_in(folder: &Path) -> Vec<String> {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    #[test]
    fn of_many_who_ask_at_once_one_gathers() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("facts.json");
        let (gathered, warned) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let (found, warnings) = once(&file, || {
                        gathered.fetch_add(1, Ordering::SeqCst);
                        facts()
                    });
                    warned.fetch_add(warnings.len(), Ordering::SeqCst);
                    assert_eq!(found, facts().0);
                });
            }
        });
        assert_eq!((gathered.into_inner(), warned.into_inner()), (1, 1));
        assert_eq!(names_in(folder.path()), ["facts.json"]);
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn facts_that_cannot_be_shared_are_gathered() {
        assert_eq!(once(Path::new("/nowhere/facts.json"), facts), facts());
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("facts");
        std::fs::create_dir(&directory).unwrap();
        assert_eq!(once(&directory, facts), facts());
        assert_eq!(names_in(folder.path()), ["facts"]);
    }

    #[test]
    fn what_somebody_has_left_half_written_is_replaced_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("facts.json");
        std::fs::write(&file, "{\"a\": 1, \"something that is longer\": [").unwrap();
        assert_eq!(once(&file, facts), facts());
        assert_eq!(once(&file, || panic!("it is there now")).0, facts().0);
        assert_eq!(names_in(folder.path()), ["facts.json"]);
    }
}

#[cfg(test)]
mod system_tests {
    use super::*;

    #[test]
    fn fields_missing_in_os_release_have_their_defaults() {
        let os = os_release(&OsRelease::parse("NAME=\"Open\\\"SUSE\"\nID_LIKE=\"suse opensuse\"\n"));
        assert_eq!((&os["name"], &os["pretty_name"]), (&json!("Open\"SUSE"), &json!("Open\"SUSE")));
        assert_eq!((&os["id"], &os["id_like"]), (&json!("linux"), &json!(["suse", "opensuse"])));
        assert_eq!(os["codename"], "");
    }

    #[test]
    fn full_names_come_from_the_name_or_from_hosts() {
        let names = |name, hosts| {
            let (hostname, fqdn, domain) = names(name, hosts);
            format!("{hostname} {fqdn} {domain}")
        };
        assert_eq!(names("web1.example.org", ""), "web1 web1.example.org example.org");
        let hosts = "127.0.0.1 localhost\n# 127.0.1.1 web1.no\n127.0.1.1\tweb10.no web1.example.org web1 # web1.no\n";
        assert_eq!(names("web1", hosts), "web1 web1.example.org example.org");
        assert_eq!(names("web", hosts), "web web ");
        assert_eq!(first_word("# me\n\n web1 \n").as_deref(), Some("web1"));
        assert_eq!(first_word("# me\n"), None);
    }
}
