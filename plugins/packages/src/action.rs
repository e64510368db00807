//! Describes actions on packages in messages, before and after they are carried out.

use crate::model::Mark;

/// An action on a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Action {
    verb: Verb,
    /// The words after the verb.
    what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Install,
    Upgrade,
    Downgrade,
    Remove,
    Purge,
    Complete,
    Hold,
    Release,
    Mark,
    Leave,
}

impl Action {
    /// Installs a package that is not installed.
    pub(crate) fn install(name: &str, version: Option<&str>) -> Action {
        Action { verb: Verb::Install, what: with_version(name, version) }
    }

    /// Replaces an installed version with another one.
    pub(crate) fn replace(name: &str, from: &str, to: &str, is_downgrade: bool) -> Action {
        let verb = if is_downgrade { Verb::Downgrade } else { Verb::Upgrade };
        Action { verb, what: format!("{name} {from} to {to}") }
    }

    /// Completes an installation that was interrupted.
    pub(crate) fn complete(name: &str, version: &str) -> Action {
        Action { verb: Verb::Complete, what: format!("the installation of {}", with_version(name, Some(version))) }
    }

    /// Removes a package, possibly with its configuration.
    pub(crate) fn remove(name: &str, version: Option<&str>, purge: bool) -> Action {
        Action { verb: if purge { Verb::Purge } else { Verb::Remove }, what: with_version(name, version) }
    }

    /// Removes a package that is not declared, because of another one.
    pub(crate) fn displace(package: &str, by: &str, is_conflict: bool) -> Action {
        let why = if is_conflict { format!("{by} conflicts with it") } else { format!("it needs {by}") };
        Action { verb: Verb::Remove, what: format!("{package}, as {why}") }
    }

    /// Keeps a package because other packages need it.
    pub(crate) fn leave(name: &str, needed_by: &str) -> Action {
        Action { verb: Verb::Leave, what: format!("{name} to {needed_by}") }
    }

    /// Sets a mark of a package.
    pub(crate) fn mark(name: &str, mark: Mark) -> Action {
        let (verb, what) = match mark {
            Mark::Held => (Verb::Hold, name.to_owned()),
            Mark::Released => (Verb::Release, name.to_owned()),
            Mark::ByHand => (Verb::Mark, format!("{name} as installed by hand")),
            Mark::Automatic => (Verb::Mark, format!("{name} as installed for others")),
        };
        Action { verb, what }
    }

    /// Returns the description of a pending action.
    pub(crate) fn would(&self) -> String {
        let verb = match self.verb {
            Verb::Install => "install",
            Verb::Upgrade => "upgrade",
            Verb::Downgrade => "downgrade",
            Verb::Remove => "remove",
            Verb::Purge => "purge",
            Verb::Complete => "complete",
            Verb::Hold => "hold",
            Verb::Release => "release",
            Verb::Mark => "mark",
            Verb::Leave => "leave",
        };
        format!("would {verb} {}", self.what)
    }

    /// Returns the description of a completed action.
    pub(crate) fn done(&self) -> String {
        let verb = match self.verb {
            Verb::Install => "installed",
            Verb::Upgrade => "upgraded",
            Verb::Downgrade => "downgraded",
            Verb::Remove => "removed",
            Verb::Purge => "purged",
            Verb::Complete => "completed",
            Verb::Hold => "held",
            Verb::Release => "released",
            Verb::Mark => "marked",
            Verb::Leave => "left",
        };
        format!("{verb} {}", self.what)
    }
}

/// Returns the name of a package with its version if it is known.
pub(crate) fn with_version(name: &str, version: Option<&str>) -> String {
    match version.filter(|version| !version.is_empty()) {
        Some(version) => format!("{name} {version}"),
        None => name.to_owned(),
    }
}
