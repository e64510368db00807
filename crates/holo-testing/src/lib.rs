//! Test support for holo and its plugins.
//!
//! Use it when you write a test against a whole root directory: [`tree`] turns text into files and
//! back, [`ScratchRoot`] is a root to throw away, [`Scenario`] is a folder with a root to start from
//! and the output to expect, [`Overlay`] is a copy of this machine to throw away, booted if need be.
//! `holo test` is a thin layer over [`scenario`]; everything else is for tests in Rust. A test that
//! needs more than the workspace offers says so through [`trial`].

pub mod binaries;
pub mod disturb;
mod ends;
mod error;
mod files;
pub mod overlay;
pub mod processes;
pub mod random;
pub mod require;
mod run;
pub mod scenario;
mod schema;
pub mod scratch;
pub mod signals;
mod spawn;
pub mod tree;

pub use ends::{End, Ends};
pub use error::IoError;
pub use files::{copy_program, write_script};
pub use overlay::Overlay;
pub use random::Random;
pub use require::{Need, run_modules, trial, trial_of};
pub use run::Run;
pub use scenario::{Scenario, set_umask};
pub use schema::schema_is_kept;
pub use scratch::ScratchRoot;
