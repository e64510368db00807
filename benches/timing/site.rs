//! A site, where the steps of a scene run: a temporary root or system.

use crate::common;
use anyhow::{Context, Result, bail, ensure};
use holo_testing::{Overlay, binaries};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// The directory for all sites.
const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");
/// How long files must be unchanged before an apply records them as such.
const SETTLED_AFTER: Duration = Duration::from_secs(3);

/// A directory with a root and the files of other programs, or a system of its own.
pub(crate) struct Site {
    pub(crate) size: usize,
    pub(crate) cores: usize,
    dir: TempDir,
    system: Option<Overlay>,
}

/// A program and its arguments.
pub(crate) type Words = Vec<OsString>;

/// Converts text to words.
pub(crate) fn words(text: &[&str]) -> Words {
    text.iter().map(OsString::from).collect()
}

impl Site {
    pub(crate) fn make(system: Option<Overlay>, size: usize, cores: usize) -> Result<Site> {
        let dir = TempDir::new_in(SCRATCH).with_context(|| format!("make a directory in {SCRATCH}"))?;
        let site = Site { size, cores, dir, system };
        if site.system.is_none() {
            for folder in ["etc/holorc.d", "run", "tmp"] {
                create_folder(&site.root().join(folder))?;
            }
            site.write("etc/os-release", "ID=debian\n")?;
        }
        Ok(site)
    }

    /// Returns the root; `/` on a system of its own.
    pub(crate) fn root(&self) -> PathBuf {
        if self.system.is_some() { PathBuf::from("/") } else { self.dir.path().join("root") }
    }

    /// Returns a path for the files of other programs.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        if self.system.is_some() { Path::new("/srv").join(name) } else { self.dir.path().join(name) }
    }

    /// Returns the system. Fails for scenes without one.
    pub(crate) fn system(&self) -> Result<&Overlay> {
        self.system.as_ref().context("this scene has no system of its own")
    }

    /// Configures these plugins, and no others, each with an empty directory of resources.
    pub(crate) fn plugins(&self, ids: &[&str]) -> Result<()> {
        let mut lines = String::new();
        for id in ids {
            let plugin = binaries::binary(&format!("holo-{id}"))?;
            lines += &format!("plugin {id}={}\n", plugin.display());
        }
        match &self.system {
            Some(system) => {
                system.must(&format!(
                    "rm -rf /etc/holorc.d; cd /usr/share; mkdir -p holo; cd holo; mkdir -p {}",
                    ids.join(" ")
                ));
            }
            None => ids.iter().try_for_each(|id| create_folder(&self.root().join("usr/share/holo").join(id)))?,
        }
        self.write("etc/holorc", &lines)
    }

    /// Writes a file below the root, creating its parent directories.
    pub(crate) fn write(&self, path: &str, text: &str) -> Result<()> {
        if let Some(system) = &self.system {
            system.write(Path::new("/").join(path), text);
            return Ok(());
        }
        let path = self.root().join(path);
        create_folder(path.parent().unwrap_or(Path::new("/")))?;
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }

    /// Removes a file or directory below the root.
    pub(crate) fn remove(&self, path: &str) -> Result<()> {
        if let Some(system) = &self.system {
            system.must(&format!("rm -r /{path}"));
            return Ok(());
        }
        let path = self.root().join(path);
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("remove {}", path.display()))
    }

    /// Lets an apply record unchanged files, which it does only after they have been unchanged for a while.
    pub(crate) fn settle(&self) -> Result<()> {
        std::thread::sleep(SETTLED_AFTER);
        self.output(&holo(&["apply"])?).map(drop)
    }

    /// Returns all inodes, each with its creation time, as inode numbers are reused; `None` on a system of its own.
    pub(crate) fn inodes(&self) -> Result<Option<BTreeSet<(u64, SystemTime)>>> {
        if self.system.is_some() {
            return Ok(None);
        }
        let (mut inodes, mut folders) = (BTreeSet::new(), vec![self.dir.path().to_owned()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
                let entry = entry?;
                let metadata = entry.metadata()?;
                inodes.insert((metadata.ino(), metadata.created().unwrap_or(SystemTime::UNIX_EPOCH)));
                if metadata.is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        Ok(Some(inodes))
    }

    /// Returns a path for the result of a measurement.
    pub(crate) fn scratch_file(&self, name: &str) -> PathBuf {
        if self.system.is_some() { Path::new("/var/tmp").join(name) } else { self.dir.path().join(name) }
    }

    pub(crate) fn read(&self, path: &Path) -> Result<String> {
        match &self.system {
            Some(system) => Ok(system.read(path).to_string()),
            None => fs::read_to_string(path).with_context(|| format!("read {}", path.display())),
        }
    }

    /// Returns the prefix of a command line that runs on some of the machine's cores.
    pub(crate) fn pinned(&self) -> Words {
        if self.cores == cores() {
            return Words::new();
        }
        words(&["taskset", "--cpu-list", &format!("0-{}", self.cores - 1)])
    }

    /// Runs a program that must succeed, in the environment of all measurements. Returns its output.
    pub(crate) fn output(&self, words: &Words) -> Result<Vec<u8>> {
        let [program, arguments @ ..] = &words[..] else { bail!("there is no program to run") };
        if let Some(system) = &self.system {
            let run = system.run(program, arguments);
            ensure!(run.success(), "{program:?}: {run}");
            return Ok(run.stdout.into());
        }
        let root = self.root();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOLO_ROOT_DIR", &root)
            .env("TMPDIR", root.join("tmp"))
            .env("LC_ALL", "C")
            // On a real root, this record is enabled by default.
            .env("HOLO_FILES_RECORD", "1")
            .current_dir(root);
        common::run(command).map(|output| output.stdout)
    }
}

/// Returns the number of cores of the machine.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Describes the machine, its disk and the day.
pub(crate) fn machine() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let field = |text: String, name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
        line.unwrap_or_default().trim_matches([' ', '\t', ':']).to_owned()
    };
    let kernel = read("/proc/sys/kernel/osrelease");
    let memory = field(read("/proc/meminfo"), "MemTotal").trim_end_matches(" kB").parse::<f64>().unwrap_or_default();
    let mounts = read("/proc/self/mounts");
    let mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let disk = mounts.filter(|mount| mount.get(1).is_some_and(|at| Path::new(SCRATCH).starts_with(at)));
    let disk = disk.max_by_key(|mount| mount.get(1).map(|at| at.len()));
    let disk = disk.map_or_else(String::new, |mount| {
        [mount.get(2), mount.get(3)].into_iter().flatten().copied().collect::<Vec<_>>().join(" with ")
    });
    format!(
        "Linux {}, {}, {:.0} GiB of memory, {disk}, on {}",
        kernel.trim(),
        field(read("/proc/cpuinfo"), "model name"),
        memory / 1024.0 / 1024.0,
        jiff::Zoned::now().date()
    )
}

/// Returns the command line of holo.
pub(crate) fn holo(arguments: &[&str]) -> Result<Words> {
    let mut words = vec![binaries::binary("holo")?.into()];
    words.extend(arguments.iter().map(OsString::from));
    Ok(words)
}

pub(crate) fn create_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("create {}", path.display()))
}
