//! Tests of plans for units.

use super::*;

const NEVER: Enablement = Enablement::Never("is what it is");

fn state(phase: Phase, enablement: Enablement) -> UnitState {
    let load = match enablement {
        Enablement::None => Load::Missing,
        Enablement::Masked | Enablement::MaskedForNow => Load::Masked,
        _ => Load::Loaded,
    };
    UnitState { phase: Some(phase), enablement, load, ..UnitState::default() }
}

fn unit() -> UnitName {
    UnitName::from_whole("x.service".to_owned())
}

fn circumstances() -> Circumstances {
    Circumstances { manager: "the manager", ..Circumstances::default() }
}

fn wanted(ensure: Ensure, enable: Option<bool>, mask: Option<bool>) -> Wanted {
    Wanted { ensure: Some(ensure), enable, mask, ..Wanted::default() }
}

fn planned(wanted: &Wanted, state: &UnitState) -> Plan {
    plan(&unit(), wanted, state, circumstances())
}

#[track_caller]
fn steps(wanted: &Wanted, state: &UnitState, expected: &[Step]) {
    let plan = planned(wanted, state);
    assert_eq!((&plan.steps[..], &plan.problems[..]), (expected, &[][..]));
}

#[track_caller]
fn problem(wanted: &Wanted, state: &UnitState, expected: &str) {
    let plan = planned(wanted, state);
    assert!(plan.steps.is_empty(), "{plan:?}");
    assert_eq!(plan.problems, [format!("x.service {expected}")]);
}

use Ensure::{Running, Stopped};

#[test]
fn runs_or_does_not() {
    use Phase::{Coming, Down, Failed, Going, Restarting, Up};
    for (phase, to_run, to_stop) in [
        (Up, None, Some(Step::Stop)),
        (Coming, Some(Step::Start), Some(Step::Stop)),
        (Going, Some(Step::Start), Some(Step::Stop)),
        (Restarting, Some(Step::Start), Some(Step::Stop)),
        (Down, Some(Step::Start), None),
        (Failed, Some(Step::Start), None),
    ] {
        steps(&wanted(Running, None, None), &state(phase, Enablement::Disabled), to_run.as_slice());
        steps(&wanted(Stopped, None, None), &state(phase, Enablement::Disabled), to_stop.as_slice());
        steps(&Wanted::default(), &state(phase, Enablement::Disabled), &[]);
    }
}

#[test]
fn a_oneshot_that_ran_is_as_good_as_running() {
    let ran = UnitState { has_run: true, ..state(Phase::Down, Enablement::Disabled) };
    steps(&wanted(Running, None, None), &ran, &[]);
    steps(&wanted(Stopped, None, None), &ran, &[]);
    let failed_since = UnitState { phase: Some(Phase::Failed), ..ran };
    steps(&wanted(Running, None, None), &failed_since, &[Step::Start]);
}

#[test]
fn is_enabled_or_not() {
    let (on, off) = (wanted(Stopped, Some(true), None), wanted(Stopped, Some(false), None));
    for (enablement, to_on, to_off) in [
        (Enablement::Enabled, None, Some(Step::Disable)),
        (Enablement::EnabledForNow, Some(Step::Enable), Some(Step::DisableForNow)),
        (Enablement::Disabled, Some(Step::Enable), None),
        (Enablement::Linked, Some(Step::Enable), None),
    ] {
        steps(&on, &state(Phase::Down, enablement), to_on.as_slice());
        steps(&off, &state(Phase::Down, enablement), to_off.as_slice());
    }
    problem(&on, &state(Phase::Down, NEVER), "is what it is, and cannot be enabled");
    steps(&off, &state(Phase::Down, NEVER), &[]);
    let without_file = UnitState { load: Load::Loaded, ..state(Phase::Down, Enablement::None) };
    problem(&on, &without_file, "has no file, and cannot be enabled");
}

