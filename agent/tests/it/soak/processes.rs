//! The processes of the agent, found in `/proc`: what they are, and what they need.

use holo_testing::processes;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;

/// A process to disturb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Agent,
    Watch,
    /// A plugin at work.
    Plugin,
    /// The agent and all its descendants.
    All,
}

impl Who {
    /// Returns the processes, given that of the agent. There may be none.
    pub(super) fn find(self, agent: u32) -> Vec<u32> {
        match self {
            Who::Agent => vec![agent],
            Who::Watch => descendants(agent).into_iter().filter(|pid| is_watch(*pid)).collect(),
            Who::Plugin => descendants(agent).into_iter().filter(|pid| is_plugin(*pid)).collect(),
            Who::All => [vec![agent], descendants(agent)].concat(),
        }
    }
}

fn descendants(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let all: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for process in all {
        if let Some(parent) = processes::parent(process) {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut found = children.remove(&pid).unwrap_or_default();
    let mut next = 0;
    while let Some(process) = found.get(next) {
        found.extend(children.remove(process).unwrap_or_default());
        next += 1;
    }
    found
}

/// Returns the file name of the program, and the first argument.
fn command(pid: u32) -> Option<(String, String)> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    let program = words.next()?;
    Some((program.rsplit('/').next()?.to_owned(), words.next()?))
}

fn is_watch(pid: u32) -> bool {
    command(pid).is_some_and(|(program, verb)| program == "holo" && verb == "watch")
}

fn is_plugin(pid: u32) -> bool {
    command(pid).is_some_and(|(program, _)| program.starts_with("holo-"))
}

/// What a process needs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Needs {
    /// The resident memory, in kB.
    resident: u64,
    /// The part of it that is no mapped file, such as the program.
    own: u64,
    descriptors: usize,
    threads: usize,
}

/// How much more memory of its own a process may need in the end, in kB.
const GROWTH: u64 = 1 << 10;
/// The same for each entity, in bytes: what is freed after a look at all entities stays with the allocator in part. That
/// levels off after six of them.
const GROWTH_PER_ENTITY: u64 = 768;

impl Needs {
    pub(super) fn of(pid: u32) -> Needs {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let memory = |key: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            value.trim().trim_end_matches(" kB").parse().unwrap()
        };
        let entries = |what: &str| fs::read_dir(format!("/proc/{pid}/{what}")).unwrap().count();
        let (resident, own) = (memory("VmRSS:"), memory("RssAnon:"));
        Needs { resident, own, descriptors: entries("fd"), threads: entries("task") }
    }

    /// Returns true if a process that knows this number of entities has grown from this to that.
    pub(super) fn has_grown(self, after: Needs, entities: usize) -> bool {
        let growth = GROWTH + entities as u64 * GROWTH_PER_ENTITY / 1024;
        // The watch needs a descriptor to find out who writes what was repaired.
        after.own > self.own + growth || after.descriptors > self.descriptors + 1 || after.threads > self.threads
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Needs { resident, own, descriptors, threads } = self;
        let [resident, own] = [resident, own].map(|memory| *memory as f64 / 1024.0);
        write!(f, "{resident:.1} MB ({own:.1} MB without files), {descriptors} descriptors, {threads} threads")
    }
}
