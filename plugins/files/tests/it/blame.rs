//! The origins of lines, for random bases, resource files, patches and edits: together they make up the whole file, and each line that only
//! one source contains is attributed to it.

use bstr::{BString, ByteSlice};
use holo_testing::random::{Random, cases};
use holo_testing::{ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::fs;

const BASE: &str = "etc/conf";
const PLAIN: &str = "usr/share/holo/files/10-x/etc/conf";
const PATCH: &str = "etc/holo/resources/files/90-local/etc/conf.holopatch";

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial_of("every line has an origin, and the right one if it is in one place only", &[], || cases(25, one))]
}

/// Returns lines that name their author.
fn lines(author: &str, count: usize) -> Vec<String> {
    (1..=count).map(|number| format!("{author} {number}\n")).collect()
}

/// Inserts, removes and replaces a few lines.
fn edit(lines: &mut Vec<String>, author: &str, random: &mut Random) {
    for number in 0..1 + random.below(4) {
        let at = random.below(lines.len() + 1);
        match random.below(3) {
            0 if at < lines.len() => drop(lines.remove(at)),
            1 if at < lines.len() => lines[at] = format!("{author} {number}\n"),
            _ => lines.insert(at, format!("{author} {number}\n")),
        }
    }
}

fn one(random: &mut Random) {
    let count = random.below(12);
    let root = ScratchRoot::new().plugin("files").file(BASE, lines("base", count).concat());
    let mut now = lines("base", count);
    if random.chance(50) {
        now = lines("plain", 1 + random.below(9));
        root.write(PLAIN, now.concat());
    }
    let is_patched = random.chance(60) || !root.exists(PLAIN);
    if is_patched {
        // A patch is what was adopted.
        fs::create_dir_all(root.join("usr/share/holo/files/10-x")).unwrap();
        root.write("usr/share/holo/files/80-x/etc/conf.holopatch", "");
        let run = root.holo(&["apply"]);
        assert!(run.success(), "{run}");
        edit(&mut now, "patched", random);
        root.write(BASE, now.concat());
        let run = root.holo(&["adopt", "/etc/conf"]);
        assert!(run.success(), "{run}");
    }
    let run = root.holo(&["apply"]);
    assert!(run.success(), "{run}");
    edit(&mut now, "edited", random);
    root.write(BASE, now.concat());
    let run = root.holo(&["blame", "--json", "/etc/conf"]);
    assert!(run.success(), "{run}");
    let mut text = BString::default();
    for line in run.stdout.lines() {
        let line: serde_json::Value = serde_json::from_slice(line).unwrap();
        let of_span = line["text"].as_str().unwrap_or_default();
        for (index, written) in of_span.lines().enumerate() {
            let author = written.split(' ').next().unwrap_or_default();
            let source = line["source"].as_str().unwrap_or_default();
            let expected = match author {
                "base" | "edited" => line["origin"] == author,
                "plain" => source.ends_with(PLAIN),
                _ => source.ends_with(PATCH),
            };
            assert!(expected, "{written:?} is not of {line}\n{}", now.concat());
            if line["origin"] == "resource" {
                let number = line["source_line"].as_u64().unwrap() as usize + index;
                let in_source = fs::read_to_string(source).unwrap();
                let found = in_source.lines().nth(number - 1).unwrap_or_default();
                assert_eq!(found.strip_prefix('+').unwrap_or(found), written, "{line}");
            }
        }
        text.extend_from_slice(of_span.as_bytes());
    }
    assert_eq!(text, now.concat(), "{run}");
}