#[test]
fn what_is_masked_can_only_be_unmasked() {
    let masked = state(Phase::Down, Enablement::Masked);
    problem(&wanted(Running, None, None), &masked, "is masked, and cannot be started; mask = false unmasks it");
    problem(&wanted(Stopped, Some(true), None), &masked, "is masked, and cannot be enabled");
    steps(&wanted(Stopped, Some(false), None), &masked, &[]);
    steps(&wanted(Stopped, None, Some(true)), &masked, &[]);
    let all = [Step::Unmask, Step::Enable, Step::Start];
    steps(&wanted(Running, Some(true), Some(false)), &masked, &all);
    let until_reboot = state(Phase::Down, Enablement::MaskedForNow);
    steps(&wanted(Running, None, Some(false)), &until_reboot, &[Step::UnmaskForNow, Step::Start]);
    steps(&wanted(Stopped, None, Some(true)), &until_reboot, &[Step::Mask]);
}

#[test]
fn what_cannot_be_masked_is_left_as_it_is() {
    let mask_obstacle = Some(std::path::PathBuf::from("/etc/x"));
    let state = UnitState { mask_obstacle, ..state(Phase::Up, Enablement::Enabled) };
    problem(&wanted(Stopped, Some(false), Some(true)), &state, "cannot be masked, as /etc/x is in the way");
    let (unit, was) = (unit(), wanted(Stopped, Some(false), Some(true)));
    let circumstances = Circumstances { may_come: true, ..circumstances() };
    assert_eq!(plan(&unit, &was, &state, circumstances).steps, [Step::Disable, Step::Mask, Step::Stop]);
    steps(&Wanted { restores: true, ..was }, &state, &[Step::Disable, Step::Stop]);
}

#[test]
fn masking_comes_before_stopping_and_after_disabling() {
    let all = [Step::Disable, Step::Mask, Step::Stop];
    steps(&wanted(Stopped, Some(false), Some(true)), &state(Phase::Up, Enablement::Enabled), &all);
}

#[test]
fn a_missing_unit_neither_runs_nor_is_enabled() {
    let missing = state(Phase::Down, Enablement::None);
    steps(&wanted(Stopped, Some(false), None), &missing, &[]);
    steps(&wanted(Stopped, None, Some(true)), &missing, &[Step::Mask]);
    problem(&wanted(Running, None, None), &missing, "does not exist");
    problem(&wanted(Running, Some(true), None), &missing, "does not exist");
    let vanished = state(Phase::Up, Enablement::None);
    problem(&wanted(Running, None, None), &vanished, "runs, but its file is gone");
    steps(&wanted(Stopped, None, None), &vanished, &[Step::Stop]);
}

#[test]
fn before_an_apply_it_may_still_come() {
    let circumstances = Circumstances { may_come: true, ..circumstances() };
    let unit = unit();
    let plan = plan(&unit, &wanted(Running, Some(true), None), &state(Phase::Down, Enablement::None), circumstances);
    assert_eq!((plan.steps, plan.problems), (vec![Step::Enable, Step::Start], Vec::new()));
}

#[test]
fn a_broken_file_is_no_use() {
    let why = "Unit x.service has a bad unit file setting.";
    let broken = UnitState { load: Load::Broken, load_error: why.into(), ..state(Phase::Down, Enablement::Disabled) };
    problem(&wanted(Running, None, None), &broken, &format!("has a file that the manager cannot use: {why}"));
    steps(&wanted(Stopped, None, None), &broken, &[]);
}

#[test]
fn without_a_manager_nothing_runs() {
    let unknown = UnitState { phase: None, ..state(Phase::Down, Enablement::Disabled) };
    for (ensure, expected) in
        [(Running, vec!["x.service cannot be started: the manager is not running here"]), (Stopped, vec![])]
    {
        let plan = planned(&wanted(ensure, Some(true), None), &unknown);
        assert_eq!(
            (plan.steps, plan.problems),
            (vec![Step::Enable], expected.into_iter().map(str::to_owned).collect())
        );
    }
}

