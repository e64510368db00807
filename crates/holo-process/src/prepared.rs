//! Preparing a process for starting programs.

use crate::{groups, launcher};

/// A guard that keeps programs from outliving this process. It must be dropped at the end of `main`.
#[derive(Debug)]
#[must_use = "it is held until the end of main"]
pub struct Prepared(());

/// Prepares a process for starting programs. This must be the first call in `main`.
///
/// - Programs can run under [another identity](crate::Program::identity), and running programs are ended when a signal
///   ends this process. Both require that our own binary is started with internal commands; then this call does not
///   return.
/// - Programs inherit none of the descriptors that this process has inherited.
///
/// A process that handles signals itself should not be prepared, but can call [`end_all`](crate::end_all).
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
