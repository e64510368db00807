//! Generates definitions of existing units.

use crate::definition::Service;
use crate::providers::{self, ManagerError, Notice, Noticed, Subject};
use crate::record::Record;
use crate::state::{Aspects, Enablement, Load, Phase, UnitState};
use crate::unit::{Scope, UnitName, UnitNameError, is_user_name};
use bstr::{BString, ByteSlice};
use holo_plugin::definitions::Definition;
use holo_plugin::definitions::values::quoted;
use holo_plugin::system::Root;
use holo_plugin::{Adopted, Adoption, Candidate, Host, Output};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The prefix of the IDs of files.
const FILE: &str = "file:";

/// A cache of unit states. It is valid because nothing changes units during an adoption.
#[derive(Debug, Default)]
pub(crate) struct UnitStates(Mutex<BTreeMap<UnitName, Result<UnitState, ManagerError>>>);

impl UnitStates {
    /// Queries the states of all these units at once.
    fn ask(&self, host: &Host, units: &[UnitName]) -> Result<(), ManagerError> {
        let record = Record::default();
        let aspects = Aspects { enablement: true, loading: true, ..Aspects::default() };
        let subjects: Vec<Subject<'_>> = units.iter().map(|unit| Subject { unit, record: &record, aspects }).collect();
        let states = providers::for_host(host).manager(host).states(&subjects)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(units.iter().cloned().zip(states));
        Ok(())
    }

    fn state(&self, host: &Host, unit: &UnitName) -> Result<UnitState, ManagerError> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner).get(unit).cloned();
        if known().is_none() {
            self.ask(host, std::slice::from_ref(unit))?;
        }
        known().unwrap_or_else(|| Ok(UnitState::default()))
    }

    /// Clears the cache before the states change.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Lists units whose enablement was changed by an administrator and that are not defined, ordered by name.
pub(crate) fn candidates(
    host: &Host,
    known: &UnitStates,
    defined: &BTreeSet<UnitName>,
) -> Result<Vec<Candidate>, ManagerError> {
    let provider = providers::for_host(host);
    let mut noticed = provider.noticed(host)?;
    noticed.retain(|noticed| !defined.contains(&noticed.unit));
    if noticed.is_empty() {
        return Ok(Vec::new());
    }
    known.ask(host, &noticed.iter().map(|noticed| noticed.unit.clone()).collect::<Vec<_>>())?;
    // A unit that is enabled by its package is listed only if it runs.
    noticed.retain(|noticed| {
        noticed.notice != Notice::EnabledAsUsual || known.state(host, &noticed.unit).is_ok_and(|state| runs(&state))
    });
    let files: Vec<PathBuf> = noticed.iter().filter_map(|noticed| noticed.file.clone()).collect();
    let owners = host.system().packaged_files(&files);
    let candidate = |noticed: Noticed| {
        let candidate = Candidate::new(
            format!("{}:{}", Service::TABLE, noticed.unit.scope().qualify(provider.short_name(&noticed.unit))),
            noticed.notice.reason(),
        );
        let owner = noticed.file.and_then(|file| owners.get(&file));
        let candidate = owner.map_or(candidate.clone(), |owner| candidate.in_group(owner.package.as_str()));
        if noticed.notice == Notice::EnabledAsUsual { candidate.as_companion() } else { candidate }
    };
    Ok(noticed.into_iter().map(candidate).collect())
}

/// Writes the definition of an existing unit.
pub(crate) fn adopt(host: &Host, known: &UnitStates, adoption: Adoption<'_>, output: &mut Output<'_>) -> Adopted {
    let id = adoption.id.to_string();
    let Some(name) = id.strip_prefix(Service::TABLE).and_then(|rest| rest.strip_prefix(':')) else {
        return Adopted::Unknown;
    };
    match describe(host, known, name) {
        // A definition of an alias would be a second entity for the same unit.
        Ok(Described { id: main, .. }) if main != id => Adopted::Entity(main.into()),
        Ok(Described { unit, definition, unusual, .. }) => {
            if let Some(unusual) = unusual {
                output.warning(format!("{unit} {unusual}, which its definition cannot reproduce on another system"));
            }
            Adopted::Done { definition: definition + &subscription(adoption.with) }
        }
        Err(error) => {
            output.error(error.to_string());
            Adopted::Failed
        }
    }
}

