//! Parses the output of `systemctl show` and `systemctl list-units` about many units.

use super::words::{ActiveState, LoadState, SubState, UnitFileState, phase};
use crate::providers::ManagerError;
use crate::state::{Load, Phase, UnitState};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeSet, HashMap};

/// The requested properties.
pub(super) const PROPERTIES: &str = "LoadState,LoadError,ActiveState,SubState,UnitFileState,NeedDaemonReload,CanReload,Type,\
                                     RemainAfterExit,Result,ExecMainStatus,InactiveExitTimestampMonotonic";

/// Parses the states of this number of units in the requested order, one block of lines each.
///
/// # Errors
/// If the number of blocks differs, so that they cannot be assigned to units.
pub(super) fn parse(text: &str, count: usize) -> Result<Vec<Result<UnitState, ManagerError>>, ManagerError> {
    let blocks: Vec<&str> = text.split("\n\n").map(str::trim).filter(|block| !block.is_empty()).collect();
    if blocks.len() != count {
        return Err(ManagerError::Failed(format!("systemctl shows {} units of {count}", blocks.len())));
    }
    Ok(blocks.into_iter().map(state).collect())
}

/// A unit in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) load: Load,
    pub(super) phase: Phase,
    /// systemd's words.
    pub(super) words: String,
}

/// Parses a plain list of units with the columns name, load state, active state and substate. A unit with a word of a
/// newer systemd is treated as unusable, so that more details are queried.
pub(super) fn parse_list(text: &str) -> HashMap<String, Listed> {
    let listed = |line: &str| {
        let [name, load, active, sub] = line.split_whitespace().take(4).collect::<Vec<_>>()[..] else { return None };
        let load = LoadState::parse(load).map_or(Load::Broken, |load| load.meaning);
        let (load, phase) = match (ActiveState::parse(active), SubState::parse(sub)) {
            (Ok(active), Ok(sub)) => (load, phase(active, sub)),
            _ => (Load::Broken, Phase::Down),
        };
        Some((name.to_owned(), Listed { load, phase, words: format!("{active} ({sub})") }))
    };
    text.lines().filter_map(listed).collect()
}

/// Returns true if services of this type count as started before their processes can have failed.
pub(super) fn starts_unseen(service_type: &str) -> bool {
    matches!(service_type, "simple" | "exec" | "idle")
}

fn state(block: &str) -> Result<UnitState, ManagerError> {
    let properties: HashMap<&str, &str> = block.lines().filter_map(|line| line.split_once('=')).collect();
    let property = |name: &str| properties.get(name).copied().unwrap_or_default();
    let is = |name: &str| property(name) == "yes";
    let (active, sub) = (ActiveState::parse(property("ActiveState"))?, SubState::parse(property("SubState"))?);
    let comes_to_an_end = property("Type") == "oneshot" && !is("RemainAfterExit");
    // Without a time, it has not been started, or systemd has unloaded it.
    let begun = property("InactiveExitTimestampMonotonic").parse().ok().filter(|&begun: &u64| begun > 0);
    let result = match (property("Result"), property("ExecMainStatus")) {
        ("" | "success", _) => String::new(),
        (result, "" | "0") => format!(", {result}"),
        (result, status) => format!(", {result} {status}"),
    };
    Ok(UnitState {
        phase: Some(phase(active, sub)),
        load: LoadState::parse(property("LoadState"))?.meaning,
        // The name of the error, and its message in quotes.
        load_error: property("LoadError").split_once(' ').map_or("", |(_, text)| text).trim_matches('"').to_owned(),
        enablement: UnitFileState::parse(property("UnitFileState"))?.meaning,
        runlevels: BTreeSet::new(),
        has_run: comes_to_an_end && begun.is_some() && result.is_empty(),
        comes_to_an_end,
        begun: begun.map(since_epoch),
        starts_unseen: starts_unseen(property("Type")),
        is_outdated: is("NeedDaemonReload"),
        can_reload: is("CanReload"),
        mask_obstacle: None,
        is_brief: false,
        is_imagined: false,
        words: format!("{} ({}){result}", property("ActiveState"), property("SubState")),
    })
}

