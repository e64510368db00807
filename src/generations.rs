//! Generations: the inputs of earlier runs, kept for rollbacks.
//!
//! The inputs are the files that define the desired state of the machine: `holorc` and its snippets, resource files,
//! data, the machine's own facts, and the output of generators. When a run changes an entity and the inputs differ from
//! those of the last generation, they become a new generation. The state database has them, with one row for an input that does not change
//! from one generation to the next (see `tree`).
//!
//! `inputs` finds the current inputs, and `recording` makes a generation of them, concurrently with the run. It does not read files whose
//! stamps are those in the last generation. `store` reads and removes generations.
//!
//! `future` copies the current inputs with changes that were not made, for `holo check --with` and `--without`.
//!
//! `values` are reported by entities about the states that they were in, such as versions of packages, and are given
//! back to plugins in a rollback.
//!
//! A `pin` makes runs use a generation's inputs, which `checkout` has written to a directory, instead of the current
//! ones. Runs hold a shared lock on that directory; it is removed only while no run holds the lock. A `fingerprint`
//! detects whether inputs have changed since a run began to read them.

mod fingerprint;
mod future;
mod inputs;
mod pin;
mod recording;
mod store;
#[cfg(test)]
mod tests;
mod values;
mod version;

pub use fingerprint::{Extent, Fingerprint, hasher};
pub use future::{Changes, FutureError};
pub use inputs::{Access, Inputs, Node, followed};
pub use pin::{Pin, PinError, restore_generated, tidy};
pub use recording::{Keeper, Observer, Reading, Recorded, RecordingError, Request, read};
pub use store::{Counts, Difference, Generation, GenerationError, How, Listed, Store, differences};
pub use values::{Values, write_kept};
pub use version::Version;
