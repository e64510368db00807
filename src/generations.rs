//! Generations: the inputs of earlier runs, kept so that the machine can be brought back to what they say.
//!
//! The inputs are the files that say what the machine shall be: `holorc` and its snippets, resource files, data, the machine's own facts,
//! and what generators made of them. When a run changes something and they are not those of the last generation, they become a new one:
//! a pack with the objects that no other one has, named by their digests. Directories are objects too (see `tree`), so that one in
//! which nothing has changed is kept once.
//!
//! `inputs` finds the inputs of today, and `stamps` tells which of them are as they were without reading them. `recording` makes a
//! generation of them, which `keeper` has done beside the run; `store` has those that there are.
//!
//! `values` are what entities have said of the states that they were in, such as versions of packages, which is given back to plugins.
//!
//! A `pin` has a generation's inputs used instead of today's, as `checkout` has written them out. Runs hold a shared lock on that directory,
//! without which it is removed. A `fingerprint` tells whether inputs have changed since a run began to read them.

mod checkout;
mod digest;
mod fingerprint;
mod generation;
mod inputs;
mod keeper;
mod pack;
mod pin;
mod recording;
mod stamps;
mod store;
mod tree;
mod values;
mod version;

pub use checkout::restore_generated;
pub use digest::Digest;
pub use fingerprint::{Extent, Fingerprint};
pub use generation::{Counts, Difference, Generation, How, differences};
pub use keeper::{Keeper, Observer};
pub use pack::PackError;
pub use pin::{Pin, PinError, tidy};
pub use recording::{Reading, Recorded, RecordingError, Request, read};
pub use store::{GenerationError, Listed, Store};
pub use tree::{Access, Inputs, Node};
pub use values::{Values, write_kept};
pub use version::Version;

#[cfg(test)]
mod tests;
