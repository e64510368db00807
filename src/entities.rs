//! Entities: their reports, their indexes, how people name them, and the resource files that define them.

pub mod entity;
pub mod node;
pub mod resources;
pub mod subject;
