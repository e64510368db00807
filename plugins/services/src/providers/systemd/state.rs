//! The meanings of systemd's words for states. A word that is not here is an error that names it.

/// Makes an enum of systemd's words, each with what it means.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident($what:literal) -> $meaning:ident { $($word:literal => $variant:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) struct $name {
            pub(crate) meaning: $meaning,
        }

        impl $name {
            #[cfg(test)]
            pub(crate) const WORDS: &'static [&'static str] = &[$($word),+];

            /// # Errors
            /// If systemd has learnt a new word; which one.
            pub(crate) fn parse(word: &str) -> Result<$name, String> {
                match word {
                    $($word => Ok($name { meaning: $meaning::$variant }),)+
                    _ => Err(format!(concat!($what, " {:?} is unknown to this version of holo"), word)),
                }
            }
        }
    };
}

/// The phase of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It runs, listens, waits, is mounted: it does what it is for.
    Up,
    /// It is being started.
    Coming,
    /// It is being stopped.
    Going,
    /// It does not run.
    Down,
    /// It does not run, and not because it was asked to end.
    Failed,
    /// It has failed, and systemd will try again.
    Restarting,
}

/// The result of systemd reading a unit's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    Loaded,
    Missing,
    Masked,
    Broken,
}

/// The enablement of a unit: the way in which it is started at boot, if it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enablement {
    Enabled,
    /// Until the next boot.
    EnabledForNow,
    Disabled,
    /// Its file is elsewhere, and a symlink leads there, which disabling it would remove.
    Linked,
    Masked,
    /// Until the next boot.
    MaskedForNow,
    /// It can neither be enabled nor disabled.
    Static,
    Indirect,
    Generated,
    Transient,
    Alias,
    Bad,
    /// No file, no enablement.
    None,
}

words! {
    /// The property `LoadState`.
    LoadState("the load state") -> Load {
        "loaded" => Loaded,
        "merged" => Loaded,
        "stub" => Missing,
        "not-found" => Missing,
        "masked" => Masked,
        "bad-setting" => Broken,
        "error" => Broken,
    }
}

words! {
    /// The property `ActiveState`.
    ActiveState("the active state") -> Phase {
        "active" => Up,
        "reloading" => Up,
        "refreshing" => Up,
        "activating" => Coming,
        "deactivating" => Going,
        "inactive" => Down,
        "maintenance" => Down,
        "failed" => Failed,
    }
}

words! {
    /// The property `SubState`, of all types of units.
    SubState("the substate") -> Phase {
        "abandoned" => Up,
        "active" => Up,
        "deferred" => Up,
        "elapsed" => Up,
        "exited" => Up,
        "listening" => Up,
        "mounted" => Up,
        "plugged" => Up,
        "refresh-credentials" => Up,
        "refresh-extensions" => Up,
        "reload" => Up,
        "reload-notify" => Up,
        "reload-post" => Up,
        "reload-signal" => Up,
        "remounting" => Up,
        "remounting-sigkill" => Up,
        "remounting-sigterm" => Up,
        "running" => Up,
        "waiting" => Up,
        "activating" => Coming,
        "activating-done" => Coming,
        "condition" => Coming,
        "mounting" => Coming,
        "mounting-done" => Coming,
        "start" => Coming,
        "start-chown" => Coming,
        "start-open" => Coming,
        "start-post" => Coming,
        "start-pre" => Coming,
        "tentative" => Coming,
        "deactivating" => Going,
        "deactivating-sigkill" => Going,
        "deactivating-sigterm" => Going,
        "final-sigkill" => Going,
        "final-sigterm" => Going,
        "final-watchdog" => Going,
        "stop" => Going,
        "stop-post" => Going,
        "stop-pre" => Going,
        "stop-pre-sigkill" => Going,
        "stop-pre-sigterm" => Going,
        "stop-sigkill" => Going,
        "stop-sigterm" => Going,
        "stop-watchdog" => Going,
        "unmounting" => Going,
        "unmounting-sigkill" => Going,
        "unmounting-sigterm" => Going,
        "cleaning" => Down,
        "dead" => Down,
        "dead-resources-pinned" => Down,
        "failed" => Failed,
        "auto-restart" => Restarting,
        "auto-restart-queued" => Restarting,
        "dead-before-auto-restart" => Restarting,
        "failed-before-auto-restart" => Restarting,
    }
}

words! {
    /// The property `UnitFileState`, which is also what `systemctl is-enabled` prints.
    UnitFileState("the unit file state") -> Enablement {
        "enabled" => Enabled,
        "enabled-runtime" => EnabledForNow,
        "disabled" => Disabled,
        "linked" => Linked,
        "linked-runtime" => Linked,
        "masked" => Masked,
        "masked-runtime" => MaskedForNow,
        "static" => Static,
        "indirect" => Indirect,
        "generated" => Generated,
        "transient" => Transient,
        "alias" => Alias,
        "bad" => Bad,
        "" => None,
    }
}

