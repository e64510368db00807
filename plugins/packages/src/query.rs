//! Queries the package manager for installed and available packages, and decides what to do.

use crate::manager::Manager;
use crate::model::{Installed, Key, Offers, PackageError};
use crate::resolve::{Knowledge, RequestIndex, Resolved, needs_offers, resolve};
use crate::wanted::{Ensure, Wanted};
use holo_plugin::Output;
use holo_plugin::definitions::did_you_mean;
use holo_plugin::index::Table;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A requested package, and whether the user forces it.
#[derive(Clone, Copy)]
pub(crate) struct Request<'w> {
    pub(crate) wanted: &'w Wanted,
    pub(crate) force: bool,
}

/// Requests that are resolved together.
pub(crate) type Requests<'w> = Table<RequestIndex, Request<'w>>;

/// The installed packages, and the result for each request.
pub(crate) struct Resolution {
    pub(crate) installed: Installed,
    pub(crate) resolved: Table<RequestIndex, Resolved>,
    /// The reason why the index could not be refreshed.
    pub(crate) refresh_problem: Option<PackageError>,
}

/// Returns true if the index is older than the limit of a package whose version it decides.
fn is_old(manager: &Manager<'_>, requests: &Requests<'_>, installed: &Installed) -> bool {
    let wanted = requests.iter().map(|request| request.wanted);
    let limits = wanted.filter(|wanted| needs_offers(wanted, manager.provider, installed));
    let limit = limits.filter_map(|wanted| wanted.refresh).min();
    limit.is_some_and(|limit| manager.index_age().is_none_or(|age| age > limit))
}

/// Resolves requests. If a package or version is unknown, refreshes the index, at most once per run.
pub(crate) fn query(
    manager: &Manager<'_>,
    requests: &Requests<'_>,
    output: &mut Output<'_>,
) -> Result<Resolution, PackageError> {
    let Manager { provider, system } = manager;
    let installed = manager.installed()?;
    let keys: Vec<&Key> = requests
        .iter()
        .map(|request| request.wanted)
        .filter(|wanted| wanted.file.is_none() && wanted.problem.is_none())
        .filter(|wanted| provider.validate(&wanted.key).is_ok() && needs_offers(wanted, *provider, &installed))
        .map(|wanted| &wanted.key)
        .collect();
    let ask =
        || if keys.is_empty() || system.mock.is_some() { Ok(BTreeMap::new()) } else { provider.offers(system, &keys) };
    let in_file = |request: &Request<'_>| Some((request.wanted.id.clone(), request.wanted.file.as_ref()?.offers()));
    let in_files: BTreeMap<String, Offers> = requests.iter().filter_map(in_file).collect();
    let decide = |offers: &BTreeMap<Key, Offers>| -> Table<RequestIndex, Resolved> {
        let known = |request: &Request<'_>| Knowledge {
            provider: *provider,
            installed: &installed,
            offers: offers.get(&request.wanted.key).or(in_files.get(&request.wanted.id)),
            is_mock: system.mock.is_some(),
            force: request.force,
        };
        requests.entries().map(|(index, request)| resolve(index, request.wanted, &known(request))).collect()
    };
    let may_refresh = !system.only_looks && !manager.has_refreshed();
    let is_old = system.mock.is_none() && is_old(manager, requests, &installed);
    let mut refresh_problem = None;
    if is_old && may_refresh {
        refresh_problem = manager.refresh(output).err();
    }
    let may_refresh = may_refresh && !is_old;
    let offers = ask();
    let is_settled =
        |resolved: &Table<_, Resolved>| !resolved.iter().any(|resolved| matches!(resolved, Resolved::Unknown(_)));
    let resolved = match &offers {
        Ok(offers) => decide(offers),
        // Without an index, no versions are available.
        Err(_) if may_refresh || system.only_looks => decide(&BTreeMap::new()),
        Err(problem) => return Err(problem.clone()),
    };
    let is_stale = offers.is_err() || !is_settled(&resolved);
    if !is_stale || !may_refresh {
        return Ok(Resolution { installed, resolved, refresh_problem });
    }
    let refresh_problem = manager.refresh(output).err();
    let offers = ask()?;
    let resolved = decide(&offers);
    Ok(Resolution { installed, resolved, refresh_problem })
}

/// The age up to which an index is assumed to contain every existing name.
const FRESH: Duration = Duration::from_secs(60 * 60);

impl Manager<'_> {
    /// Records that the index was refreshed.
    pub(crate) fn note_index(&self) {
        let stamp = self.stamp();
        // Without the stamp, the index is refreshed once more than necessary.
        let _ = stamp.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(stamp, ""));
    }

    fn stamp(&self) -> PathBuf {
        self.system.host().state_dir().join("index").join(self.provider.name())
    }

    /// Returns the age of the index, or `None` if there is no index or its sources have changed since.
    pub(crate) fn index_age(&self) -> Option<Duration> {
        let made = self
            .provider
            .index_files()
            .iter()
            .map(|path| self.system.path(path))
            .filter(|path| has_index(path))
            .filter_map(|path| time(path.as_path()))
            .chain(time(&self.stamp()))
            .max()?;
        let sources = self.provider.manager().sources.iter().filter_map(|path| newest(&self.system.path(path))).max();
        let is_outdated = sources.is_some_and(|changed| changed > made);
        // A time in the future counts as now.
        (!is_outdated).then(|| made.elapsed().unwrap_or_default())
    }

    /// Returns true if an apply would first fetch the index again, to look for a newer version of the package.
    pub(crate) fn needs_index(&self, wanted: &Wanted, has_pending_sources: bool) -> bool {
        let is_old = |limit| has_pending_sources || self.index_age().is_none_or(|age| age > limit);
        self.system.mock.is_none() && wanted.ensure == Ensure::Latest && wanted.refresh.is_some_and(is_old)
    }

    /// Returns true if the index is fresh enough to conclude that a name missing in it does not exist.
    pub(crate) fn has_fresh_index(&self, limit: Option<Duration>) -> bool {
        self.has_refreshed() || self.index_age().is_some_and(|age| age <= limit.unwrap_or(FRESH))
    }

    /// Returns a question whether a similarly named package was meant.
    pub(crate) fn hint(&self, key: &Key) -> Option<String> {
        let names = self.provider.names(&self.system).ok()?;
        did_you_mean(&key.name, names.iter().map(String::as_str))
    }
}

fn time(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// Returns true for an index, or a directory with one. On a machine that was just made, or whose lists were removed to save
/// space, the directory is there, with nothing but what apt needs to fill it.
fn has_index(path: &Path) -> bool {
    let is_part = |name: &OsStr| !["lock", "partial", "auxfiles"].iter().any(|other| name == *other);
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().any(|entry| is_part(&entry.file_name())),
        Err(_) => path.is_file(),
    }
}

/// Returns the modification time of a file, or the latest one of a directory and its entries.
fn newest(path: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter_map(|entry| time(&entry.path())).chain(time(path)).max()
}
