//! Notices of what a person should know of, and what is no reason to stop.

use crate::error::PathError;

/// Takes notices, and puts them into words.
pub trait Notices {
    /// A record cannot be read; it is left alone.
    fn unreadable_record(&mut self, error: &PathError);

    /// An entity has taken over what another one managed.
    fn taken_over(&mut self, by: &str, from: &str);
}
