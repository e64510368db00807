//! The plan for a unit: the steps from its current to its desired state.

use crate::state::{Aspects, Enablement, Load, Phase, UnitState};
use crate::unit::UnitName;
use std::collections::BTreeSet;

/// The desired state of a unit's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ensure {
    Running,
    Stopped,
}

/// The desired state of a unit. Fields without a value are not changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) ensure: Option<Ensure>,
    pub(crate) enable: Option<bool>,
    /// The runlevels in which it is enabled; empty if any will do.
    pub(crate) runlevels: BTreeSet<String>,
    pub(crate) mask: Option<bool>,
    /// True if a refresh reloads instead of restarting.
    pub(crate) reload: bool,
    /// True if the unit is an orphan and this is its previous state: if that cannot be restored any more, this is not
    /// an error.
    pub(crate) restores: bool,
}

/// A step for a unit. Steps are done in this order, so that a unit that must stay stopped is not started in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Unmask,
    UnmaskForNow,
    Disable,
    DisableForNow,
    Enable,
    Mask,
    Stop,
    Start,
    Restart,
    Reload,
}

/// The steps to take, and problems that prevent others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// In order.
    pub(crate) steps: Vec<Step>,
    /// Problems, worded to follow the unit's name.
    pub(crate) problems: Vec<String>,
    /// A remark for the user that neither requires action nor is an error.
    pub(crate) remark: Option<String>,
    /// True if the unit must run, and the system does not. Its other steps are taken nevertheless.
    pub(crate) is_deferred: bool,
}

/// The circumstances of a plan.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Circumstances {
    /// The name of the service manager.
    pub(crate) manager: &'static str,
    /// The system is not running.
    pub(crate) is_offline: bool,
    /// An entity that the unit depends on has changed.
    pub(crate) refresh: bool,
    /// A missing unit may still be created by a pending entity, or an obstacle removed.
    pub(crate) may_come: bool,
}

impl Wanted {
    /// Returns the aspects of a unit's state that must be known, if a refresh may be due.
    pub(crate) fn aspects(&self, refresh: bool) -> Aspects {
        let enablement = self.enable.is_some() || self.mask.is_some();
        Aspects { enablement, reloading: self.reload, starting: refresh, time: false, loading: false }
    }
}

impl Step {
    /// All steps in order.
    pub(crate) const ALL: [Step; 10] = [
        Step::Unmask,
        Step::UnmaskForNow,
        Step::Disable,
        Step::DisableForNow,
        Step::Enable,
        Step::Mask,
        Step::Stop,
        Step::Start,
        Step::Restart,
        Step::Reload,
    ];

    /// Returns true if the step only changes files, which is possible without a running service manager.
    pub(crate) fn is_of_files(self) -> bool {
        self < Step::Stop
    }

    /// Returns true if the step makes the unit run.
    pub(crate) fn starts(self) -> bool {
        matches!(self, Step::Start | Step::Restart)
    }

    /// Returns the words for messages; the infinitive follows "cannot ".
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Step::Unmask | Step::UnmaskForNow => ("unmask", "unmasked"),
            Step::Disable | Step::DisableForNow => ("disable", "disabled"),
            Step::Enable => ("enable", "enabled"),
            Step::Mask => ("mask", "masked"),
            Step::Stop => ("stop", "stopped"),
            Step::Start => ("start", "started"),
            Step::Restart => ("restart", "restarted"),
            Step::Reload => ("reload", "reloaded"),
        }
    }

    pub(crate) fn would(self, unit: &UnitName) -> String {
        format!("would {} {unit}", self.words().0)
    }

    pub(crate) fn cannot(self, unit: &UnitName) -> String {
        format!("cannot {} {unit}", self.words().0)
    }

    pub(crate) fn done(self, unit: &UnitName) -> String {
        format!("{} {unit}", self.words().1)
    }
}

/// Plans the steps that bring a unit from its current to its desired state.
pub(crate) fn plan(unit: &UnitName, wanted: &Wanted, state: &UnitState, circumstances: Circumstances) -> Plan {
    let mut planner = Planner { unit, wanted, state, circumstances, plan: Plan::default() };
    if state.load == Load::NoUser && !circumstances.may_come {
        planner.without_user();
        return planner.plan;
    }
    planner.mask();
    if !planner.plan.problems.is_empty() {
        // Do nothing rather than leave it half done.
        return planner.plan;
    }
    planner.enable();
    planner.run();
    planner.plan.steps.sort();
    planner.plan
}

struct Planner<'a> {
    unit: &'a UnitName,
    wanted: &'a Wanted,
    state: &'a UnitState,
    circumstances: Circumstances,
    plan: Plan,
}

