//! The indexes that the whole dispatcher uses.

pub use holo_index::{Table, define_index};

/// A value for each entity.
pub type PerEntity<T> = Table<EntityIndex, T>;

define_index! {
    /// The index of an entity in the scan results of all plugins.
    pub EntityIndex
}

define_index! {
    /// The index of a plugin in a run.
    pub PluginIndex
}
