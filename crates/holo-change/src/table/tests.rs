//! Tests of tables against sorted maps.

use super::*;
use crate::path_handle::Tree;
use std::fs;

impl Row for u8 {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(*self);
    }

    fn decode(bytes: &[u8]) -> Option<u8> {
        bytes.first().copied()
    }
}

fn rows<T>(rows: impl Iterator<Item = Result<T>>) -> Vec<T> {
    rows.collect::<Result<_>>().unwrap()
}

/// Returns a deterministic sequence of pseudo-random numbers.
fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(seed * 2 + 1), |state| {
        let mut state = *state;
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Some(state)
    })
}

#[test]
fn a_table_is_a_sorted_map() {
    let folder = tempfile::tempdir().unwrap();
    let place = Tree::open(folder.path()).unwrap().place(Path::new("x"));
    for seed in 0..40 {
        let (mut table, mut map) = (Table::new(&place), BTreeMap::new());
        let mut other = table.like();
        let count = usize::try_from(seed * 7).unwrap();
        for (index, number) in numbers(seed).take(count).enumerate() {
            // Every other table is filled in order.
            let number = if seed % 2 == 0 { index as u64 } else { number % 90 };
            let path = PathBuf::from(format!("{}/a-{:03}", if number > 40 { "b" } else { "a!" }, number));
            let row = u8::try_from(index % 250).unwrap();
            table.insert(&path, row).unwrap();
            if index % 3 == 0 {
                other.insert(&path, ()).unwrap();
            }
            map.insert(path, row);
        }
        let expected: Vec<(PathBuf, u8)> = map.clone().into_iter().collect();
        assert_eq!(rows(table.iter()), expected, "{seed}");
        assert_eq!(rows(table.clone().backwards()), expected.into_iter().rev().collect::<Vec<_>>(), "{seed}");
        for (path, row) in &map {
            assert_eq!((table.get(path).unwrap(), table.contains(path).unwrap()), (Some(*row), true), "{seed}");
        }
        for missing in ["", "a!", "a!/a-", "c", "b/a-0"] {
            let missing = Path::new(missing);
            assert_eq!((table.get(missing).unwrap(), table.contains(missing).unwrap()), (None, false));
        }
        let joined = rows(table.join(&other));
        assert_eq!(joined.len(), map.len());
        for (path, ours, theirs) in joined {
            assert_eq!((ours, theirs), (map.get(&path).copied(), other.get(&path).unwrap()), "{seed}");
        }
        assert!(seed < 2 || !table.runs.is_empty());
        assert!(table.runs.len() <= MAX_RUNS && (seed % 2 != 0 || table.runs.len() < 2), "{seed}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_is_in_a_directory_comes_after_it() {
    let paths = ["a", "a/b", "a/b/c", "a/b!", "a!", "a!/b", "a.b"].map(PathBuf::from);
    let mut table = Table::default();
    for path in paths.iter().rev() {
        table.insert(path, ()).unwrap();
    }
    assert_eq!(rows(table.paths()), paths);
    // In the order of path components.
    assert!(paths.is_sorted());
}

#[test]
fn a_changed_copy_leaves_the_table_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let place = Tree::open(folder.path()).unwrap().place(Path::new("x"));
    let mut table = Table::new(&place);
    table.extend((0..20u8).map(|number| Ok((format!("{number:02}").into(), number)))).unwrap();
    let mut copy = table.clone();
    copy.extend((20..40u8).map(|number| Ok((format!("{number:02}").into(), number)))).unwrap();
    assert_eq!((rows(table.iter()).len(), rows(copy.iter()).len()), (20, 40));
    assert_eq!(table.get(Path::new("20")).unwrap(), None);
}

#[test]
fn without_a_folder_all_is_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let place = Tree::open(folder.path()).unwrap().place(Path::new("missing/x"));
    let mut table = Table::new(&place);
    table.extend((0..40u8).map(|number| Ok((format!("{number:02}").into(), number)))).unwrap();
    assert!(table.runs.is_empty());
    assert_eq!((rows(table.iter()).len(), table.get(Path::new("07")).unwrap()), (40, Some(7)));
}
