//! Indexes that cannot be confused with each other.

/// Defines an index of one kind of thing, which a `TiVec` or `TiSlice` is indexed by.
macro_rules! define_index {
    ($(#[$doc:meta])* $visibility:vis $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visibility struct $name(usize);

        impl From<usize> for $name {
            fn from(index: usize) -> Self {
                $name(index)
            }
        }

        impl From<$name> for usize {
            fn from(index: $name) -> usize {
                index.0
            }
        }
    };
}

pub(crate) use define_index;

define_index! {
    /// The index of an entity among all that the plugins have listed.
    pub EntityIndex
}

define_index! {
    /// The index of a plugin among those of a run.
    pub PluginIndex
}
