//! Tables with typed indexes, so that indexes of different tables cannot be confused.

use std::iter::Zip;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};
use std::{slice, vec};

/// A value for each item of a kind, such as each entity.
///
/// Indexes come from a table of the same items. An index out of bounds is therefore a bug, and indexing panics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table<I, T> {
    values: Vec<T>,
    indexes: PhantomData<I>,
}

impl<I: From<usize>, T> Table<I, T> {
    /// Returns an empty table.
    #[must_use]
    pub fn new() -> Table<I, T> {
        Table::from(Vec::new())
    }

    /// Returns a table of this length with the same value for each item.
    #[must_use]
    pub fn filled(value: T, len: usize) -> Table<I, T>
    where
        T: Clone,
    {
        Table::from(vec![value; len])
    }

    /// Adds a value and returns its index.
    pub fn push(&mut self, value: T) -> I {
        self.values.push(value);
        I::from(self.values.len() - 1)
    }

    /// Returns the number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns true if there are no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the values.
    pub fn iter(&self) -> slice::Iter<'_, T> {
        self.values.iter()
    }

    /// Returns mutable references to the values.
    pub fn iter_mut(&mut self) -> slice::IterMut<'_, T> {
        self.values.iter_mut()
    }

    /// Returns the indexes.
    pub fn indexes(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.values.len()).map(I::from)
    }

    /// Returns the values with their indexes.
    pub fn entries(&self) -> Zip<impl Iterator<Item = I> + use<I, T>, slice::Iter<'_, T>> {
        self.indexes().zip(&self.values)
    }
}

impl<I: From<usize>, T> Default for Table<I, T> {
    fn default() -> Table<I, T> {
        Table::new()
    }
}

impl<I, T> From<Vec<T>> for Table<I, T> {
    fn from(values: Vec<T>) -> Table<I, T> {
        Table { values, indexes: PhantomData }
    }
}

impl<I, T> FromIterator<T> for Table<I, T> {
    fn from_iter<V: IntoIterator<Item = T>>(values: V) -> Table<I, T> {
        Table::from(values.into_iter().collect::<Vec<T>>())
    }
}

impl<I, T> IntoIterator for Table<I, T> {
    type Item = T;
    type IntoIter = vec::IntoIter<T>;

    fn into_iter(self) -> vec::IntoIter<T> {
        self.values.into_iter()
    }
}

impl<'a, I, T> IntoIterator for &'a Table<I, T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> slice::Iter<'a, T> {
        self.values.iter()
    }
}

impl<'a, I, T> IntoIterator for &'a mut Table<I, T> {
    type Item = &'a mut T;
    type IntoIter = slice::IterMut<'a, T>;

    fn into_iter(self) -> slice::IterMut<'a, T> {
        self.values.iter_mut()
    }
}

impl<I: Into<usize>, T> Index<I> for Table<I, T> {
    type Output = T;

    #[expect(clippy::indexing_slicing, reason = "an index comes from a table of the same things")]
    fn index(&self, index: I) -> &T {
        &self.values[index.into()]
    }
}

impl<I: Into<usize>, T> IndexMut<I> for Table<I, T> {
    #[expect(clippy::indexing_slicing, reason = "an index comes from a table of the same things")]
    fn index_mut(&mut self, index: I) -> &mut T {
        &mut self.values[index.into()]
    }
}

/// Defines an index for one kind of item.
///
/// ```
/// holo_index::define_index! {
///     /// The index of a fruit.
///     pub FruitIndex
/// }
///
/// let mut colours = holo_index::Table::<FruitIndex, &str>::new();
/// let lemon = colours.push("yellow");
/// assert_eq!(colours[lemon], "yellow");
/// ```
#[macro_export]
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