impl Planner<'_> {
    fn step(&mut self, step: Step) {
        self.plan.steps.push(step);
    }

    fn problem(&mut self, what: &str) {
        let problem = format!("{} {what}", self.unit);
        if !self.wanted.restores && !self.plan.problems.contains(&problem) {
            self.plan.problems.push(problem);
        }
    }

    /// Handles a user who does not exist: no steps are possible, and the unit already counts as not running.
    fn without_user(&mut self) {
        let wanted = self.wanted;
        if wanted.ensure == Some(Ensure::Running) || [wanted.enable, wanted.mask].contains(&Some(true)) {
            self.problem("belongs to a user that does not exist");
        }
    }

    fn is_missing(&self) -> bool {
        self.state.load == Load::Missing && !self.circumstances.may_come
    }

    fn is_masked(&self) -> bool {
        self.state.load == Load::Masked || self.state.enablement.is_masked()
    }

    /// Returns true if the unit is masked after the file changes.
    fn stays_masked(&self) -> bool {
        self.wanted.mask.unwrap_or_else(|| self.is_masked())
    }

    fn mask(&mut self) {
        match self.wanted.mask {
            Some(true) if self.state.enablement != Enablement::Masked => match &self.state.mask_obstacle {
                Some(file) if !self.circumstances.may_come => {
                    self.problem(&format!("cannot be masked, as {} is in the way", file.display()));
                }
                _ => self.step(Step::Mask),
            },
            Some(false) if self.state.enablement == Enablement::MaskedForNow => self.step(Step::UnmaskForNow),
            Some(false) if self.is_masked() => self.step(Step::Unmask),
            _ => {}
        }
    }

    fn is_in_its_runlevels(&self) -> bool {
        self.wanted.runlevels.is_empty() || self.state.is_imagined || self.wanted.runlevels == self.state.runlevels
    }

    fn enable(&mut self) {
        let enablement = self.state.enablement;
        match self.wanted.enable {
            Some(true) if enablement == Enablement::Enabled && self.is_in_its_runlevels() => {}
            Some(true) if enablement == Enablement::EnabledForAll => {}
            Some(false) if enablement == Enablement::EnabledForAll => {
                self.problem("is enabled for all users, and cannot be disabled for one; mask = true masks it");
            }
            Some(true) if self.is_missing() => self.problem("does not exist"),
            Some(true) if self.stays_masked() => self.problem("is masked, and cannot be enabled"),
            Some(true) => match enablement.why_never() {
                // A unit that is masked or does not exist yet shows only later whether it can be enabled.
                _ if self.is_masked() || self.state.load == Load::Missing => self.step(Step::Enable),
                Some(why) => self.problem(&format!("{why}, and cannot be enabled")),
                None => self.step(Step::Enable),
            },
            Some(false) if enablement == Enablement::Enabled => self.step(Step::Disable),
            Some(false) if enablement == Enablement::EnabledForNow => self.step(Step::DisableForNow),
            _ => {}
        }
    }

    fn run(&mut self) {
        let Some(ensure) = self.wanted.ensure else { return };
        let Some(phase) = self.state.phase else {
            // Without a manager, no unit runs.
            if ensure == Ensure::Stopped {
                return;
            }
            return self.without_manager();
        };
        match ensure {
            Ensure::Stopped if phase.is_down() => {}
            Ensure::Stopped => self.step(Step::Stop),
            Ensure::Running => self.ensure_running(phase),
        }
    }

    /// Handles a unit whose manager does not run: it cannot be started. The manager of a user comes and goes, and
    /// starts enabled units when it starts.
    fn without_manager(&mut self) {
        match self.unit.scope().user() {
            _ if self.circumstances.is_offline => self.plan.is_deferred = !self.wanted.restores,
            None => self.problem(&format!("cannot be started: {} is not running here", self.circumstances.manager)),
            Some(user) if self.wanted.enable == Some(true) => {
                self.plan.remark = Some(format!(
                    "{} is enabled, but not started: the user manager of {user} is not running; it comes with a session or with lingering",
                    self.unit
                ));
            }
            Some(user) => self.problem(&format!(
                "cannot be started: the user manager of {user} is not running; \"loginctl enable-linger {user}\" has it run without a session"
            )),
        }
    }

    fn ensure_running(&mut self, phase: Phase) {
        let runs = phase.is_up() || (phase == Phase::Down && self.state.has_run);
        if runs && !self.circumstances.refresh {
            // Users would want to know this before the next boot.
            if self.state.load == Load::Missing && phase.is_up() {
                self.problem("runs, but its file is gone");
            } else if phase == Phase::Coming {
                // That joins the start in progress, and ends with it.
                self.step(Step::Start);
            }
        } else if self.is_missing() {
            self.problem("does not exist");
        } else if self.stays_masked() {
            self.problem("is masked, and cannot be started; mask = false unmasks it");
        } else if self.state.load == Load::Broken {
            let why = if self.state.load_error.is_empty() { "" } else { ": " };
            let manager = self.circumstances.manager;
            self.problem(&format!("has a file that {manager} cannot use{why}{}", self.state.load_error));
        } else if !runs {
            self.step(Step::Start);
        } else if self.wanted.reload && self.state.can_reload {
            self.step(Step::Reload);
        } else {
            self.step(Step::Restart);
        }
    }
}

#[cfg(test)]
mod tests;
