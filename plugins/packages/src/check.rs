//! Check: what an apply of each package would do, determined for all of them at once.

use crate::action::Action;
use crate::manager::Manager;
use crate::model::{Kind, PackageError, Step};
use crate::providers::PackageProvider;
use crate::query::{Request, Requests, query};
use crate::repositories;
use crate::resolve::{OfferError, RequestIndex, Resolved, Task};
use crate::simulate::{Given, Names, ORDER, SimulationError, Simulator, parts};
use crate::source::Sources;
use crate::wanted::{Wanted, installed_version};
use holo_plugin::{ForceTo, Host, Output, Verdict};
use std::collections::BTreeMap;

/// The effect of applying a package.
#[derive(Clone, Debug)]
pub(crate) enum Finding {
    /// The verdict is known.
    Verdict(Verdict),
    /// This task would be carried out.
    Pending(Box<Task>),
    /// The apply would fail.
    Failed(PackageError),
}

/// The result of checking a package.
#[derive(Clone, Debug)]
pub(crate) struct CheckResult {
    pub(crate) finding: Finding,
    /// The installed version.
    pub(crate) version: Option<String>,
}

/// Checks packages of one package manager. Returns the results by ID.
pub(crate) fn check_all(
    host: &Host,
    provider: &'static dyn PackageProvider,
    wanted: &[&Wanted],
    names: &Names,
    has_pending_sources: bool,
    output: &mut Output<'_>,
) -> BTreeMap<String, CheckResult> {
    match findings(host, provider, wanted, names, has_pending_sources, output) {
        Ok(findings) => wanted.iter().map(|wanted| wanted.id.clone()).zip(findings).collect(),
        Err(problem) => {
            let found = || CheckResult { finding: Finding::Failed(problem.clone()), version: None };
            wanted.iter().map(|wanted| (wanted.id.clone(), found())).collect()
        }
    }
}

fn findings(
    host: &Host,
    provider: &'static dyn PackageProvider,
    wanted: &[&Wanted],
    names: &Names,
    has_pending_sources: bool,
    output: &mut Output<'_>,
) -> Result<Vec<CheckResult>, PackageError> {
    let mut manager = Manager::new(host, provider)?;
    manager.system.only_looks = true;
    let mut source = Sources::open(&manager)?;
    let wanted: Vec<Wanted> = wanted.iter().map(|wanted| source.with_file(wanted, output)).collect();
    let requests: Requests<'_> = wanted.iter().map(|wanted| Request { wanted, force: false }).collect();
    let resolution = query(&manager, &requests, output)?;
    let tasks: Vec<&Task> = resolution.resolved.iter().filter_map(as_task).collect();
    let given = Given::default();
    let simulator = Simulator { manager: &manager, installed: &resolution.installed, names, given };
    let mut refusals = refusals(simulator, provider, &tasks);
    if refusals.values().any(|refusal| matches!(refusal, SimulationError::Failed(_))) {
        let simulator =
            Simulator { manager: &manager, installed: &resolution.installed, names, given: Given::default() };
        repaired_first(&simulator, &tasks, &mut refusals, output);
    }
    let is_open = |wanted: &Wanted| manager.needs_index(wanted, has_pending_sources);
    let fetches = |index: RequestIndex| {
        let wanted = requests[index].wanted;
        wanted.fetches.as_ref().map(|address| format!("would fetch {address}, and install {}", wanted.key))
    };
    let find = |(index, resolved): (RequestIndex, Resolved)| match (resolved, refusals.remove(&index)) {
        (_, Some(SimulationError::NeedsForce(reason))) => {
            Finding::Verdict(Verdict::NeedsForce(ForceTo::Proceed(reason)))
        }
        (_, Some(SimulationError::Needed(by))) => {
            let action = Action::leave(&requests[index].wanted.key.to_string(), &by);
            Finding::Verdict(Verdict::WouldChange(vec![action.would()]))
        }
        (_, Some(SimulationError::Failed(problem))) => Finding::Failed(problem),
        (Resolved::Nothing | Resolved::Forgotten(_), _) if requests[index].wanted.is_orphan => {
            Finding::Verdict(Verdict::WouldChange(Vec::new()))
        }
        // An apply would look for a newer version in a refreshed index.
        (Resolved::Nothing, _) if is_open(requests[index].wanted) => Finding::Verdict(Verdict::Unknown),
        (Resolved::Nothing | Resolved::Forgotten(_), _) => Finding::Verdict(Verdict::InDesiredState),
        (Resolved::Task(task), _) => Finding::Pending(Box::new(task)),
        (Resolved::NeedsForce(reason), _) => Finding::Verdict(Verdict::NeedsForce(ForceTo::Proceed(reason))),
        (Resolved::Impossible(problem), _) => match fetches(index) {
            Some(what) => Finding::Verdict(Verdict::WouldChange(vec![what])),
            None => Finding::Failed(PackageError::new(problem)),
        },
        (Resolved::Unknown(error), _)
            if !has_pending_sources && manager.has_fresh_index(requests[index].wanted.refresh) =>
        {
            Finding::Failed(PackageError::new(unknown(&manager, &error)))
        }
        (Resolved::Unknown(_), _) => {
            let what = format!("would fetch the index of packages, and install {}", requests[index].wanted.key);
            Finding::Verdict(Verdict::WouldChange(vec![what]))
        }
    };
    let version = |index: RequestIndex| installed_version(&resolution.installed, &requests[index].wanted.key, provider);
    let versions = resolution.resolved.indexes().map(|index| version(index).map(str::to_owned));
    let versions: Vec<Option<String>> = versions.collect();
    let findings = resolution.resolved.indexes().zip(resolution.resolved).map(find);
    Ok(findings.zip(versions).map(|(finding, version)| CheckResult { finding, version }).collect())
}

