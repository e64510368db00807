//! The meanings of systemd's words for states, and its rules for names of units. An unknown word is an error that names it.

use crate::providers::ManagerError;
use crate::state::{Enablement, Load, Phase};
use crate::unit::{UnitName, UnitNameError};

/// Defines a type for a set of systemd's words, with their meanings.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident($what:literal) -> $meaning:ident { $($word:literal => $variant:ident $(($why:literal))?,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) struct $name {
            pub(super) meaning: $meaning,
        }

        impl $name {
            #[cfg(test)]
            pub(super) const WORDS: &'static [&'static str] = &[$($word),+];

            /// # Errors
            /// If the word is unknown.
            pub(super) fn parse(word: &str) -> Result<$name, ManagerError> {
                match word {
                    $($word => Ok($name { meaning: $meaning::$variant $(($why))? }),)+
                    _ => Err(ManagerError::UnknownWord { property: $what, word: word.to_owned() }),
                }
            }
        }
    };
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
    /// The property `SubState` of all types of units.
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
    /// The property `UnitFileState`, which `systemctl is-enabled` also prints.
    UnitFileState("the unit file state") -> Enablement {
        "enabled" => Enabled,
        "enabled-runtime" => EnabledForNow,
        "disabled" => Disabled,
        "linked" => Linked,
        "linked-runtime" => Linked,
        "masked" => Masked,
        "masked-runtime" => MaskedForNow,
        "static" => Never("is static: its file does not say what would start it"),
        "indirect" => Never("is indirect: its file only says which other units are enabled with it"),
        "generated" => Never("is generated at boot"),
        "transient" => Never("is transient: it has no lasting file"),
        "alias" => Never("is an alias; the unit that it leads to can be enabled"),
        "bad" => Never("has a file that systemd cannot understand"),
        "" => None,
    }
}

impl UnitFileState {
    /// Parses a list of unit files with their states.
    pub(super) fn parse_list(text: &str) -> impl Iterator<Item = (&str, Result<UnitFileState, ManagerError>)> {
        text.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, UnitFileState::parse(words.next()?)))
        })
    }
}

/// Returns the phase for both words: they agree, except for a unit between two attempts.
pub(super) fn phase(active: ActiveState, sub: SubState) -> Phase {
    if sub.meaning == Phase::Restarting { Phase::Restarting } else { active.meaning }
}

/// The types of units; a name without one of these is that of a service.
const TYPES: [&str; 11] =
    ["service", "socket", "device", "mount", "automount", "swap", "target", "path", "timer", "slice", "scope"];
const LONGEST: usize = 255;

/// Completes a name from a definition: `nginx` is `nginx.service`.
pub(super) fn complete(name: &str) -> Result<UnitName, UnitNameError> {
    let error = |problem: String| Err(UnitNameError::new(name, problem));
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || ":-_.\\@".contains(letter);
    if let Some(letter) = name.chars().find(|letter| !is_allowed(*letter)) {
        return error(format!("is not a valid unit name, as {letter:?} is in it"));
    }
    let has_type = name.rsplit_once('.').is_some_and(|(_, kind)| TYPES.contains(&kind));
    let whole = if has_type { name.to_owned() } else { format!("{name}.service") };
    let stem = whole.rsplit_once('.').map_or("", |(stem, _)| stem);
    if stem.is_empty() || stem.starts_with('@') || whole.len() > LONGEST {
        return error("is not a valid unit name".to_owned());
    }
    if let Some(template) = stem.strip_suffix('@').filter(|prefix| !prefix.contains('@')) {
        return error(format!("is a template; its instances have names such as {template}@x"));
    }
    Ok(UnitName::from_whole(whole))
}

/// Returns the part of the name before the type and the instance.
pub(super) fn stem(name: &UnitName) -> &str {
    let stem = name.as_str().rsplit_once('.').map_or("", |(stem, _)| stem);
    stem.split('@').next().unwrap_or(stem)
}

/// Returns the name of the template if this is an instance: `getty@.service`.
pub(super) fn template(name: &UnitName) -> Option<String> {
    let (prefix, instance) = name.as_str().split_once('@')?;
    let (_, kind) = instance.rsplit_once('.')?;
    Some(format!("{prefix}@.{kind}"))
}

/// Returns the part of the name between the `@` and the type if this is an instance.
pub(super) fn instance(name: &UnitName) -> Option<&str> {
    let (_, instance) = name.as_str().split_once('@')?;
    instance.rsplit_once('.').map(|(instance, _)| instance)
}

