//! A scaffold: its definition, paths and report.

use crate::definition::{Ensure, ScaffoldDefinition};
use crate::error::{Result, ScaffoldError};
use crate::plan::Plan;
use crate::record::Record;
use crate::source;
use crate::together::Together;
use holo_change::claims::Claim;
use holo_plugin::{Asset, EntityReport, Host};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The prefix of entity IDs.
pub(crate) const PREFIX: &str = "scaffold:";

/// A scaffold, or an orphaned one.
#[derive(Debug)]
pub(crate) struct Scaffold {
    pub(crate) target: PathBuf,
    /// The canonical path of the target when the entities were listed.
    pub(crate) canonical: PathBuf,
    /// The definition, or `None` for an orphan.
    pub(crate) definition: Option<ScaffoldDefinition>,
    /// The file that declares the scaffold, as displayed to the user.
    pub(crate) file: PathBuf,
    /// The path of the templates, as displayed to the user.
    pub(crate) source: PathBuf,
    /// The timeout for programs.
    pub(crate) timeout: Option<Duration>,
    /// The targets of other scaffolds.
    pub(crate) others: Vec<PathBuf>,
    /// The reason why the scaffold is not applied, if there is one.
    pub(crate) problem: Option<String>,
    /// The state that it shares with the other scaffolds of a set.
    pub(crate) together: Together,
    /// The last report of an orphan, with its dependencies.
    pub(crate) orphan: Option<EntityReport>,
    /// The paths of which the last plan, if it was empty, has found that they are in their desired states.
    pub(crate) settled: Mutex<Option<SettledPaths>>,
}

/// The paths of a scaffold in its desired state.
#[derive(Debug)]
pub(crate) struct SettledPaths {
    /// The target and the rendered paths.
    pub(crate) rendered: BTreeSet<PathBuf>,
    /// The paths that the source no longer contains, and that are still recorded.
    pub(crate) given_up: Vec<PathBuf>,
}

/// Returns the claim of a scaffold, given its ID and target.
pub(crate) fn claim(id: &str, target: &Path, sources: &[PathBuf]) -> Claim {
    let mut claim = Claim::new(id, target, sources);
    (claim.is_tree, claim.is_directory) = (true, true);
    claim
}

impl Scaffold {
    pub(crate) fn new(
        definition: ScaffoldDefinition,
        file: PathBuf,
        timeout: Option<Duration>,
        host: &Host,
    ) -> Scaffold {
        Scaffold {
            target: definition.target().to_owned(),
            canonical: definition.target().to_owned(),
            problem: None,
            source: source::shown(definition.source(), host),
            definition: Some(definition),
            file,
            timeout,
            others: Vec::new(),
            together: Together::default(),
            orphan: None,
            settled: Mutex::default(),
        }
    }

    /// Returns a scaffold that is no longer defined.
    pub(crate) fn orphan(target: PathBuf, report: EntityReport) -> Scaffold {
        Scaffold {
            canonical: target.clone(),
            target,
            problem: None,
            definition: None,
            file: PathBuf::new(),
            source: PathBuf::new(),
            timeout: None,
            others: Vec::new(),
            together: Together::default(),
            orphan: Some(report),
            settled: Mutex::default(),
        }
    }

    pub(crate) fn id(&self) -> String {
        format!("{PREFIX}{}", self.target.display())
    }

    /// Notes the paths of a plan, for the parts and, if it is empty, for the witnesses.
    pub(crate) fn settle(&self, plan: &Plan, record: &Record) {
        let rendered: BTreeSet<PathBuf> = plan.make.iter().map(|(path, _)| path.clone()).collect();
        let given_up = record.tracks().iter().map(|(path, _)| path).filter(|path| !rendered.contains(path)).collect();
        let settled = SettledPaths { rendered, given_up };
        *self.settled.lock().unwrap_or_else(PoisonError::into_inner) = Some(settled);
    }

    pub(crate) fn usable(&self) -> Result<()> {
        self.problem.clone().map_or(Ok(()), |problem| Err(ScaffoldError::Never(problem)))
    }

    /// Returns the claim to its paths, for other plugins.
    pub(crate) fn claim(&self, sources: &[PathBuf]) -> Claim {
        claim(&self.id(), &self.canonical, sources)
    }

    /// Returns the definition of the target, or `None` if the state before the first apply should be restored.
    pub(crate) fn wanted(&self) -> Option<&ScaffoldDefinition> {
        self.definition.as_ref().filter(|definition| definition.ensure == Ensure::Present)
    }

    pub(crate) fn to_report(&self) -> EntityReport {
        if let Some(orphan) = &self.orphan {
            return orphan.clone();
        }
        let mut report = EntityReport::new(self.id());
        let Some(definition) = self.wanted() else {
            report.inform("with", "ensure: absent");
            return report;
        };
        report.inform("render", self.source.display().to_string());
        report.inform("with", definition.summary());
        let path = |path: &Path| Asset::new("path", path.display().to_string());
        report.edges.provides.push(path(&self.target));
        let canonical = self.canonical.display().to_string();
        report.edges.owns.extend(["path", "path-tree"].map(|kind| Asset::new(kind, canonical.as_str())));
        report.edges.needs.extend(self.target.parent().map(path));
        if let Some(source) = definition.source.as_deref().filter(|source| source.starts_with('/')) {
            report.edges.needs.push(Asset::new("path", source));
            // The templates specify the desired state of the target as well as the definition.
            report.sources.push(holo_change::path_bytes(&self.source));
        }
        for (kind, name) in [("user", &definition.owner), ("group", &definition.group)] {
            report.edges.needs.extend(name.iter().map(|name| Asset::new(kind, name.as_str())));
        }
        report
    }
}
