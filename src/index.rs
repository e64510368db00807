//! The indexes that the whole dispatcher uses.

pub use holo_index::{Table, define_index};

/// A value for each entity.
pub type PerEntity<T> = Table<EntityIndex, T>;

define_index! {
    /// The index of an entity among all that the plugins have listed.
    pub EntityIndex
}

define_index! {
    /// The index of a plugin among those of a run.
    pub PluginIndex
}
