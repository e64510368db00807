//! A process that is prepared for starting programs.

use crate::{groups, launcher};

/// Lets nothing that is started outlive this process. As long as it lives: at the end of `main` it is dropped.
#[derive(Debug)]
#[must_use = "it is held until the end of main"]
pub struct Prepared(());

/// Prepares a process for starting programs: the first thing in its `main`.
///
/// - Programs can run as [someone else](crate::Program::identity), and what is running when a signal ends us is ended too. For both our own
///   binary is started with private words; then this call does not return.
/// - Programs inherit none of the descriptors that we have inherited.
///
/// A process that handles signals itself should not be prepared; it can use [`end_all`](crate::end_all).
pub fn prepare() -> Prepared {
    launcher::serve_if_asked();
    groups::mark_inherited_descriptors();
    groups::set_prepared();
    Prepared(())
}

impl Drop for Prepared {
    fn drop(&mut self) {
        groups::end_guard();
    }
}
