//! Repositories as entities. Each consists of a few files, which are restored to their original content when its definition is removed.

mod entity;
mod executor;
mod inspection;
mod operations;
mod scan;

use holo_plugin::{Host, Verdict};

pub(crate) use entity::RepositoryEntity;
pub(crate) use executor::apply;
pub(crate) use scan::{Repositories, scan};

/// Returns true if an apply of the repository would change it, as far as that is known.
pub(crate) fn is_pending(host: &Host, entity: &RepositoryEntity) -> bool {
    let verdict = inspection::Inspection::open(host).and_then(|inspection| inspection.check(entity));
    verdict.is_ok_and(|verdict| verdict != Verdict::InDesiredState)
}
