//! A scaffold: its definition, paths and report, and the operations: check, apply, compare and blame.

use crate::definition::{Ensure, ScaffoldDefinition};
use crate::error::{Result, ScaffoldError};
use crate::executor::Executor;
use crate::scaffolds::Together;
use crate::{difference, render, source};
use holo_change::claims::Claim;
use holo_change::error::PathError;
use holo_plugin::{Applied, Asset, Entity, EntityReport, FilePair, ForceTo, Host, Mode, Origin, Output, Span, Verdict};
use std::io::Read;
use std::path::{Path, PathBuf};
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
        }
    }

    pub(crate) fn id(&self) -> String {
        format!("{PREFIX}{}", self.target.display())
    }

    pub(crate) fn usable(&self) -> Result<()> {
        self.problem.clone().map_or(Ok(()), |problem| Err(ScaffoldError::Never(problem)))
    }

    /// Returns the claim to its paths, for other plugins.
    pub(crate) fn claim(&self, sources: &[PathBuf]) -> Claim {
        let mut claim = Claim::new(&self.id(), &self.canonical, sources);
        (claim.is_tree, claim.is_directory) = (true, true);
        claim
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

impl Entity for Scaffold {
    fn report(&self) -> EntityReport {
        self.to_report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        let executor = self.usable().and_then(|()| Executor::in_set(host, &self.together.shared()));
        let has_begun = || executor.as_ref().is_ok_and(Executor::has_begun);
        let applied = executor.as_ref().map_err(Clone::clone).and_then(|executor| executor.apply(self, mode, output));
        executor.iter().for_each(|executor| warn(executor, output));
        match applied {
            Ok(applied) => applied,
            Err(ScaffoldError::NeedsForce(reason)) => Applied::NeedsForce(ForceTo::Proceed(reason)),
            Err(ScaffoldError::Never(reason)) => {
                output.error(reason);
                if has_begun() { Applied::FAILED } else { Applied::FAILED_UNCHANGED }
            }
        }
    }

    fn check(&self, host: &Host, _: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        let executor = self.usable().and_then(|()| Executor::in_set(host, &self.together.shared()));
        let checked = executor.and_then(|executor| {
            let checked = executor.check(self);
            warn(&executor, output);
            checked
        });
        match checked {
            Ok(verdict) => verdict,
            Err(ScaffoldError::NeedsForce(reason)) => Verdict::NeedsForce(ForceTo::Proceed(reason)),
            Err(ScaffoldError::Never(reason)) => {
                output.error(reason);
                Verdict::Failed
            }
        }
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        difference::find(self, host).ok().flatten()
    }

    fn blame(&self, host: &Host, path: Option<&Path>) -> Option<Vec<Span>> {
        blame(self, path?, host).ok().flatten()
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        Executor::open(host).and_then(|executor| executor.preview(self)).ok().flatten()
    }
}

fn warn(executor: &Executor<'_>, output: &mut Output<'_>) {
    executor.take_warnings().iter().for_each(|warning| output.warning(warning));
}

/// Returns the origins of the lines of a file, or `None` if the path is not a file of the scaffold.
fn blame(entity: &Scaffold, path: &Path, host: &Host) -> Result<Option<Vec<Span>>> {
    let Some(definition) = entity.wanted() else { return Ok(None) };
    let executor = Executor::open(host)?;
    let path = executor.tracker.canonical(path)?;
    let target = executor.tracker.canonical(&entity.target)?;
    let Ok(below) = path.strip_prefix(&target) else { return Ok(None) };
    let Some(traced) = render::trace(definition, (&entity.file, host), below)? else { return Ok(None) };
    let place = executor.inside(&target)?.place(&path);
    let mut current = Vec::new();
    let read = place.open()?.read_to_end(&mut current);
    read.map_err(|error| PathError::new("read", place.shown(), error))?;
    // Programs that are run after rendering may have changed the rendered file.
    let record = executor.recall(entity)?.map(|remembered| remembered.base);
    let provisioned = record.as_ref().and_then(|record| record.tracks().get(&path)?.provisioned.clone());
    let is_as_made = provisioned.is_some_and(|made| executor.tracker.state(&path).is_ok_and(|state| state == made));
    let has_programs = !definition.post.is_empty();
    let other = if is_as_made && has_programs { Origin::Other("a program of post".into()) } else { Origin::Edited };
    Ok(Some(traced.become_text(current, |_, _| other.clone()).into_spans()))
}
