//! Removing several files.

use super::PathHandle;
use crate::error::Result;
use crate::shares::{self, SHARE};

/// Removes files if they exist, with several threads if there are many, because freeing the blocks of a file may have
/// to wait for the device. Returns for each file whether it existed.
///
/// # Errors
/// If a file cannot be removed. Some of the others may remain then.
pub(crate) fn remove_all(places: &[PathHandle]) -> Result<Vec<bool>> {
    let mut were_there = vec![false; places.len()];
    let shares = places.chunks(SHARE).zip(were_there.chunks_mut(SHARE));
    let remove = |(): &(), (places, were_there): (&[PathHandle], &mut [bool])| {
        let mut both = places.iter().zip(were_there);
        both.try_for_each(|(place, was_there)| place.remove_if_there().map(|removed| *was_there = removed))
    };
    let removed =
        shares::work_on((places.len(), shares::threads_to_free(places.len())), shares, (&(), || Some(())), remove);
    removed.into_iter().collect::<Result<()>>()?;
    Ok(were_there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_handle::Tree;
    use std::fs;
    use std::path::Path;

    #[test]
    fn many_files_are_removed_and_those_that_were_gone_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::open(folder.path()).unwrap();
        let places: Vec<PathHandle> = (0..1000).map(|number| tree.place(Path::new(&number.to_string()))).collect();
        for number in (0..1000).filter(|number| number % 3 != 0) {
            fs::write(folder.path().join(number.to_string()), "x").unwrap();
        }
        let expected: Vec<bool> = (0..1000).map(|number| number % 3 != 0).collect();
        assert_eq!(remove_all(&places).unwrap(), expected);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_cannot_be_removed_is_an_error_wherever_it_is() {
        for number in [0, 70, 299] {
            let folder = tempfile::tempdir().unwrap();
            let tree = Tree::open(folder.path()).unwrap();
            fs::create_dir(folder.path().join(number.to_string())).unwrap();
            let places: Vec<PathHandle> = (0..300).map(|number| tree.place(Path::new(&number.to_string()))).collect();
            let error = remove_all(&places).unwrap_err();
            assert!(error.to_string().contains(&format!("/{number}")), "{error}");
        }
    }

    #[test]
    fn whatever_is_renamed_over_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let tree = Tree::open(path).unwrap();
        fs::write(path.join("outside"), "outside").unwrap();
        let make: [fn(&Path); 4] = [
            |_| {},
            |to| fs::write(to, "old").unwrap(),
            |to| std::os::unix::fs::symlink("outside", to).unwrap(),
            |to| std::os::unix::net::UnixListener::bind(to).map(drop).unwrap(),
        ];
        for make in make {
            fs::write(path.join("from"), "new").unwrap();
            make(&path.join("to"));
            tree.place(Path::new("from")).rename_over(&tree.place(Path::new("to"))).unwrap();
            assert_eq!(fs::read_to_string(path.join("to")).unwrap(), "new");
            assert!(!path.join("from").exists());
            fs::remove_file(path.join("to")).unwrap();
        }
        assert_eq!(fs::read_to_string(path.join("outside")).unwrap(), "outside");
        fs::write(path.join("from"), "new").unwrap();
        fs::create_dir(path.join("to")).unwrap();
        assert!(tree.place(Path::new("from")).rename_over(&tree.place(Path::new("to"))).is_err());
        assert!(path.join("from").exists() && path.join("to").exists());
    }
}
