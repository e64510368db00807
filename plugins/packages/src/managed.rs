//! The entities of the plugin: packages and repositories.

use crate::entity::PackageEntity;
use crate::repositories::RepositoryEntity;
use bstr::BString;
use holo_plugin::declared::Declared;
use holo_plugin::definitions::Hindrance;
use holo_plugin::index::Table;
use holo_plugin::{Applied, Entity, EntityReport, FilePair, Host, Job, Mode, Output, Part, SetAnswers, Verdict};
use std::sync::Arc;

/// A package, or a repository that packages come from.
pub(crate) enum Managed {
    Repository(Arc<Declared<RepositoryEntity>>),
    Package(Box<Declared<PackageEntity>>),
}

impl Managed {
    fn entity(&self) -> &dyn Entity {
        match self {
            Managed::Repository(repository) => &**repository,
            Managed::Package(package) => &**package,
        }
    }

    pub(crate) fn package(&self) -> Option<&Declared<PackageEntity>> {
        if let Managed::Package(package) = self { Some(package) } else { None }
    }

    pub(crate) fn repository(&self) -> Option<&Declared<RepositoryEntity>> {
        if let Managed::Repository(repository) = self { Some(repository) } else { None }
    }
}

impl Entity for Managed {
    fn report(&self) -> EntityReport {
        self.entity().report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        self.entity().apply(host, mode, output)
    }

    fn check(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Verdict {
        self.entity().check(host, mode, output)
    }

    fn send(&self, host: &Host, names: &[BString], output: &mut Output<'_>) {
        self.entity().send(host, names, output);
    }

    fn foresee(&self, host: &Host, names: &[BString], output: &mut Output<'_>) {
        self.entity().foresee(host, names, output);
    }

    fn hindrance(&self) -> Option<&Hindrance> {
        self.entity().hindrance()
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        self.entity().diff(host)
    }

    fn preview(&self, host: &Host) -> Option<FilePair> {
        self.entity().preview(host)
    }
}

/// Calls `work` with the jobs of a set whose entities are of one kind, if there are any.
pub(crate) fn with_those<'e, E: 'e>(
    set: &[Job<'e, Managed>],
    answers: &mut dyn SetAnswers,
    of_kind: impl Fn(&'e Managed) -> Option<&'e E>,
    work: impl FnOnce(&[Job<'e, E>], &mut dyn SetAnswers),
) {
    let (mut jobs, mut places) = (Vec::new(), Table::new());
    for (place, job) in set.iter().enumerate() {
        if let Some(entity) = of_kind(job.entity) {
            jobs.push(Job { entity, mode: job.mode });
            places.push(place);
        }
    }
    if !jobs.is_empty() {
        work(&jobs, &mut Part { places, answers });
    }
}
