//! Declared files compared with rsync, all at once and as a chain.

use super::{Scene, Step, content, is_filled, nothing_to_do, rsync, target, write_old};
use crate::timing::limits::Least;
use crate::timing::site::{Site, create_folder, holo};
use anyhow::Result;
use holo_testing::Need;
use std::fmt::Write as _;

const DEFINITIONS: &str = "usr/share/holo/files/01-bench.toml";
const SOURCE: &str = "source";
const COPY: &str = "copy";
const COMPARED: Least = Least::calls(1.0, "`statx` of the target: the definitions are one file");

pub(super) fn scene() -> Scene {
    let mut steps = vec![
        Step::new("first apply", |_| holo(&["apply"]))
            .at_least(Least::calls(10.0, "as `rsync -a`, and a sync: one inode").making(1.0))
            .checked(|site, _| is_filled(site, &site.root(), "wanted"))
            .takes_turns(),
        Step::new("`rsync -a`, to an empty directory", |site| Ok(copy(site, "-a")))
            .checked(|site, _| is_filled(site, &site.beside(COPY), "wanted")),
    ];
    steps.extend(nothing_to_do(
        COMPARED,
        Least::calls(4.0, "also, the target is opened, read and closed"),
        |site| Ok(copy(site, "-a")),
        |site| Ok(copy(site, "-ac")),
    ));
    steps.push(
        Step::new("scrub of all", |_| holo(&["apply"]))
            .at_least(Least::calls(2.0, "`statx` and `unlink` of the target"))
            .after(|site| site.remove(DEFINITIONS))
            .checked(|site, _| Ok(!site.root().join(target(0)).exists()))
            .late(),
    );
    Scene {
        name: "declared files",
        entities: "files",
        sizes: &[20, 1000, 10_000, 100_000],
        needs: &[&[Need::Program("rsync")]],
        system: None,
        prepare: |site| prepare(site, false),
        steps,
        ratios: &[
            ("first apply", "`rsync -a`, to an empty directory"),
            ("apply, nothing to do", "`rsync -a`, all equal"),
            ("apply --verify, nothing to do", "`rsync -ac`, all equal"),
        ],
        remarks: "The definitions are one file, which holo has to parse on a first apply; `rsync` reads a directory \
            of files. `rsync -ac` reads two files each, holo one.",
    }
}

pub(super) fn chain() -> Scene {
    Scene {
        name: "a chain of declared files",
        entities: "files, each after the previous one",
        sizes: &[20, 1000, 4000],
        needs: &[],
        system: None,
        prepare: |site| prepare(site, true),
        steps: vec![
            Step::new("first apply", |_| holo(&["apply"]))
                .at_least(
                    Least::calls(
                        14.0,
                        "each file must be on disk before the next one is written: intent, target, record",
                    )
                    .making(1.0)
                    .waiting(3.0),
                )
                .checked(|site, _| is_filled(site, &site.root(), "wanted")),
            Step::new("apply, nothing to do", |_| holo(&["apply"]))
                .at_least(COMPARED)
                .after(Site::settle)
                .changes_nothing(),
        ],
        ratios: &[],
        remarks: "The worst case of a first apply: no two files can be written together. There is no other program to \
            compare with.",
    }
}

/// Writes definitions, optionally with an edge from each file to the previous one, and a tree for rsync to copy.
fn prepare(site: &Site, is_chain: bool) -> Result<()> {
    site.plugins(&["files"])?;
    let mut definitions = String::new();
    for number in 0..site.size {
        let (path, text) = (target(number), content("wanted", number));
        write!(definitions, "[[file]]\npath = \"/{path}\"\ncontent = {text:?}\n")?;
        if is_chain && number > 0 {
            writeln!(definitions, "after = [\"file:/{}\"]", target(number - 1))?;
        } else if !is_chain {
            write_old(&site.beside(SOURCE).join(path), &text)?;
        }
    }
    create_folder(&site.beside(COPY))?;
    site.write(DEFINITIONS, &definitions)
}

fn copy(site: &Site, options: &str) -> Vec<std::ffi::OsString> {
    rsync(options, &site.beside(SOURCE), &site.beside(COPY))
}
