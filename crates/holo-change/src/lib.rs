//! The engine that changes what is on disk: images of files, paths that never follow a stranger's symlink, durability, bases and intents.
//!
//! [`PathHandle`] and [`Tree`] find files without following others' symlinks, [`Image`] is what a file is, [`ExtendedAttributes`] are its
//! ACL and the like, and [`Durability`] makes steps last. [`commit`] has the order of the steps in which anything is changed, for all
//! [stores](Store) of bases and intents: [`image_store`] keeps images in version 3's layout, [`tracked`] records of many paths in a
//! [`base_store`], and [`tree_store`] manifests of whole directories. [`claims`] tells the plugins of a run what the entities of the others are about.

pub mod access;
pub mod acl;
mod background;
pub mod base_store;
pub mod bases;
mod canonical;
pub mod claims;
mod copying;
mod directory;
pub mod error;
mod group;
mod hex;
mod image;
pub mod image_store;
mod locations;
pub mod manifest;
mod notices;
mod open_files;
mod overwriting;
mod path_handle;
mod paths;
mod resolution;
mod shares;
pub mod snapshot;
pub mod table;
pub mod tracked;
pub mod tree_store;
mod unchanged;

pub use background::{Commits, Ended};
pub use canonical::CanonicalPaths;
pub use error::PathError;
pub use group::{Results, Step, Store, Unsynced, commit};
pub use hex::hex;
pub use image::{Content, Image, Meanwhile, Stamp, Unmanageable, copy_in_one_step};
pub use locations::Locations;
pub use notices::Notices;
pub use open_files::are_open_for_writing;
pub use overwriting::is_between;
pub use path_handle::{
    Durability, ExtendedAttributes, FileStat, Kind, OnDisk, PathHandle, Tree, is_without_acls, set_ownership,
    set_ownership_of_new,
};
pub use paths::{join, path_bytes};
pub use resolution::{Links, Resolved};
pub use shares::{in_shares, one_by_one};
pub use unchanged::{Fingerprint, UnchangedRecord};
