//! A scaffold: its definition, paths and report.

use crate::definition::{Ensure, ScaffoldDefinition};
use crate::error::{Result, ScaffoldError};
use crate::source;
use crate::together::Together;
use holo_change::claims::Claim;
use holo_plugin::{Asset, EntityReport, Host};
use std::path::PathBuf;
use std::time::Duration;

/// The beginning of IDs.
pub(crate) const PREFIX: &str = "scaffold:";

/// A directory that is rendered, or was.
#[derive(Debug)]
pub(crate) struct Scaffold {
    pub(crate) target: PathBuf,
    /// The same without symlinks in its parents, as it was when the entities were listed.
    pub(crate) canonical: PathBuf,
    /// Its definition; none for an orphan.
    pub(crate) definition: Option<ScaffoldDefinition>,
    /// The file that declares it, as the user knows it.
    pub(crate) file: PathBuf,
    /// The path of its templates, as the user knows it.
    pub(crate) source: PathBuf,
    /// The time limit of a program.
    pub(crate) timeout: Option<Duration>,
    /// The targets of other scaffolds.
    pub(crate) others: Vec<PathBuf>,
    /// The reason why it is left alone, if it is.
    pub(crate) problem: Option<String>,
    /// What it shares with the others of a set.
    pub(crate) together: Together,
    /// The last report of an orphan, with its dependencies.
    pub(crate) orphan: Option<EntityReport>,
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
        }
    }

    /// One that nothing defines any more.
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
        }
    }

    pub(crate) fn id(&self) -> String {
        format!("{PREFIX}{}", self.target.display())
    }

    pub(crate) fn usable(&self) -> Result<()> {
        self.problem.clone().map_or(Ok(()), |problem| Err(ScaffoldError::Never(problem)))
    }

    /// Returns the claim of its paths, for other plugins.
    pub(crate) fn claim(&self, sources: &[PathBuf]) -> Claim {
        let mut claim = Claim::new(&self.id(), &self.canonical, sources);
        (claim.is_tree, claim.is_directory) = (true, true);
        claim
    }

    /// Returns the definition of the target; none if the state before the first apply is to come back.
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
        let path = |path: &std::path::Path| Asset::new("path", path.display().to_string());
        report.edges.provides.push(path(&self.target));
        let canonical = self.canonical.display().to_string();
        report.edges.owns.extend(["path", "path-tree"].map(|kind| Asset::new(kind, canonical.as_str())));
        report.edges.needs.extend(self.target.parent().map(path));
        if let Some(source) = definition.source.as_deref().filter(|source| source.starts_with('/')) {
            report.edges.needs.push(Asset::new("path", source));
            // It says what the target shall be as much as the definition does.
            report.sources.push(holo_change::path_bytes(&self.source));
        }
        for (kind, name) in [("user", &definition.owner), ("group", &definition.group)] {
            report.edges.needs.extend(name.iter().map(|name| Asset::new(kind, name.as_str())));
        }
        report
    }
}