/// Returns the names of the files that may define a unit.
pub(super) fn files(name: &UnitName) -> Vec<String> {
    std::iter::once(name.as_str().to_owned()).chain(template(name)).collect()
}

/// Returns the names of the files and directories that affect a unit, or the service that it starts.
pub(super) fn own_files(name: &UnitName) -> Vec<String> {
    let whole = name.as_str();
    let starts_another = [".timer", ".socket", ".path"].iter().any(|kind| whole.ends_with(kind));
    let other = whole.rsplit_once('.').filter(|_| starts_another).map(|(stem, _)| format!("{stem}.service"));
    let other = other.map(UnitName::from_whole);
    let both = || std::iter::once(name).chain(&other);
    let own = both().flat_map(files).flat_map(|file| [format!("{file}.d"), file]);
    own.chain(both().flat_map(shared_drop_ins)).collect()
}

/// Returns the names of drop-in directories shared by several units: `a-b.service` also uses those in `a-.service.d`
/// and `service.d`.
fn shared_drop_ins(name: &UnitName) -> Vec<String> {
    let Some((stem, kind)) = name.as_str().rsplit_once('.') else { return Vec::new() };
    let prefixes = stem.match_indices('-').filter_map(|(at, _)| stem.get(..=at));
    prefixes.map(|prefix| format!("{prefix}.{kind}.d")).chain([format!("{kind}.d")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The output of systemd 252 for `systemctl --state=help`, with all types of units combined.
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
            ActiveState::parse("dancing").unwrap_err().to_string(),
            "the active state \"dancing\" is unknown to this version of holo"
        );
        assert!(SubState::parse("").unwrap_err().to_string().contains("the substate \"\""));
        assert!(LoadState::parse("Loaded").is_err() && UnitFileState::parse("off").is_err());
    }

    #[test]
    fn who_waits_for_the_next_attempt_does_not_run() {
        let phase = |active, sub| phase(ActiveState::parse(active).unwrap(), SubState::parse(sub).unwrap());
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

    fn whole(name: &str) -> String {
        complete(name).unwrap().to_string()
    }

    #[test]
    fn a_name_without_a_type_is_a_services() {
        assert_eq!(whole("nginx"), "nginx.service");
        assert_eq!(whole("nginx.service"), "nginx.service");
        assert_eq!(whole("nginx.conf"), "nginx.conf.service");
        assert_eq!(whole("fstrim.timer"), "fstrim.timer");
        assert_eq!(whole("getty@tty1"), "getty@tty1.service");
        assert_eq!(whole(r"dev-disk-by\x2duuid-1.swap"), r"dev-disk-by\x2duuid-1.swap");
        assert_eq!(whole("a:b_c-d@e@f.socket"), "a:b_c-d@e@f.socket");
        assert_eq!(whole("-.mount"), "-.mount");
    }

    #[test]
    fn what_systemd_would_not_take_is_refused() {
        for name in ["", ".service", "@x", "@", "a b", "a/b", "a*", "a\n", "ä", "$(x)", &"x".repeat(255)] {
            assert!(complete(name).is_err(), "{name}");
        }
        assert!(
            complete("getty@")
                .unwrap_err()
                .to_string()
                .contains("is a template; its instances have names such as getty@x")
        );
        assert!(complete("getty@.service").is_err());
        assert!(complete("a b").unwrap_err().to_string().contains("' ' is in it"));
    }

    #[test]
    fn an_instance_may_stand_in_its_templates_file() {
        let files = |name: &str| files(&complete(name).unwrap());
        assert_eq!(files("getty@tty1"), ["getty@tty1.service", "getty@.service"]);
        assert_eq!(files("a@b@c.socket"), ["a@b@c.socket", "a@.socket"]);
        assert_eq!(files("nginx"), ["nginx.service"]);
        let own_files = |name: &str| own_files(&complete(name).unwrap());
        assert_eq!(own_files("nginx"), ["nginx.service.d", "nginx.service", "service.d"]);
        assert_eq!(
            own_files("a-b.timer"),
            [
                "a-b.timer.d",
                "a-b.timer",
                "a-b.service.d",
                "a-b.service",
                "a-.timer.d",
                "timer.d",
                "a-.service.d",
                "service.d"
            ]
        );
        assert_eq!(stem(&complete("getty@tty1").unwrap()), "getty");
        assert_eq!(stem(&complete("a.b.timer").unwrap()), "a.b");
    }
}
