//! Notices for the user that are not errors.

use crate::error::PathError;

/// Receives notices, and formats them.
pub trait Notices {
    /// Reports an unreadable record, which is left unchanged.
    fn unreadable_record(&mut self, error: &PathError);

    /// Reports that an entity has taken over the object of another one.
    fn taken_over(&mut self, by: &str, from: &str);
}
