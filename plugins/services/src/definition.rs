//! The definitions of units.

use crate::plan::{self, Wanted};
use crate::providers;
use holo_plugin::definitions::{Definition, Invalid};
use serde::Deserialize;
use std::collections::BTreeSet;

/// The desired state of a unit's processes, as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ensure {
    Running,
    Stopped,
    /// Neither started nor stopped, nor restarted.
    Unmanaged,
}

/// A unit: a service, a socket, a timer, or another one.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Service {
    /// The unit's name; for a manager of units of several types, one without a type such as `.timer` is that of a service.
    pub(crate) name: String,
    /// The desired state: running unless it is masked. What is unmanaged runs or not, as it does.
    pub(crate) ensure: Option<Ensure>,
    /// True if it shall be started at boot; left alone if nothing is said.
    pub(crate) enable: Option<bool>,
    /// The runlevels in which it is enabled, where the service manager has them: those that it is in, or the default one, if nothing is said.
    #[serde(default)]
    pub(crate) runlevels: BTreeSet<String>,
    /// True if nothing may start it; left alone if nothing is said.
    pub(crate) mask: Option<bool>,
    /// True if a refresh has it read its configuration again instead of restarting it.
    #[serde(default)]
    pub(crate) reload: bool,
}

impl Definition for Service {
    const TABLE: &'static str = "service";

    fn invalid_values(&self) -> Vec<Invalid> {
        Invalid::all([providers::check_name(&self.name).map_err(|error| Invalid::new("name", error.to_string()))])
    }

    fn validate(&self) -> Result<(), Invalid> {
        if self.mask == Some(true) {
            if self.ensure == Some(Ensure::Running) {
                return Err(Invalid::new("ensure", "what is masked cannot be started"));
            }
            if self.enable == Some(true) {
                return Err(Invalid::new("enable", "what is masked cannot be enabled"));
            }
        }
        let is_name = |level: &&String| {
            let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
            !level.is_empty() && !level.starts_with('-') && level.chars().all(is_allowed)
        };
        if let Some(level) = self.runlevels.iter().find(|level| !is_name(level)) {
            return Err(Invalid::new("runlevels", format!("{level:?} is not a valid name of a runlevel")));
        }
        if !self.runlevels.is_empty() && self.enable != Some(true) {
            return Err(Invalid::new("runlevels", "only what is enabled is in runlevels; enable = true enables it"));
        }
        Ok(())
    }
}

impl Service {
    /// Returns its desired state.
    pub(crate) fn wanted(&self) -> Wanted {
        let default = if self.mask == Some(true) { Ensure::Stopped } else { Ensure::Running };
        let ensure = match self.ensure.unwrap_or(default) {
            Ensure::Running => Some(plan::Ensure::Running),
            Ensure::Stopped => Some(plan::Ensure::Stopped),
            Ensure::Unmanaged => None,
        };
        let runlevels = self.runlevels.clone();
        Wanted { ensure, enable: self.enable, runlevels, mask: self.mask, reload: self.reload, restores: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(mask: Option<bool>, ensure: Option<Ensure>, enable: Option<bool>) -> Service {
        Service { name: "nginx".into(), ensure, enable, runlevels: BTreeSet::new(), mask, reload: false }
    }

    #[test]
    fn what_is_masked_shall_not_run() {
        assert_eq!(service(None, None, None).wanted().ensure, Some(plan::Ensure::Running));
        assert_eq!(service(Some(false), None, None).wanted().ensure, Some(plan::Ensure::Running));
        assert_eq!(service(Some(true), None, None).wanted().ensure, Some(plan::Ensure::Stopped));
        assert_eq!(service(None, Some(Ensure::Unmanaged), Some(true)).wanted().ensure, None);
        assert_eq!(service(Some(true), Some(Ensure::Unmanaged), None).wanted().ensure, None);
        assert!(service(Some(true), Some(Ensure::Running), None).validate().is_err());
        assert!(service(Some(true), None, Some(true)).validate().is_err());
        assert!(service(Some(true), Some(Ensure::Stopped), Some(false)).validate().is_ok());
    }

    #[test]
    fn runlevels_are_names_of_what_is_enabled() {
        let in_level =
            |level: &str, enable| Service { runlevels: [level.to_owned()].into(), ..service(None, None, enable) };
        assert!(in_level("boot", Some(true)).validate().is_ok());
        assert!(in_level("boot", None).validate().is_err() && in_level("boot", Some(false)).validate().is_err());
        for odd in ["", "-x", "a/b", ".."] {
            assert!(in_level(odd, Some(true)).validate().is_err(), "{odd}");
        }
    }

    #[test]
    fn the_schema_is_that_of_the_types() {
        let schema = holo_plugin::definitions::schema::<Service>("Definitions of holo's plugin services");
        holo_testing::schema_is_kept("holo-services.schema.json", &schema);
    }
}
