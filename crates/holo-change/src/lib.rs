//! The engine that changes what is on disk: images of files, paths that never follow a stranger's symlink, durability, bases and intents.
//!
//! [`PathHandle`] and [`Tree`] find files without following others' symlinks, [`Image`] is what a file is, [`ExtendedAttributes`] are its
//! ACL and the like, and [`Durability`] makes steps last. [`base_store`] keeps what was there before us, [`tracked`] changes paths step by
//! step, and [`claims`] tells the plugins of a run what the entities of the others are about.

pub mod base_store;
mod canonical;
pub mod claims;
mod copying;
mod directory;
pub mod error;
mod image;
mod locations;
mod notices;
mod open_files;
mod path_handle;
mod paths;
mod resolution;
pub mod tracked;

pub use canonical::CanonicalPaths;
pub use error::PathError;
pub use image::{Content, Image, Stamp, Unmanageable};
pub use locations::Locations;
pub use notices::Notices;
pub use open_files::are_open_for_writing;
pub use path_handle::{
    Durability, ExtendedAttributes, FileStat, Kind, OnDisk, PathHandle, Tree, set_ownership, set_ownership_of_new,
};
pub use paths::{join, path_bytes};
pub use resolution::{Links, Resolved};
