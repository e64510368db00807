//! Applies random patches to changed texts and compares with the real `patch`: both give the same result, or both fail.

use bstr::ByteSlice;
use holo_diff::{Patch, hunks};
use holo_testing::random::{self, Random};
use holo_testing::{Need, ScratchRoot, trial};
use libtest_mimic::{Failed, Trial};
use std::fs;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial("patches of drifted texts end as with patch", &[Need::Program("patch")], || {
        random::cases(400, one);
        Ok::<(), Failed>(())
    })]
}

/// Returns lines, some of which are frequent.
fn text(random: &mut Random) -> Vec<Vec<u8>> {
    let kinds = 2 + random.below(30);
    let line = |random: &mut Random| match random.below(8) {
        0 => b"\n".to_vec(),
        1 => b"}\n".to_vec(),
        _ => format!("line {}\n", random.below(kinds)).into_bytes(),
    };
    let count = random.below(40);
    (0..count).map(|_| line(random)).collect()
}

/// Inserts, removes and replaces a few lines.
fn drift(lines: &[Vec<u8>], steps: usize, word: &str, random: &mut Random) -> Vec<Vec<u8>> {
    let mut lines = lines.to_vec();
    for step in 0..steps {
        let at = random.below(lines.len() + 1);
        let new = format!("{word} {step}\n").into_bytes();
        match random.below(4) {
            0 | 1 => lines.insert(at, new),
            2 if at < lines.len() => lines[at] = new,
            _ if at < lines.len() => drop(lines.remove(at)),
            _ => lines.extend([new]),
        }
    }
    lines
}

fn bytes(lines: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut text = lines.concat();
    if random.chance(10) && text.ends_with(b"\n") {
        text.pop();
    }
    text
}

fn one(random: &mut Random) {
    let old = text(random);
    let steps = 1 + random.below(5);
    let new = drift(&old, steps, "edited", random);
    let steps = random.below(6);
    let base = drift(&old, steps, "drifted", random);
    let (old, new, base) = (bytes(&old, random), bytes(&new, random), bytes(&base, random));
    if old == new {
        return;
    }
    let patch = [b"--- a/text\n+++ b/text\n", &hunks(&old, &new)[..]].concat();
    let ours = Patch::parse(&patch).unwrap().apply(&base);

    let root = ScratchRoot::new();
    let path = |name: &str| root.path().join(name);
    fs::write(path("base"), &base).unwrap();
    fs::write(path("patch"), &patch).unwrap();
    let options =
        "--force --binary --posix --quiet --fuzz=2 --no-backup-if-mismatch --reject-file=- --output=made base patch";
    let run = root.run("patch", &options.split(' ').collect::<Vec<_>>());
    let theirs = run.success().then(|| fs::read(path("made")).unwrap_or_default());
    let shown = || {
        let [old, base, patch] = [&old, &base, &patch].map(|text| text.as_bstr());
        format!("old:\n{old}\nbase:\n{base}\npatch:\n{patch}\n{run}")
    };
    match (&ours, &theirs) {
        (Ok(ours), Some(theirs)) => assert_eq!(ours.as_bstr(), theirs.as_bstr(), "{}", shown()),
        (Err(_), None) => {}
        (Ok(ours), None) => panic!("patch refuses what we make into\n{}\n{}", ours.as_bstr(), shown()),
        (Err(error), Some(theirs)) => {
            panic!("we refuse ({error}) what patch makes into\n{}\n{}", theirs.as_bstr(), shown())
        }
    }
}