#[test]
fn a_refresh_is_for_what_runs() {
    let unit = unit();
    let refreshed = |wanted: &Wanted, state: &UnitState| {
        plan(&unit, wanted, state, Circumstances { refresh: true, ..circumstances() }).steps
    };
    let (run, reload) = (wanted(Running, None, None), Wanted { reload: true, ..wanted(Running, None, None) });
    let up = state(Phase::Up, Enablement::Disabled);
    let reloadable = UnitState { can_reload: true, ..up.clone() };
    assert_eq!(refreshed(&run, &reloadable), [Step::Restart]);
    assert_eq!(refreshed(&reload, &reloadable), [Step::Reload]);
    assert_eq!(refreshed(&reload, &up), [Step::Restart], "it cannot reload, and is to see what changed");
    assert_eq!(refreshed(&run, &state(Phase::Down, Enablement::Disabled)), [Step::Start]);
    assert_eq!(refreshed(&run, &state(Phase::Failed, Enablement::Disabled)), [Step::Start]);
    let ran = UnitState { has_run: true, ..state(Phase::Down, Enablement::Disabled) };
    assert_eq!(refreshed(&run, &ran), [Step::Restart]);
    assert_eq!(refreshed(&wanted(Stopped, None, None), &state(Phase::Down, Enablement::Disabled)), []);
    assert_eq!(refreshed(&wanted(Stopped, None, None), &up), [Step::Stop]);
}

#[test]
fn what_cannot_be_restored_any_more_is_no_problem() {
    let was = Wanted { restores: true, ..wanted(Running, Some(true), None) };
    steps(&was, &state(Phase::Down, Enablement::None), &[]);
    steps(&was, &state(Phase::Down, Enablement::Masked), &[]);
    steps(&was, &state(Phase::Down, NEVER), &[Step::Start]);
    steps(&was, &state(Phase::Down, Enablement::Disabled), &[Step::Enable, Step::Start]);
}

#[test]
fn a_users_unit_runs_where_the_users_manager_does() {
    let unit = unit().in_scope(crate::unit::Scope::User("alice".to_owned()));
    let state = UnitState { load: Load::Loaded, enablement: Enablement::Disabled, ..UnitState::default() };
    let planned = |wanted: &Wanted, state: &UnitState| plan(&unit, wanted, state, circumstances());
    let enabled = planned(&wanted(Running, Some(true), None), &state);
    assert_eq!((enabled.steps, enabled.problems), (vec![Step::Enable], vec![]));
    assert!(enabled.remark.unwrap().contains("not started: the user manager of alice is not running"));
    let only_running = planned(&wanted(Running, None, None), &state);
    assert!(only_running.steps.is_empty() && only_running.remark.is_none());
    assert!(only_running.problems[0].contains("loginctl enable-linger alice"));
    assert_eq!(planned(&wanted(Stopped, Some(false), None), &state), Plan::default());
    let nobody = UnitState { load: Load::NoUser, ..UnitState::default() };
    assert!(
        planned(&wanted(Running, Some(true), None), &nobody).problems[0]
            .contains("belongs to a user that does not exist")
    );
    assert_eq!(planned(&wanted(Stopped, Some(false), Some(false)), &nobody), Plan::default());
    assert_eq!(
        planned(&Wanted { restores: true, ..wanted(Running, Some(true), Some(true)) }, &nobody),
        Plan::default()
    );
}

#[test]
fn one_user_cannot_disable_what_all_have() {
    let state = state(Phase::Down, Enablement::EnabledForAll);
    steps(&wanted(Stopped, Some(true), None), &state, &[]);
    steps(&Wanted { restores: true, ..wanted(Stopped, Some(false), None) }, &state, &[]);
    problem(
        &wanted(Stopped, Some(false), None),
        &state,
        "is enabled for all users, and cannot be disabled for one; mask = true masks it",
    );
}