/// Returns the tasks that an apply would refuse. Each transaction is simulated as if the ones before it had been carried out.
fn refusals<'t>(
    mut simulator: Simulator<'t>,
    provider: &dyn PackageProvider,
    tasks: &[&'t Task],
) -> BTreeMap<RequestIndex, SimulationError> {
    let mut refusals = BTreeMap::new();
    let mut admit = |kind: Kind, tasks: &[&'t Task], refusals: &mut BTreeMap<RequestIndex, SimulationError>| {
        let left: Vec<&'t Task> = tasks.iter().copied().filter(|task| !simulator.given.has_removed(task)).collect();
        for part in parts(&left) {
            let mut admission = simulator.admit(kind, &part);
            refusals.extend(std::mem::take(&mut admission.refused).into_iter().map(|(task, why)| (task.request, why)));
            simulator.given.add(admission);
        }
    };
    for kind in ORDER {
        let of_kind = tasks.iter().copied().filter(|task| task.kind == Some(kind));
        // The transaction of a held package cannot be simulated before the hold is released.
        let of_kind: Vec<&Task> = of_kind.filter(|task| !(task.is_held && provider.releases_first())).collect();
        admit(kind, &of_kind, &mut refusals);
    }
    // Packages to be removed may be the reason why others cannot be installed.
    let any_goes = tasks.iter().any(|task| matches!(task.kind, Some(Kind::Remove | Kind::Purge)));
    let is_kept_out = |task: &&'t Task| task.kind == Some(Kind::Install) && refusals.contains_key(&task.request);
    let kept_out: Vec<&'t Task> = tasks.iter().copied().filter(is_kept_out).collect();
    if any_goes {
        kept_out.iter().for_each(|task| drop(refusals.remove(&task.request)));
        admit(Kind::Install, &kept_out, &mut refusals);
    }
    refusals
}

