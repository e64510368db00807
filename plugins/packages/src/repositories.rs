//! Repositories as entities: each is made of a few files, and what was at their paths before comes back when nothing defines it any more.

mod entity;
mod executor;
mod inspection;
mod operations;
mod preview;
mod record;
mod scan;

pub(crate) use entity::RepositoryEntity;
pub(crate) use executor::apply;
use holo_plugin::{Host, Verdict};
pub(crate) use scan::{Repositories, scan};

/// Returns true if applying a repository would change it, as far as that can be told.
pub(crate) fn is_pending(host: &Host, entity: &RepositoryEntity) -> bool {
    let verdict = inspection::Inspection::open(host).and_then(|inspection| inspection.check(entity));
    verdict.is_ok_and(|verdict| verdict != Verdict::InDesiredState)
}
