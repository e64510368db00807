//! The trait that every plugin implements.

use crate::concurrently;
use crate::{Adopted, Adoption, Entity, Host, Job, Output, SetAnswers, Verdict};
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::{Candidate, Diagnosis, ScanLimit, WatchLine};

/// A plugin: it knows which entities there are.
pub trait Plugin: Sync {
    /// The entities that it manages.
    type Entity: Entity + Sync + 'static;

    /// Whether several entities of a set may be worked on at the same time. If not, `info` says so, and they are applied one by one in
    /// the plan's order.
    const CONCURRENT: bool = false;

    /// True if it implements [`Plugin::candidates`] and [`Plugin::adopt`].
    const ADOPTS: bool = false;

    /// True if it implements [`Plugin::watch`].
    const WATCHES: bool = false;

    /// The values that all its entities of a type can send, each `TYPE#NAME`.
    const SENDS: &'static [&'static str] = &[];

    /// Lists all entities, in any order. What is wrong with a single definition is said on `output`, and the others are listed.
    ///
    /// # Errors
    /// If nothing can be listed at all; it has been said why.
    fn scan(&self, host: &Host, output: &mut Output<'_>) -> Result<Vec<Self::Entity>, ScanError>;

    /// Lists at least those entities that a limited scan [wants](ScanLimit::wanted). A plugin that can have very many entities should do so without looking at all of them.
    ///
    /// # Errors
    /// As [`Plugin::scan`].
    fn scan_limited(
        &self,
        host: &Host,
        _: ScanLimit<'_>,
        output: &mut Output<'_>,
    ) -> Result<Vec<Self::Entity>, ScanError> {
        self.scan(host, output)
    }

    /// Finds one entity. A plugin that can do so without listing all should: version 3 asks for each entity in a process of its own.
    ///
    /// # Errors
    /// As [`Plugin::scan`].
    fn find(&self, host: &Host, id: &BStr, output: &mut Output<'_>) -> Result<Option<Self::Entity>, ScanError> {
        Ok(self.scan(host, output)?.into_iter().find(|entity| entity.report().id == id))
    }

    /// Finds entities again that have been listed before, and whose definitions are others by now, as received values are.
    fn find_again(&self, host: &Host, ids: &[BString], output: &mut Output<'_>) -> Vec<Self::Entity> {
        let found = if let [id] = ids {
            self.find(host, id.as_bstr(), output).map(Vec::from_iter)
        } else {
            self.scan(host, output)
        };
        let mut found = found.unwrap_or_default();
        found.retain(|entity| ids.contains(&entity.report().id));
        found
    }

    /// Applies entities of which none depends on another, in any order or together.
    fn apply_set(&self, host: &Host, set: &[Job<'_, Self::Entity>], answers: &mut dyn SetAnswers) {
        concurrently::apply(host, set, threads::<Self>(host), answers);
    }

    /// Finds out what applying entities would do, without changing anything.
    fn check_set(&self, host: &Host, set: &[Job<'_, Self::Entity>], answers: &mut dyn SetAnswers<Verdict>) {
        concurrently::check(host, set, threads::<Self>(host), answers);
    }

    /// Says what is wrong, or well, that nobody else can know: what is not seen by applying an entity, nor said when they are listed. Nothing
    /// is changed.
    fn doctor(&self, _: &Host, _: &mut Output<'_>) -> Vec<Diagnosis> {
        Vec::new()
    }

    /// Says what happens to entities as it happens, until nobody listens any more, or it cannot. `tell` takes one event, and returns false if it
    /// could not be told; it is told first that the plugin listens. What can be seen at the paths that the entities name (`WATCH`) need not be said. Returns false if something went wrong,
    /// which has been said on `output`.
    fn watch(&self, _: &Host, _: &mut Output<'_>, _tell: &mut dyn FnMut(&WatchLine) -> bool) -> bool {
        true
    }

    /// Lists what there is on this system because of a person, and is not as resource files have it: [`Plugin::adopt`] can turn each of them
    /// into one. Nothing is changed.
    ///
    /// # Errors
    /// If nothing can be listed at all; it has been said why.
    fn candidates(&self, _: &Host, _: &mut Output<'_>) -> Result<Vec<Candidate>, ScanError> {
        Ok(Vec::new())
    }

    /// Turns the state that something is in into resource files, which an apply would then not change anything for. Nothing is changed but
    /// in the directory that the request names.
    fn adopt(&self, _: &Host, _: Adoption<'_>, _: &mut Output<'_>) -> Adopted {
        Adopted::Unknown
    }

    /// Takes leave: everything that was asked for is done, and the process is about to end. What it has kept running is to end now, within
    /// the two seconds that the dispatcher waits.
    fn end(&self, _: &Host) {}
}

/// Returns the number of entities that a plugin may work on at the same time.
fn threads<P: Plugin + ?Sized>(host: &Host) -> usize {
    if P::CONCURRENT { host.jobs() } else { 1 }
}

/// Nothing could be listed; the user has been told why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanError;