/// Replaces the refusals of a package manager that has to be repaired first: by none, as the apply would begin with the repair, or by the
/// reason why it cannot.
fn repaired_first(
    simulator: &Simulator<'_>,
    tasks: &[&Task],
    refusals: &mut BTreeMap<RequestIndex, SimulationError>,
    output: &mut Output<'_>,
) {
    let Manager { provider, system } = simulator.manager;
    let repairs = provider.interrupted(system).map_err(SimulationError::from);
    let problem = match repairs.map(|repairs| repairs.into_iter().find(|repair| !repair.steps.is_empty())) {
        Ok(None) => return,
        Ok(Some(repair)) => {
            let allowed = simulator.allow_repair(&repair, false);
            if allowed.is_ok() {
                let message = format!("{} is needed first", repair.command);
                output.warning(repair.with_actions(&message, Action::would));
            }
            allowed.err()
        }
        Err(problem) => Some(problem),
    };
    refusals.clear();
    let of = |(number, task): (usize, &&Task)| {
        let refusal = match problem.clone()? {
            SimulationError::Failed(problem) if number > 0 => SimulationError::Failed(problem.for_others()),
            refusal => refusal,
        };
        Some((task.request, refusal))
    };
    refusals.extend(tasks.iter().enumerate().filter_map(of));
}

/// Returns the message for a package that no repository offers.
pub(crate) fn unknown(manager: &Manager<'_>, error: &OfferError) -> String {
    let failed = repositories::failed(manager.system.cache_dir(), manager.provider);
    if !failed.is_empty() {
        return format!("{error}; it may be in {}, which failed", failed.join(", "));
    }
    let OfferError::Package { key, .. } = error else { return error.to_string() };
    let providers = manager.provider.provided_by(&manager.system, &key.name).unwrap_or_default();
    if !providers.is_empty() {
        return format!("{error}; it is provided by {}", Vec::from_iter(providers).join(", "));
    }
    manager.hint(key).map_or_else(|| error.to_string(), |hint| format!("{error}, {hint}"))
}

fn as_task(resolved: &Resolved) -> Option<&Task> {
    if let Resolved::Task(task) = resolved { Some(task) } else { None }
}

/// Returns the changes that a task would make. `with_others` adds the packages that come along, which takes a simulation.
pub(crate) fn changes(
    host: &Host,
    provider: &'static dyn PackageProvider,
    names: &Names,
    task: &Task,
    with_others: bool,
) -> Vec<String> {
    let mut changes: Vec<String> = task.actions.iter().map(Action::would).collect();
    if let Some(first) = changes.first_mut()
        && with_others
        && let Some(kind) = task.kind
    {
        // Ignored here, because the apply will report the error.
        first.push_str(&others(host, provider, names, kind, task).unwrap_or_default());
    }
    changes
}

/// Describes the effects of a task on other packages.
fn others(
    host: &Host,
    provider: &'static dyn PackageProvider,
    names: &Names,
    kind: Kind,
    task: &Task,
) -> Result<String, PackageError> {
    let mut manager = Manager::new(host, provider)?;
    manager.system.only_looks = true;
    let installed = manager.installed()?;
    let simulator = Simulator { manager: &manager, installed: &installed, names, given: Given::default() };
    if kind != Kind::Install {
        let names: Vec<String> = simulator.companions(kind, &[task]).iter().map(|item| item.key.to_string()).collect();
        return Ok(if names.is_empty() { String::new() } else { format!(" with {}", names.join(", ")) });
    }
    let effects = simulator.effects(Kind::Install, &[task]);
    let steps = effects.map_err(|error| PackageError::new(format!("{error:?}")))?.steps;
    let listed = |steps: Vec<&Step>, words: &str| {
        let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        if names.is_empty() { String::new() } else { format!("{words}{}", names.join(", ")) }
    };
    let (new, changed): (Vec<&Step>, Vec<&Step>) =
        steps.iter().filter(|step| step.to.is_some()).partition(|step| step.from.is_none());
    Ok(listed(new, " with ") + &listed(changed, ", changing "))
}
