//! Archives of a set that wait for others of the set which use the same paths.

use crate::shared::Shared;
use holo_plugin::{Applied, Entity, EntityReport, FilePair, Host, Mode, Output};

/// An archive of a set. The next archive that uses the same paths begins when all attempts of this one have ended.
pub(crate) struct Queued<'a, E> {
    pub(crate) id: &'a str,
    pub(crate) entity: &'a E,
    pub(crate) shared: &'a Shared,
}

impl<E: Entity> Entity for Queued<'_, E> {
    fn report(&self) -> EntityReport {
        self.entity.report()
    }

    fn apply(&self, host: &Host, mode: Mode<'_>, output: &mut Output<'_>) -> Applied {
        /// Leaves the queue even after a panic.
        struct Leave<'a>(&'a Shared, &'a str);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.queue.leave(self.1);
            }
        }
        let _leave = Leave(self.shared, self.id);
        self.entity.apply(host, mode, output)
    }

    fn diff(&self, host: &Host) -> Option<FilePair> {
        self.entity.diff(host)
    }
}
