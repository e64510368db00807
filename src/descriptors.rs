//! Limits the number of plugins that are queried concurrently by the number of available file descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The number of descriptors that a plugin takes while it starts: its pipes, and the notification of its exit.
const PER_PLUGIN: u64 = 12;
/// The number of descriptors reserved for everything else.
const RESERVE: u64 = 64;

/// Raises the limit of open files for this number of plugins, as far as the system allows. Returns the number of
/// plugins that fit, at least 1.
///
/// The limit is raised no further than needed because child processes inherit it, and some of them close every
/// descriptor up to the limit.
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
