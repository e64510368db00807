//! Declared files compared with rsync, all at once and as a chain.

use super::{Scene, Step, content, is_filled, target};
use crate::timing::limits::Least;
use crate::timing::site::{Site, create_folder, holo};
use anyhow::Result;
use holo_testing::Need;
use std::fmt::Write as _;

const DEFINITIONS: &str = "usr/share/holo/files/01-bench.toml";
const SOURCE: &str = "source";
const COPY: &str = "copy";

pub(super) fn scene() -> Scene {
    Scene {
        name: "declared files",
        entities: "files",
        sizes: &[1000, 10_000, 100_000],
        needs: &[&[Need::Program("rsync")]],
        system: None,
        prepare: |site| prepare(site, None),
        steps: vec![
            Step::new("first apply", |_| holo(&["apply"]))
                .at_least(
                    Least::calls(20.0, "as overlays: target and record are two inodes, and the base is a link")
                        .making(2.0),
                )
                .checked(|site, _| is_filled(site, &site.root(), "wanted"))
                .takes_turns(),
            Step::new("`rsync -a`, to an empty directory", |site| {
                Ok(vec!["rsync".into(), "-a".into(), site.beside(SOURCE).join("").into(), site.beside(COPY).into()])
            })
            .checked(|site, _| is_filled(site, &site.beside(COPY), "wanted")),
            Step::new("apply, nothing to do", |_| holo(&["apply"]))
                .at_least(Least::calls(1.0, "`statx` of the target: the definitions are one file"))
                .after(Site::settle)
                .changes_nothing(),
            Step::new("check", |_| holo(&["check"]))
                .at_least(Least::calls(1.0, "`statx` of the target"))
                .changes_nothing(),
            Step::new("scrub of all", |_| holo(&["apply"]))
                .at_least(Least::calls(
                    10.0,
                    "the original file is restored through a second name; base, record and our copy are removed",
                ))
                .after(|site| site.remove(DEFINITIONS))
                .checked(|site, _| is_filled(site, &site.root(), "stock"))
                .late(),
        ],
        ratios: &[
            ("first apply", "`rsync -a`, to an empty directory"),
            ("check", "apply, nothing to do"),
            ("scrub of all", "first apply"),
        ],
    }
}

pub(super) fn chain() -> Scene {
    let (name, entities) = ("a chain of declared files", "files, each after the previous one");
    Scene { prepare: |site| prepare(site, Some("after")), ..chain_of(name, entities) }
}

pub(super) fn refreshes() -> Scene {
    let (name, entities) = ("a chain of refreshes", "files, each subscribing to the previous one");
    Scene { prepare: |site| prepare(site, Some("subscribes")), ..chain_of(name, entities) }
}

fn chain_of(name: &'static str, entities: &'static str) -> Scene {
    Scene {
        name,
        entities,
        sizes: &[1000, 2000, 4000, 10_000],
        needs: &[],
        system: None,
        prepare: |_| Ok(()),
        steps: vec![
            Step::new("first apply", |_| holo(&["apply"]))
                .at_least(
                    Least::calls(
                        26.0,
                        "each change must be on disk before the next one: base, intent, target and record, in this order",
                    )
                    .making(3.0)
                    .waiting(4.0),
                )
                .checked(|site, _| is_filled(site, &site.root(), "wanted")),
            Step::new("apply, nothing to do", |_| holo(&["apply"]))
                .at_least(Least::calls(1.0, "`statx` of the target"))
                .after(Site::settle)
                .changes_nothing(),
        ],
        ratios: &[],
    }
}

/// Writes definitions, optionally with an edge from each file to the previous one, the existing files, and a tree for
/// rsync to copy.
fn prepare(site: &Site, edge: Option<&str>) -> Result<()> {
    site.plugin("files")?;
    let mut definitions = String::new();
    for number in 0..site.size {
        site.write(&target(number), &content("stock", number))?;
        let (path, text) = (target(number), content("wanted", number));
        write!(definitions, "[[file]]\npath = \"/{path}\"\ncontent = {text:?}\n")?;
        if let Some(edge) = edge.filter(|_| number > 0) {
            writeln!(definitions, "{edge} = [\"file:/{}\"]", target(number - 1))?;
        }
        if edge.is_none() {
            let path = site.beside(SOURCE).join(path);
            create_folder(path.parent().unwrap_or(&path))?;
            std::fs::write(path, text)?;
        }
    }
    create_folder(&site.beside(COPY))?;
    site.write(DEFINITIONS, &definitions)
}
