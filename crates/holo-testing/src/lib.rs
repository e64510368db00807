//! Test support for holo and its plugins.
//!
//! Use it for tests with a whole root directory: [`tree`] converts text to files and back, [`ScratchRoot`] is a
//! temporary root, [`Scenario`] is a folder with an initial root and the expected output, and [`Overlay`] is a
//! temporary copy of this machine, which can be booted. `holo test` is a thin layer over [`scenario`]; all other items
//! are for tests in Rust. Tests with requirements beyond the workspace declare them through [`trial`].

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
