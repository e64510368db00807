//! Bases: copies of files that were there before us.

use holo_change::error::PathError;
use holo_change::{Durability, Image, PathHandle, Unmanageable};

/// The suffix of a base that is not complete.
const INCOMPLETE: &str = ".new";
/// The suffix of a file that has not been moved to its path.
const RESTORED: &str = ".holonew";

/// Saves a copy of a file. The directory entry is not synced: callers that save many sync them together.
///
/// # Errors
/// If it cannot be copied.
pub(crate) fn save_base(file: &PathHandle, base: &PathHandle) -> Result<(), Unmanageable> {
    let Some(image) = Image::load(file)? else { return Ok(()) };
    base.create_folder()?;
    let temporary = base.temporary(INCOMPLETE);
    image.write_to(&temporary)?;
    Durability::Each.sync([&temporary], [])?;
    temporary.rename_to(base)?;
    Ok(())
}

/// Returns true if a file is equal to its base.
///
/// # Errors
/// If either cannot be read.
pub(crate) fn is_base(file: &PathHandle, base: &PathHandle) -> Result<bool, PathError> {
    let image = |place| match Image::load(place) {
        Ok(image) => Ok(image),
        Err(Unmanageable::WrongType) => Ok(None),
        Err(Unmanageable::Path(error)) => Err(error),
    };
    let Some(base) = image(base)? else { return Ok(false) };
    image(file)?.map_or(Ok(false), |current| current.equals(&base))
}

/// Replaces a file by its base, in one step.
///
/// # Errors
/// If it cannot be copied.
pub(crate) fn restore_base(base: &PathHandle, file: &PathHandle) -> Result<(), Unmanageable> {
    file.create_folder()?;
    replace_by_copy(base, &file.temporary(RESTORED), file)
}

/// Replaces a file by a copy of another one, in one step. The temporary path is on the same file system as the file.
///
/// # Errors
/// If it cannot be copied.
pub(crate) fn replace_by_copy(from: &PathHandle, temporary: &PathHandle, to: &PathHandle) -> Result<(), Unmanageable> {
    let Some(image) = Image::load(from)? else { return Ok(()) };
    image.write_to(temporary)?;
    Durability::Each.sync([temporary], [])?;
    temporary.rename_to(to)?;
    Ok(())
}
