//! Tests of the precedence of resource files.

use super::*;
use std::os::unix::fs::symlink;

/// Creates two directories with these files: one without content is empty, `@` is a link to `/dev/null`, and `dir` an
/// empty directory.
fn both<N: AsRef<str>>(own: &[(N, &str)], packaged: &[(N, &str)]) -> (tempfile::TempDir, ResourceDirs) {
    let root = tempfile::tempdir().unwrap();
    for (directory, files) in [("own", own), ("packaged", packaged)] {
        fs::create_dir(root.path().join(directory)).unwrap();
        for (below, content) in files {
            let path = root.path().join(directory).join(below.as_ref());
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match *content {
                "@" => symlink("/dev/null", path).unwrap(),
                "dir" => fs::create_dir(path).unwrap(),
                content => fs::write(path, content).unwrap(),
            }
        }
    }
    let dirs = ResourceDirs::new(vec![root.path().join("own"), root.path().join("packaged")]).unwrap();
    (root, dirs)
}

/// Returns the files in use as `DIRECTORY/PATH`, sorted.
fn counting(dirs: &ResourceDirs) -> Vec<String> {
    let root = dirs.weakest().parent().unwrap();
    let shown = |file: ResourceFile| file.path.strip_prefix(root).unwrap().display().to_string();
    let mut found: Vec<String> = dirs.walk().unwrap().into_iter().map(shown).collect();
    found.sort();
    found
}

#[test]
fn the_strongest_counts() {
    let packaged = [("a/x", "1"), ("a/y", "1"), ("b", "1")];
    let (_root, dirs) = both(&[("a/x", "2"), ("a/z", "2")], &packaged);
    assert_eq!(counting(&dirs), ["own/a/x", "own/a/z", "packaged/a/y", "packaged/b"]);
    let of = |below: &str| dirs.directory_of(Path::new(below)).unwrap() == dirs.directory(0);
    assert!(of("a/x") && of("a/z") && of("a") && !of("a/y") && !of("b") && !of("missing"));
}

#[test]
fn an_empty_file_masks_others_and_is_itself_where_there_are_none() {
    let (_root, dirs) =
        both(&[("x", ""), ("new", ""), ("y", "@"), ("none", "@")], &[("x", "1"), ("y", "1"), ("z", "")]);
    assert_eq!(counting(&dirs), ["own/new", "packaged/z"]);
    let masks = |below: &str| dirs.directory_of(Path::new(below)).err().map(|masked| masked.0);
    assert_eq!(masks("x"), Some(dirs.directory(0).join("x")));
    assert_eq!(masks("y"), Some(dirs.directory(0).join("y")));
    assert_eq!((masks("new"), masks("z"), masks("missing")), (None, None, None));
}

#[test]
fn a_file_takes_the_place_of_a_directory_and_the_reverse() {
    let (_root, dirs) = both(
        &[("a", "@"), ("b", "2"), ("c/x", "2"), ("d", "dir")],
        &[("a/x", "1"), ("b/x", "1"), ("c", "1"), ("d/x", "1")],
    );
    assert_eq!(counting(&dirs), ["own/b", "own/c/x", "packaged/d/x"]);
    for hidden in ["a/x", "b/x"] {
        assert!(dirs.directory_of(Path::new(hidden)).is_err(), "{hidden}");
    }
}

#[test]
fn one_directory_is_as_it_is() {
    let (_root, both) = both(&[][..], &[("x", ""), ("y", "@"), ("a/z", "1")]);
    let dirs = ResourceDirs::from(both.weakest().to_owned());
    assert_eq!(counting(&dirs), ["packaged/a/z", "packaged/x", "packaged/y"]);
    assert_eq!(dirs.directory_of(Path::new("y")), Ok(dirs.weakest()));
}

#[test]
fn a_folder_has_to_be_in_one_of_them() {
    let (root, dirs) = both(&[][..], &[("a/x", "1")]);
    assert_eq!(dirs.list(Path::new("a")).unwrap().len(), 1);
    let error = dirs.list(Path::new("b")).unwrap_err();
    assert_eq!((error.path, error.error.kind()), (root.path().join("packaged/b"), ErrorKind::NotFound));
}

/// Listing, walking and looking up agree for any files.
#[test]
fn what_is_listed_is_what_is_found() {
    let mut seed = 1_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for _ in 0..200 {
        let mut trees: [BTreeMap<String, &str>; 2] = Default::default();
        for tree in &mut trees {
            for name in ["a", "b", "a/x", "a/y", "c/x", "c"] {
                let content = ["1", "", "@", "dir"][usize::try_from(random(4)).unwrap()];
                let parent = name.split_once('/').map(|(parent, _)| parent);
                let fits = parent.is_none_or(|parent| tree.get(parent).is_none_or(|content| *content == "dir"));
                let is_parent = tree.keys().any(|known| known.starts_with(&format!("{name}/")));
                if random(2) == 0 && fits && !is_parent {
                    tree.insert(name.into(), content);
                }
            }
        }
        let [own, packaged] = &trees;
        let pairs = |tree: &BTreeMap<String, &'static str>| -> Vec<(String, &'static str)> {
            tree.iter().map(|(name, content)| (name.clone(), *content)).collect()
        };
        let (own, packaged) = (pairs(own), pairs(packaged));
        let (_root, dirs) = both(&own, &packaged);
        let walked = dirs.walk().unwrap();
        for name in ["a", "b", "a/x", "a/y", "c/x", "c"] {
            let listed = walked.iter().find(|file| file.below == Path::new(name)).map(|file| &file.path);
            let found = dirs.directory_of(Path::new(name)).ok().map(|directory| directory.join(name));
            let found = found.filter(|path| path.symlink_metadata().is_ok_and(|metadata| !metadata.is_dir()));
            assert_eq!(listed, found.as_ref(), "{name} of {own:?} over {packaged:?}");
        }
    }
}
