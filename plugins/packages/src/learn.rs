//! Asks the package manager what there is and what could be, and decides what has to be done.

use crate::declaration::Wanted;
use crate::model::{Installed, Key, Offers};
use crate::provider::Provider;
use crate::resolve::{Knowledge, Resolved, needs_offers, resolve};
use crate::system::{Problem, System};
use holo_plugin::Output;
use std::collections::BTreeMap;
use std::fs;

/// A package that is wanted, and whether a person has decided already.
#[derive(Clone, Copy)]
pub(crate) struct Wish<'w> {
    pub(crate) wanted: &'w Wanted,
    pub(crate) force: bool,
}

/// The installed packages, and the action that each wish needs.
pub(crate) struct Learned {
    pub(crate) installed: Installed,
    pub(crate) resolved: Vec<Resolved>,
    /// The reason why the index could not be fetched anew.
    pub(crate) refresh_problem: Option<Problem>,
}

/// Returns the installed packages.
pub(crate) fn installed(provider: &dyn Provider, system: &System<'_>) -> Result<Installed, Problem> {
    system.mock.as_ref().map_or_else(|| provider.installed(system), |mock| Ok(mock.installed()))
}

/// Returns true if the index was fetched anew in this run.
pub(crate) fn has_refreshed(provider: &dyn Provider, system: &System<'_>) -> bool {
    marker(provider, system).exists()
}

fn marker(provider: &dyn Provider, system: &System<'_>) -> std::path::PathBuf {
    system.cache_dir().join(format!("refreshed-{}", provider.name()))
}

/// Finds out what has to be done. If something is not known, the index is fetched anew, once a run.
pub(crate) fn learn(
    provider: &dyn Provider,
    system: &System<'_>,
    wishes: &[Wish<'_>],
    output: &mut Output<'_>,
) -> Result<Learned, Problem> {
    let installed = installed(provider, system)?;
    let keys: Vec<&Key> = wishes
        .iter()
        .map(|wish| wish.wanted)
        .filter(|wanted| provider.validate(&wanted.key).is_ok() && needs_offers(wanted, provider, &installed))
        .map(|wanted| &wanted.key)
        .collect();
    let ask =
        || if keys.is_empty() || system.mock.is_some() { Ok(BTreeMap::new()) } else { provider.offers(system, &keys) };
    let decide = |offers: &BTreeMap<Key, Offers>| -> Vec<Resolved> {
        let known = |wish: &Wish<'_>| Knowledge {
            provider,
            installed: &installed,
            offers: offers.get(&wish.wanted.key),
            is_mock: system.mock.is_some(),
            force: wish.force,
        };
        wishes.iter().enumerate().map(|(place, wish)| resolve(place, wish.wanted, &known(wish))).collect()
    };
    let offers = ask();
    let is_settled = |resolved: &[Resolved]| !resolved.iter().any(|resolved| matches!(resolved, Resolved::Unknown(_)));
    let may_refresh = !system.only_looks && !has_refreshed(provider, system);
    let resolved = match &offers {
        Ok(offers) => decide(offers),
        // Without an index it is not known which versions are offered.
        Err(_) if may_refresh || system.only_looks => decide(&BTreeMap::new()),
        Err(problem) => return Err(problem.clone()),
    };
    let is_stale = offers.is_err() || !is_settled(&resolved);
    if !is_stale || !may_refresh {
        return Ok(Learned { installed, resolved, refresh_problem: None });
    }
    let refreshed = provider.refresh(system).and_then(|mut program| system.fetch(&mut program, provider, output));
    let refresh_problem = refreshed.err();
    // A marker that cannot be left costs another refresh.
    let _ = fs::create_dir_all(system.cache_dir()).and_then(|()| fs::write(marker(provider, system), ""));
    let offers = ask()?;
    let resolved = decide(&offers);
    Ok(Learned { installed, resolved, refresh_problem })
}
