//! A scaffold: how it is reported, checked, applied, and compared.

use crate::definition::{Ensure, ScaffoldDefinition};
use crate::difference;
use crate::obstacle::{Obstacle, Result};
use crate::source;
use crate::workshop::Workshop;
use holo_plugin::claims::Claim;
use holo_plugin::{Applied, Asset, Entity, EntityReport, FilePair, ForceTo, Host, Mode, Output, Verdict};
use std::path::PathBuf;
use std::time::Duration;

/// What IDs begin with.
pub(crate) const PREFIX: &str = "scaffold:";

/// A directory that is rendered, or was.
#[derive(Debug)]
pub(crate) struct Scaffold {
    pub(crate) target: PathBuf,
    /// The same without symlinks in its parents, as it was when the entities were listed.
    pub(crate) canonical: PathBuf,
    /// What is declared; nothing of an orphan.
    pub(crate) definition: Option<ScaffoldDefinition>,
    /// The file that declares it, as the user knows it.
    pub(crate) file: PathBuf,
    /// Where its templates are, as the user knows it.
    pub(crate) source: PathBuf,
    /// How long a program may take.
    pub(crate) timeout: Option<Duration>,
    /// The targets of other scaffolds.
    pub(crate) others: Vec<PathBuf>,
    /// Why it is left alone.
    pub(crate) problem: Option<String>,
    /// What it depended on when it was declared, for an orphan.
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
            source: source::shown(&definition, host),
            definition: Some(definition),
            file,
            timeout,
            others: Vec::new(),
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
            orphan: Some(report),
        }
    }

    pub(crate) fn id(&self) -> String {
        format!("{PREFIX}{}", self.target.display())
    }

    fn usable(&self) -> Result<()> {
        self.problem.clone().map_or(Ok(()), |problem| Err(Obstacle::Never(problem)))
    }

    /// What it is about, for other plugins.
    pub(crate) fn claim(&self, sources: &[PathBuf]) -> Claim {
        let mut claim = Claim::new(&self.id(), &self.canonical, sources);
        (claim.is_tree, claim.is_directory) = (true, true);
        claim
    }

    /// What is declared to be there; nothing if what was there before is to come back.
    pub(crate) fn wanted(&self) -> Option<&ScaffoldDefinition> {
        self.definition.as_ref().filter(|definition| definition.ensure == Ensure::Present)
    }
}

impl Entity for Scaffold {
    fn report(&self) -> EntityReport {
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
        }
        for (kind, name) in [("user", &definition.owner), ("group", &definition.group)] {
            report.edges.needs.extend(name.iter().map(|name| Asset::new(kind, name.as_str())));
        }
        report
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        let workshop = self.usable().and_then(|()| Workshop::open(host));
        let has_begun = || workshop.as_ref().is_ok_and(Workshop::has_begun);
        let applied = workshop.as_ref().map_err(Clone::clone).and_then(|workshop| workshop.apply(self, mode, output));
        match applied {
            Ok(applied) => applied,
            Err(Obstacle::NeedsForce(reason)) => Applied::NeedsForce(ForceTo::Proceed(reason)),
            Err(Obstacle::Never(reason)) => {
                output.error(reason);
                if has_begun() { Applied::FAILED } else { Applied::FAILED_UNCHANGED }
            }
        }
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        match self.usable().and_then(|()| Workshop::open(host)?.check(self)) {
            Ok(verdict) => verdict,
            Err(Obstacle::NeedsForce(reason)) => Verdict::NeedsForce(ForceTo::Proceed(reason)),
            Err(Obstacle::Never(reason)) => {
                output.error(reason);
                Verdict::Failed
            }
        }
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        difference::of(self, host).ok().flatten()
    }
}
