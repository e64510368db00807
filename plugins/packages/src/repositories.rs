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
pub(crate) use scan::{Repositories, scan};