/// Why a unit cannot be adopted.
#[derive(Debug, thiserror::Error)]
enum AdoptionError {
    #[error(transparent)]
    Name(#[from] UnitNameError),
    #[error("{unit}: {error}")]
    Manager { unit: UnitName, error: ManagerError },
    #[error("{0} does not exist")]
    Missing(UnitName),
    #[error("{0:?} is not the name of a unit")]
    Unknown(String),
}

/// A unit and its definition.
struct Described {
    id: String,
    unit: UnitName,
    definition: String,
    /// The part of its state that a definition cannot express, as a predicate.
    unusual: Option<&'static str>,
}

fn describe(host: &Host, known: &UnitStates, name: &str) -> Result<Described, AdoptionError> {
    let provider = providers::for_host(host);
    let (scope, name) = Scope::split(name);
    if scope.user().is_some_and(|user| !is_user_name(user)) || (!scope.is_system() && !provider.has_users()) {
        return Err(AdoptionError::Unknown(scope.qualify(name)));
    }
    let unit = provider.main_name(&Root::new(host.root()), &provider.unit_name(name)?.in_scope(scope));
    let state = known.state(host, &unit).map_err(|error| AdoptionError::Manager { unit: unit.clone(), error })?;
    let short_name = provider.short_name(&unit);
    // States that are only imagined in test mode do not count as existing.
    match definition(short_name, unit.scope(), &state).filter(|_| !state.is_imagined) {
        Some(definition) => {
            let id = format!("{}:{}", Service::TABLE, unit.scope().qualify(short_name));
            Ok(Described { id, definition, unusual: unusual(&state), unit })
        }
        None => Err(AdoptionError::Missing(unit)),
    }
}

/// Returns the line that makes the unit restart after a change of one of its files among `others`.
fn subscription(others: &[BString]) -> String {
    let files = others.iter().filter_map(|id| id.to_str().ok()).filter(|id| id.starts_with(FILE));
    let files: Vec<String> = files.map(quoted).collect();
    if files.is_empty() { String::new() } else { format!("subscribes = [{}]\n", files.join(", ")) }
}

/// Returns the definition of a unit in its current state, or `None` if the unit does not exist.
fn definition(name: &str, scope: &Scope, state: &UnitState) -> Option<String> {
    let is_there = state.load != Load::Missing || state.enablement.is_masked();
    let mut text = format!("[[{}]]\nname = {}\n", Service::TABLE, quoted(name));
    if !scope.is_system() {
        text += "scope = \"user\"\n";
    }
    if let Some(user) = scope.user() {
        text += &format!("user = {}\n", quoted(user));
    }
    if let Some(ensure) = ensure(scope, state) {
        text += &format!("ensure = \"{ensure}\"\n");
    }
    match state.enablement {
        Enablement::Masked => text += "mask = true\n",
        Enablement::Enabled => {
            text += "enable = true\n";
            if !state.runlevels.is_empty() {
                let levels: Vec<String> = state.runlevels.iter().map(|level| quoted(level)).collect();
                text += &format!("runlevels = [{}]\n", levels.join(", "));
            }
        }
        Enablement::Disabled => text += "enable = false\n",
        _ => {}
    }
    is_there.then_some(text)
}

/// Returns the value of `ensure`, or `None` for the default of the definition. A unit that is changing its state, or that runs although it is
/// masked, is unmanaged.
fn ensure(scope: &Scope, state: &UnitState) -> Option<&'static str> {
    let is_masked = state.enablement == Enablement::Masked;
    match state.phase {
        // Units of all users are always unmanaged.
        _ if *scope == Scope::AllUsers => None,
        Some(phase) if phase.is_down() && is_masked => None,
        None if is_masked => None,
        Some(Phase::Up) if !is_masked => None,
        Some(Phase::Down) if state.has_run => None,
        Some(phase) if phase.is_down() => Some("stopped"),
        // Without a running manager, the intended state is unknown.
        _ => Some("unmanaged"),
    }
}

/// Returns the part of the state of a unit that a definition cannot express, as a predicate.
fn unusual(state: &UnitState) -> Option<&'static str> {
    let is_down = state.phase.is_none_or(Phase::is_down);
    match (state.enablement, state.phase) {
        (Enablement::Masked, _) if !is_down => Some("is masked, but runs"),
        (Enablement::MaskedForNow, _) => Some("is masked until the next boot"),
        (Enablement::EnabledForNow, _) => Some("is enabled until the next boot"),
        (_, Some(Phase::Coming)) => Some("is being started"),
        (_, Some(Phase::Going)) => Some("is being stopped"),
        (_, Some(Phase::Restarting)) => Some("has failed, and is going to be started again"),
        _ => None,
    }
}

