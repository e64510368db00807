//! The machine that a run works on, and the run itself: the root, the configuration and settings, the lock, the cache
//! directory, and signals.

pub mod cache;
pub mod config;
pub mod engine;
pub mod interrupt;
pub mod lock;
pub(crate) mod memory;
pub mod root;
pub mod settings;
