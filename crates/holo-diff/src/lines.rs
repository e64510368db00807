//! The lines of two texts as numbers, and which of them are changed.

/// The class of a line; lines of both texts are equal if and only if their classes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class(u32);

impl From<usize> for Class {
    fn from(index: usize) -> Class {
        Class(index as u32)
    }
}

impl From<Class> for usize {
    fn from(class: Class) -> usize {
        class.0 as usize
    }
}

/// A text as lines, including their newlines.
pub(super) struct Text<'a> {
    pub(super) lines: Vec<&'a [u8]>,
    /// The class of each line.
    pub(super) classes: Vec<Class>,
}

/// Marks each line of both texts that is changed: removed from the old text, or added to the new one.
pub(super) struct Changes {
    pub(super) old: Vec<bool>,
    pub(super) new: Vec<bool>,
}

/// The lines of a text that are considered in the search.
pub(super) struct Kept {
    pub(super) classes: Vec<Class>,
    /// The position of each line in the whole text.
    pub(super) positions: Vec<usize>,
}

/// Returns the number of equal pairs before the first difference.
pub(super) fn count_equal<T: PartialEq>(one: impl Iterator<Item = T>, other: impl Iterator<Item = T>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).count()
}

/// Returns a power of two that approximates the square root, never below it.
pub(super) fn coarse_sqrt(n: usize) -> usize {
    let bits = usize::BITS - n.leading_zeros();
    1 << bits.div_ceil(2)
}
