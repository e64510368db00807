//! The engine for changes on disk: images of files, paths that are resolved without following untrusted symlinks,
//! durability, bases and intents.
//!
//! [`PathHandle`] and [`Tree`] access files without following symlinks of other users, [`Image`] is the state of a
//! file, [`ExtendedAttributes`] contains its ACL and other attributes, and [`Durability`] syncs the steps of a change.
//! [`commit`] defines the order of the steps for all [stores](Store) of bases and intents: [`image_store`] keeps images
//! in the layout of version 3, [`tracked`] keeps records of several paths in a [`base_store`], and [`tree_store`] keeps
//! manifests of directories. [`edited`] keeps what people have changed before it is overwritten. [`claims`] informs the plugins of a run about the paths of each other's entities.

pub mod access;
pub mod acl;
mod background;
pub mod base_store;
pub mod bases;
mod canonical;
pub mod claims;
pub mod edited;
pub mod error;
mod group;
mod image;
pub mod image_store;
mod locations;
pub mod manifest;
mod overwriting;
mod path_handle;
mod paths;
mod resolution;
mod shares;
pub mod snapshot;
pub mod tracked;
pub mod tree_store;
mod unchanged;

pub use background::{Commits, Ended};
pub use canonical::CanonicalPaths;
pub use error::{Notices, PathError};
pub use group::{Results, Step, Store, Unsynced, commit};
pub use image::{Content, Image, Meanwhile, Stamp, Unmanageable, copy_in_one_step, is_settled};
pub use locations::{Locations, Reads, SharedDatabase};
pub use overwriting::{are_open_for_writing, is_between};
pub use path_handle::{
    Durability, ExtendedAttributes, FileStat, Kind, OnDisk, PathHandle, Tree, is_without_acls, set_ownership,
    set_ownership_of_new,
};
pub use paths::{hex, join, path_bytes};
pub use resolution::{Links, Resolved};
pub use shares::{in_shares, one_by_one};
pub use unchanged::{Fingerprint, UnchangedRecord};
