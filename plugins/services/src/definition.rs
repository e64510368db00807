//! The definitions of units.

use crate::plan::{self, Wanted};
use crate::providers;
use crate::unit::{Scope, is_user_name};
use holo_plugin::definitions::{Definition, Invalid, NameError, NameKeys};
use serde::Deserialize;
use std::collections::BTreeSet;

/// The desired state of a unit's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ensure {
    Running,
    Stopped,
    /// Neither started, stopped nor restarted.
    Unmanaged,
}

/// The kind of manager to which a unit belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum ScopeKind {
    /// The system manager.
    #[default]
    System,
    /// The manager of one user, or of all users.
    User,
}

/// A unit: a service, a socket, a timer, or of another type.
#[derive(Clone, Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct Service {
    /// The unit's name; for managers with several types of units, the default type is that of a service.
    pub(crate) name: String,
    /// The manager to which it belongs: the system's, or that of a user.
    #[serde(default)]
    pub(crate) scope: ScopeKind,
    /// The user for `scope = "user"`; all users by default.
    pub(crate) user: Option<String>,
    /// The desired state: by default `stopped` for a masked unit, `unmanaged` for a unit of all users, else `running`. An
    /// unmanaged unit is neither started nor stopped.
    pub(crate) ensure: Option<Ensure>,
    /// True to start the unit at boot; unchanged by default.
    pub(crate) enable: Option<bool>,
    /// The runlevels in which it is enabled, if the service manager has them: by default the ones in which it already
    /// is, otherwise the default runlevel.
    #[serde(default)]
    pub(crate) runlevels: BTreeSet<String>,
    /// True if the unit must not be started at all; unchanged by default.
    pub(crate) mask: Option<bool>,
    /// True to reload the unit on a refresh instead of restarting it.
    #[serde(default)]
    pub(crate) reload: bool,
}

impl Definition for Service {
    const TABLE: &'static str = "service";

    /// Returns a name that is unique among all managers.
    fn entity_name(keys: &NameKeys<'_, '_>) -> Result<String, NameError> {
        let name = keys.required(Self::KEY)?;
        let scope = match (keys.optional("scope")?, keys.optional("user")?) {
            (Some("user"), None) => Scope::AllUsers,
            (Some("user"), Some(user)) if is_user_name(user) => Scope::User(user.to_owned()),
            (Some("user"), Some(_)) => return Err(keys.wrong("user", "is not a valid name of a user")),
            _ => Scope::System,
        };
        Ok(scope.qualify(name))
    }

    fn invalid_values(&self) -> Vec<Invalid> {
        Invalid::all([providers::check_name(&self.name).map_err(|error| Invalid::new("name", error.to_string()))])
    }

    fn validate(&self) -> Result<(), Invalid> {
        if self.scope == ScopeKind::System && self.user.is_some() {
            return Err(Invalid::new("user", "only units with scope = \"user\" are those of a user"));
        }
        if self.scope() == Scope::AllUsers && self.ensure.is_some_and(|ensure| ensure != Ensure::Unmanaged) {
            return Err(Invalid::new("ensure", "it is not said whose unit that is; user names the user"));
        }
        if self.mask == Some(true) {
            if self.ensure == Some(Ensure::Running) {
                return Err(Invalid::new("ensure", "a masked unit cannot be started"));
            }
            if self.enable == Some(true) {
                return Err(Invalid::new("enable", "a masked unit cannot be enabled"));
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
            return Err(Invalid::new("runlevels", "only enabled services are in runlevels; set enable = true"));
        }
        Ok(())
    }
}

impl Service {
    /// Returns the manager to which it belongs.
    pub(crate) fn scope(&self) -> Scope {
        match (self.scope, &self.user) {
            (ScopeKind::System, _) => Scope::System,
            (ScopeKind::User, None) => Scope::AllUsers,
            (ScopeKind::User, Some(user)) => Scope::User(user.clone()),
        }
    }

    /// Returns its desired state.
    pub(crate) fn wanted(&self) -> Wanted {
        let default = match self.scope() {
            Scope::AllUsers => Ensure::Unmanaged,
            _ if self.mask == Some(true) => Ensure::Stopped,
            _ => Ensure::Running,
        };
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
        let (scope, user) = (ScopeKind::System, None);
        Service { name: "nginx".into(), scope, user, ensure, enable, runlevels: BTreeSet::new(), mask, reload: false }
    }

    #[test]
    fn units_belong_to_the_system_a_user_or_all_users() {
        let of = |scope, user: Option<&str>, ensure| Service {
            scope,
            user: user.map(str::to_owned),
            ..service(None, ensure, Some(true))
        };
        assert_eq!(of(ScopeKind::User, Some("alice"), None).scope(), Scope::User("alice".to_owned()));
        assert_eq!(of(ScopeKind::User, Some("alice"), None).wanted().ensure, Some(plan::Ensure::Running));
        assert_eq!(of(ScopeKind::User, None, None).scope(), Scope::AllUsers);
        assert_eq!(of(ScopeKind::User, None, None).wanted().ensure, None);
        assert!(of(ScopeKind::User, None, Some(Ensure::Unmanaged)).validate().is_ok());
        for run in [Ensure::Running, Ensure::Stopped] {
            assert!(of(ScopeKind::User, None, Some(run)).validate().is_err());
            assert!(of(ScopeKind::User, Some("alice"), Some(run)).validate().is_ok());
        }
        assert!(of(ScopeKind::System, Some("alice"), None).validate().is_err());
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
