//! Tests of patches: the diff of two texts converts each into the other.

use super::*;
use crate::hunks;
use holo_testing::random::{self, Random};

/// Returns a few lines, many of which are equal; the last may have no newline.
fn text(random: &mut Random) -> Vec<u8> {
    let lines = random.below(14);
    let mut text = Vec::new();
    for _ in 0..lines {
        let kinds: [&[u8]; 8] = [b"a\n", b"b\n", b"c\n", b"\n", b"d\r\n", b"{\n", b"\xff\n", b"- x\n"];
        let kind: &&[u8] = random.pick(&kinds);
        text.extend_from_slice(kind);
    }
    if random.chance(15) && text.ends_with(b"\n") {
        text.pop();
    }
    text
}

/// Returns the text with random changes.
fn edited(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = text.lines_with_terminator().map(<[u8]>::to_vec).collect();
    for _ in 0..=random.below(4) {
        let at = random.below(lines.len() + 1);
        match random.below(3) {
            0 => lines.insert(at, random.pick(&["new\n", "a\n", "\n"]).as_bytes().to_vec()),
            1 if at < lines.len() => drop(lines.remove(at)),
            _ if at < lines.len() => lines[at] = random.pick(&["other\n", "b\n"]).as_bytes().to_vec(),
            _ => {}
        }
    }
    lines.concat()
}

fn apply(patch: &str, base: &str) -> Result<String, String> {
    let patch = Patch::parse(patch.as_bytes()).map_err(|error| error.to_string())?;
    let applied = patch.apply(base.as_bytes()).map_err(|error| error.to_string())?;
    Ok(String::from_utf8(applied).unwrap())
}

#[test]
fn a_difference_leads_from_one_text_to_the_other_and_back() {
    random::cases(4000, |random| {
        let old = text(random);
        let new = if random.chance(30) { text(random) } else { edited(&old, random) };
        let patch = Patch::parse(&hunks(&old, &new)).unwrap();
        assert_eq!(patch.is_empty(), old == new);
        assert_eq!(patch.apply(&old).unwrap().as_bstr(), new.as_bstr());
        assert_eq!(patch.reversed().apply(&new).unwrap().as_bstr(), old.as_bstr());
    });
}

#[test]
fn lines_around_a_hunk_may_have_changed() {
    let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    let patch = String::from_utf8(hunks(old.as_bytes(), old.replace('5', "five").as_bytes())).unwrap();
    assert_eq!(apply(&patch, &format!("0\n0\n{old}")), Ok(format!("0\n0\n{}", old.replace('5', "five"))));
    // The two outermost lines on each side.
    let drifted = old.replace('2', "two").replace('3', "three").replace('8', "eight");
    assert_eq!(apply(&patch, &drifted), Ok(drifted.replace('5', "five")));
    let message = apply(&patch, &drifted.replace('4', "four")).unwrap_err();
    assert_eq!(message, "hunk 1 of 1 does not fit");
    assert!(apply(&patch, "").is_err());
}

#[test]
fn hunks_that_do_not_fit_are_shown() {
    let patch = "--- a\n+++ b\n@@ -1 +1 @@ f\n-1\n+one\n@@ -9 +9 @@\n-9\n+nine\n";
    let error = Patch::parse(patch.as_bytes()).unwrap().apply(b"1\n2\n").unwrap_err();
    assert_eq!(error, HunkError { number: 2, count: 2, hunk: "@@ -9 +9 @@\n-9\n+nine\n".into() });
}

#[test]
fn a_text_that_is_no_patch_is_refused() {
    for (text, message) in [
        ("hello\n", "line 1: there is no hunk, which would begin with \"@@ \""),
        ("@@ -1 @@\n", "line 1: the header of a hunk should be \"@@ -LINE,COUNT +LINE,COUNT @@\""),
        ("@@ -0 +1 @@\n", "line 1: the header of a hunk should be \"@@ -LINE,COUNT +LINE,COUNT @@\""),
        ("@@ -1 +1 @@\n-1\n", "line 3: the hunk ends early"),
        ("@@ -1 +1 @@\nx\n", "line 2: a line of a hunk begins with a blank, \"-\" or \"+\""),
        ("@@ -1 +0,0 @@\n+x\n", "line 2: the hunk has more lines than its header says"),
        ("@@ -1 +1 @@\n\\ No newline\n", "line 2: this stands behind no line"),
        ("@@ -1 +0,0 @@\n-1\n--- a\n+++ b\n", "line 3: a second file begins here, and only one can be changed"),
    ] {
        assert_eq!(Patch::parse(text.as_bytes()).unwrap_err().to_string(), message, "{text}");
    }
    assert!(Patch::parse(b"").unwrap().is_empty());
    assert_eq!(apply("Remark\n@@ -1,2 +1,2 @@\n\n-1\n+2\n-- \n2.30\n", "\n1\n"), Ok("\n2\n".into()));
}

#[test]
fn nothing_makes_a_patch_panic() {
    random::cases(3000, |random| {
        let (old, new) = (text(random), text(random));
        let mut patch = hunks(&old, &new);
        for _ in 0..random.below(4) {
            let at = random.below(patch.len() + 1);
            match random.below(3) {
                0 => patch.insert(at, *random.pick(b"@ -+0,19\\\n")),
                1 if at < patch.len() => drop(patch.remove(at)),
                _ => patch.truncate(at.max(8)),
            }
        }
        if let Ok(patch) = Patch::parse(&patch) {
            let _ = patch.apply(&text(random));
            let _ = patch.reversed().apply(&new);
        }
    });
}

#[test]
fn hunks_far_outside_of_the_text_are_found_or_refused() {
    for number in ["111111111", "4294967295"] {
        let hunk = |line: &str| format!("@@ -{number} +{number} @@\n-{line}\n+x\n");
        assert_eq!(apply(&hunk("b"), "a\nb\nc\n").unwrap(), "a\nx\nc\n", "{number}");
        assert!(apply(&hunk("z"), "a\nb\nc\n").is_err(), "{number}");
        assert_eq!(apply(&[hunk("a"), hunk("b")].concat(), "a\nb\nc\n").unwrap(), "x\nx\nc\n", "{number}");
    }
}
