//! The records of applies: metadata of each run, and the outcome of each entity.
//!
//! They are kept in the state database. A run is recorded before it changes anything, so that a later run can detect
//! that it was killed. Of the runs that had no work to do, only the last one is kept.
//!
//! What the last check or apply found is its [`Standing`], for `holo status`.
//!
//! A [`Recorder`] turns the events of a run into records, a [`Writer`] appends them, and a [`History`] reads them.
//! Outcomes of entities also go to the system's journal.

mod journal;
mod record;
mod recorder;
mod standing;
mod store;

pub use record::{
    Began, Counts, DiffRecord, Ended, EntityRecord, LastRun, ProcessMark, RefusalRecord, RunResult, VERSION, Who,
};
pub use recorder::Recorder;
pub use standing::{Off, OffState, Standing, Standings};
pub use store::{History, Run, RunState, Runs, Writer};

#[cfg(test)]
mod tests;