/// Returns true if a unit runs or has run. Without a running manager, an enabled unit counts as running.
fn runs(state: &UnitState) -> bool {
    match state.phase {
        Some(phase) => phase.is_up() || phase == Phase::Restarting || (phase == Phase::Down && state.has_run),
        None => state.enablement == Enablement::Enabled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Circumstances, plan};

    fn state(phase: Option<Phase>, enablement: Enablement) -> UnitState {
        UnitState { phase, load: Load::Loaded, enablement, ..UnitState::default() }
    }

    fn unit(name: &str) -> UnitName {
        UnitName::from_whole(name.to_owned())
    }

    fn text(name: &str, state: &UnitState) -> String {
        definition(name, &Scope::System, state).unwrap()
    }

    #[track_caller]
    fn read(text: &str) -> Service {
        #[derive(serde::Deserialize)]
        struct File {
            service: Vec<Service>,
        }
        let service = toml::from_str::<File>(text).unwrap().service.remove(0);
        service.validate().unwrap();
        service
    }

    #[track_caller]
    fn described(name: &str, state: &UnitState, expected: &str) {
        let text = text(providers::ALL.first().unwrap().short_name(&unit(name)), state);
        assert_eq!(text, format!("[[service]]\n{expected}"));
        let plan = plan(&unit(name), &read(&text).wanted(), state, Circumstances::default());
        assert!(plan.steps.is_empty(), "{plan:?}");
        assert!(plan.problems.is_empty(), "{plan:?}");
    }

    #[test]
    fn a_definition_changes_nothing() {
        let up = Some(Phase::Up);
        described("nginx.service", &state(up, Enablement::Enabled), "name = \"nginx\"\nenable = true\n");
        described("cups.service", &state(Some(Phase::Down), Enablement::Masked), "name = \"cups\"\nmask = true\n");
        let down = state(Some(Phase::Down), Enablement::Disabled);
        described("a.timer", &down, "name = \"a.timer\"\nensure = \"stopped\"\nenable = false\n");
        let failed = state(Some(Phase::Failed), Enablement::Enabled);
        described("b.service", &failed, "name = \"b\"\nensure = \"stopped\"\nenable = true\n");
        described("c.socket", &state(up, Enablement::Never("is static")), "name = \"c.socket\"\n");
        let ran = UnitState { has_run: true, ..state(Some(Phase::Down), Enablement::Enabled) };
        described("once.service", &ran, "name = \"once\"\nenable = true\n");
        described("now.service", &state(up, Enablement::EnabledForNow), "name = \"now\"\n");
        described(
            r"dev-a\x2db.swap",
            &state(up, Enablement::Enabled),
            "name = \"dev-a\\\\x2db.swap\"\nenable = true\n",
        );
        let levels = ["boot", "default"].map(str::to_owned).into();
        let in_levels = UnitState { runlevels: levels, ..state(up, Enablement::Enabled) };
        described("net.lo", &in_levels, "name = \"net.lo\"\nenable = true\nrunlevels = [\"boot\", \"default\"]\n");
        let image = state(None, Enablement::Enabled);
        described("image", &image, "name = \"image\"\nensure = \"unmanaged\"\nenable = true\n");
        let disabled = state(None, Enablement::Disabled);
        described("other", &disabled, "name = \"other\"\nensure = \"unmanaged\"\nenable = false\n");
    }

    #[test]
    fn units_are_left_as_they_are_in_every_state() {
        let phases = [Phase::Up, Phase::Coming, Phase::Going, Phase::Down, Phase::Failed, Phase::Restarting].map(Some);
        let enablements = [
            Enablement::Enabled,
            Enablement::EnabledForNow,
            Enablement::EnabledForAll,
            Enablement::Disabled,
            Enablement::Linked,
            Enablement::Masked,
            Enablement::MaskedForNow,
            Enablement::Never("is static"),
            Enablement::None,
        ];
        for phase in phases.into_iter().chain([None]) {
            for enablement in enablements {
                for has_run in [false, true] {
                    let load = if enablement.is_masked() { Load::Masked } else { Load::Loaded };
                    let state = UnitState { has_run, load, ..state(phase, enablement) };
                    let plan =
                        plan(&unit("x.service"), &read(&text("x", &state)).wanted(), &state, Circumstances::default());
                    assert!(plan.steps.is_empty() && plan.problems.is_empty(), "{state:?}: {plan:?}");
                }
            }
        }
    }

    #[test]
    fn state_that_cannot_be_asked_for_is_noted() {
        let (masked, up) = (Enablement::Masked, Some(Phase::Up));
        assert_eq!(text("x", &state(up, masked)), "[[service]]\nname = \"x\"\nensure = \"unmanaged\"\nmask = true\n");
        assert_eq!(unusual(&state(up, masked)), Some("is masked, but runs"));
        assert_eq!(unusual(&state(Some(Phase::Down), masked)), None);
        assert_eq!(unusual(&state(up, Enablement::MaskedForNow)), Some("is masked until the next boot"));
        assert_eq!(unusual(&state(Some(Phase::Failed), Enablement::Enabled)), None);
    }

    #[test]
    fn units_of_users_say_whose_they_are() {
        let state = state(None, Enablement::Enabled);
        let text = |scope: Scope| definition("sync", &scope, &state).unwrap();
        assert_eq!(
            text(Scope::User("alice".to_owned())),
            "[[service]]\nname = \"sync\"\nscope = \"user\"\nuser = \"alice\"\nensure = \"unmanaged\"\nenable = true\n"
        );
        assert_eq!(text(Scope::AllUsers), "[[service]]\nname = \"sync\"\nscope = \"user\"\nenable = true\n");
    }

    #[test]
    fn a_unit_subscribes_to_files_that_are_adopted_with_it() {
        let line = |others: &[&str]| subscription(&others.iter().map(|id| BString::from(*id)).collect::<Vec<_>>());
        assert_eq!(
            line(&["package:nginx", "file:/etc/a.conf", "file:/b\"\\\n[[file]]"]),
            "subscribes = [\"file:/etc/a.conf\", \"file:/b\\\"\\\\\\u000A[[file]]\"]\n"
        );
        assert_eq!(line(&["package:nginx"]), "");
    }

    #[test]
    fn what_does_not_exist_has_none() {
        assert_eq!(definition("x", &Scope::System, &UnitState::default()), None);
    }
}