/// Converts a time since the boot, in microseconds, to seconds since the epoch.
fn since_epoch(monotonic: u64) -> i64 {
    let [boot, epoch] = [ClockId::Monotonic, ClockId::Realtime].map(|clock| {
        let time = clock_gettime(clock);
        time.tv_sec * 1_000_000 + time.tv_nsec / 1000
    });
    (epoch - boot + i64::try_from(monotonic).unwrap_or_default()).div_euclid(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Enablement;

    const RUNNING: &str = "Type=simple\nRemainAfterExit=no\nResult=success\nExecMainStatus=0\nLoadState=loaded\nLoadError=\n\
                           ActiveState=active\nSubState=running\nUnitFileState=disabled\nInactiveExitTimestampMonotonic=12\n\
                           CanReload=yes\nNeedDaemonReload=yes\n";
    const MISSING: &str = "Type=\nResult=success\nExecMainStatus=0\nLoadState=not-found\n\
                           LoadError=org.freedesktop.systemd1.NoSuchUnit \"Unit x.service not found.\"\n\
                           ActiveState=inactive\nSubState=dead\nUnitFileState=\nInactiveExitTimestampMonotonic=0\n\
                           CanReload=no\nNeedDaemonReload=no\n";
    const FAILED: &str = "Type=oneshot\nRemainAfterExit=no\nResult=exit-code\nExecMainStatus=3\nLoadState=loaded\nLoadError=\n\
                          ActiveState=failed\nSubState=failed\nUnitFileState=static\nInactiveExitTimestampMonotonic=9\n";
    const RAN: &str = "Type=oneshot\nRemainAfterExit=no\nResult=success\nExecMainStatus=0\nLoadState=loaded\nLoadError=\n\
                       ActiveState=inactive\nSubState=dead\nUnitFileState=enabled\nInactiveExitTimestampMonotonic=9\n";

    #[test]
    fn each_block_is_a_unit() {
        let states = parse(&[RUNNING, MISSING, FAILED, RAN].join("\n"), 4).unwrap();
        let [running, missing, failed, ran] = &states[..] else { panic!() };
        let running = running.as_ref().unwrap();
        assert_eq!(
            (running.phase, running.load, running.enablement),
            (Some(Phase::Up), Load::Loaded, Enablement::Disabled)
        );
        assert!(running.can_reload && running.is_outdated && running.starts_unseen && !running.has_run);
        assert_eq!(running.words, "active (running)");
        let missing = missing.as_ref().unwrap();
        assert_eq!(
            (missing.phase, missing.load, missing.enablement),
            (Some(Phase::Down), Load::Missing, Enablement::None)
        );
        assert_eq!(missing.load_error, "Unit x.service not found.");
        let failed = failed.as_ref().unwrap();
        assert_eq!((failed.phase, failed.has_run), (Some(Phase::Failed), false));
        assert_eq!(failed.words, "failed (failed), exit-code 3");
        assert!(ran.as_ref().unwrap().has_run);
    }

    #[test]
    fn a_block_too_few_is_an_error() {
        assert_eq!(parse(RUNNING, 2).unwrap_err().to_string(), "systemctl shows 1 units of 2");
        assert_eq!(parse("", 0).unwrap(), []);
    }

    #[test]
    fn a_list_tells_how_units_are() {
        let list = "a.service loaded active running A daemon\nb.socket  loaded active listening b\n\
                    gone.service not-found active running gone.service\nnew.service loaded active dancing New\n\
                    again.service loaded activating auto-restart Again\nends.service loaded inactive dead Ends\n\nodd\n";
        let listed = parse_list(list);
        let has = |name: &str| listed.get(name).map(|unit| (unit.load, unit.phase, unit.words.as_str()));
        assert_eq!(has("a.service"), Some((Load::Loaded, Phase::Up, "active (running)")));
        assert_eq!(has("b.socket"), Some((Load::Loaded, Phase::Up, "active (listening)")));
        assert_eq!(has("gone.service"), Some((Load::Missing, Phase::Up, "active (running)")));
        assert_eq!(has("new.service"), Some((Load::Broken, Phase::Down, "active (dancing)")));
        assert_eq!(has("again.service"), Some((Load::Loaded, Phase::Restarting, "activating (auto-restart)")));
        assert_eq!(has("ends.service"), Some((Load::Loaded, Phase::Down, "inactive (dead)")));
        assert_eq!(listed.len(), 6);
    }

    #[test]
    fn an_unknown_word_is_one_units_error() {
        let states = parse(&[RUNNING.replace("running", "dancing"), RAN.to_owned()].join("\n"), 2).unwrap();
        assert!(states[0].as_ref().unwrap_err().to_string().contains("\"dancing\""));
        assert!(states[1].is_ok());
    }
}
