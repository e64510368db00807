//! The number of plugins that can be talked to at the same time: each of them needs some of this process's file descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The descriptors that a plugin takes while it is started: the ends of its pipes, and what tells of its end.
const PER_PLUGIN: u64 = 12;
/// Those that are needed for everything else.
const RESERVE: u64 = 64;

/// Makes room for so many plugins, if the system lets us; how many there is room for, at least one.
///
/// The limit is raised no further than needed, as programs that are called inherit it: some close every descriptor that there may be.
pub(crate) fn make_room(plugins: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let count = u64::try_from(plugins).unwrap_or(u64::MAX);
    let needed = count.saturating_mul(PER_PLUGIN).saturating_add(RESERVE);
    let raised = maximum.map_or(needed, |maximum| needed.min(maximum));
    let limit = match current {
        None => return plugins.max(1),
        Some(current) if current >= raised => current,
        Some(current) => match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }) {
            Ok(()) => raised,
            Err(_) => current,
        },
    };
    let room = limit.saturating_sub(RESERVE) / PER_PLUGIN;
    usize::try_from(room).unwrap_or(usize::MAX).clamp(1, plugins.max(1))
}