impl Phase {
    /// Returns the meaning of both words together: they agree, except for a unit between two attempts.
    pub(crate) fn of(active: ActiveState, sub: SubState) -> Phase {
        if sub.meaning == Phase::Restarting { Phase::Restarting } else { active.meaning }
    }

    /// Returns true if it runs, or will without further action.
    pub(crate) fn is_up(self) -> bool {
        matches!(self, Phase::Up | Phase::Coming)
    }

    /// Returns true if nothing of it runs, and nothing will.
    pub(crate) fn is_down(self) -> bool {
        matches!(self, Phase::Down | Phase::Failed)
    }
}

impl Enablement {
    /// Returns the reason why it can never be enabled, if there is one.
    pub(crate) fn why_never(self) -> Option<&'static str> {
        match self {
            Enablement::Static => Some("is static: its file does not say what would start it"),
            Enablement::Indirect => Some("is indirect: its file only says which other units are enabled with it"),
            Enablement::Generated => Some("is generated at boot"),
            Enablement::Transient => Some("is transient: it has no lasting file"),
            Enablement::Alias => Some("is an alias; the unit that it leads to can be enabled"),
            Enablement::Bad => Some("has a file that systemd cannot understand"),
            Enablement::None => Some("has no file"),
            Enablement::Enabled
            | Enablement::EnabledForNow
            | Enablement::Disabled
            | Enablement::Linked
            | Enablement::Masked
            | Enablement::MaskedForNow => None,
        }
    }

    pub(crate) fn is_masked(self) -> bool {
        matches!(self, Enablement::Masked | Enablement::MaskedForNow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The output of systemd 252 for `systemctl --state=help`, all types of units together.
    const LOAD: &str = "stub loaded not-found bad-setting error merged masked";
    const ACTIVE: &str = "active reloading inactive failed activating deactivating maintenance";
    const FILE: &str = "enabled enabled-runtime linked linked-runtime alias masked masked-runtime static disabled \
                        indirect generated transient bad";
    const SUB: &str = "dead waiting running failed tentative plugged mounting mounting-done mounted remounting unmounting \
                       remounting-sigterm remounting-sigkill unmounting-sigterm unmounting-sigkill cleaning start-chown \
                       abandoned stop-sigterm stop-sigkill condition start-pre start start-post exited reload stop \
                       stop-watchdog stop-post final-watchdog final-sigterm final-sigkill auto-restart active listening \
                       stop-pre stop-pre-sigterm stop-pre-sigkill activating activating-done deactivating \
                       deactivating-sigterm deactivating-sigkill elapsed";

    #[test]
    fn every_word_has_a_meaning() {
        assert!(LOAD.split_whitespace().all(|word| LoadState::parse(word).is_ok()));
        assert!(ACTIVE.split_whitespace().all(|word| ActiveState::parse(word).is_ok()));
        assert!(SUB.split_whitespace().all(|word| SubState::parse(word).is_ok()));
        assert!(FILE.split_whitespace().all(|word| UnitFileState::parse(word).is_ok()));
        for words in [LoadState::WORDS, ActiveState::WORDS, SubState::WORDS, UnitFileState::WORDS] {
            assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len());
        }
    }

    #[test]
    fn a_new_word_is_named() {
        assert_eq!(
            ActiveState::parse("dancing").unwrap_err(),
            "the active state \"dancing\" is unknown to this version of holo"
        );
        assert!(SubState::parse("").unwrap_err().contains("the substate \"\""));
        assert!(LoadState::parse("Loaded").is_err() && UnitFileState::parse("off").is_err());
    }

    #[test]
    fn who_waits_for_the_next_attempt_does_not_run() {
        let phase = |active, sub| Phase::of(ActiveState::parse(active).unwrap(), SubState::parse(sub).unwrap());
        assert_eq!(phase("activating", "auto-restart"), Phase::Restarting);
        assert_eq!(phase("activating", "start-pre"), Phase::Coming);
        assert_eq!(phase("active", "exited"), Phase::Up);
        assert_eq!(phase("reloading", "reload"), Phase::Up);
        assert_eq!(phase("deactivating", "stop-sigterm"), Phase::Going);
        assert_eq!(phase("maintenance", "cleaning"), Phase::Down);
        assert_eq!(phase("failed", "failed"), Phase::Failed);
        assert!(!Phase::Restarting.is_up() && !Phase::Restarting.is_down() && !Phase::Going.is_down());
    }

    #[test]
    fn what_has_no_install_section_can_never_be_enabled() {
        let never: Vec<&str> = UnitFileState::WORDS
            .iter()
            .copied()
            .filter(|word| UnitFileState::parse(word).unwrap().meaning.why_never().is_some())
            .collect();
        assert_eq!(never, ["static", "indirect", "generated", "transient", "alias", "bad", ""]);
    }
}
