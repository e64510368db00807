//! Overlays compared with rsync copying the same files.

use super::{Scene, Step, content, is_filled, target};
use crate::timing::limits::Least;
use crate::timing::site::{Site, Words, create_folder, holo};
use anyhow::Result;
use holo_testing::Need;

const RESOURCES: &str = "usr/share/holo/files/01-bench";
const COPY: &str = "copy";
/// The root in which no records are kept.
const WITHOUT: &str = "without";

pub(super) fn scene() -> Scene {
    Scene {
        name: "files",
        entities: "overlays",
        sizes: &[1000, 10_000, 100_000],
        needs: &[&[Need::Program("rsync")]],
        system: None,
        prepare,
        steps: vec![
            Step::new("scan", |_| holo(&["scan", "-s"])).at_least(Least::calls(0.0, "no call per file: names are read with their directories")).checked(is_all),
            Step::new("first apply", |_| holo(&["apply"])).at_least(Least::calls(20.0, "target and record are two inodes: `openat`, `write`, `fchmod`, `close` each, a link for the base, two renames, and an examination of all five files before and after").making(2.0))
                .checked(|site, _| is_filled(site, &site.root(), "wanted"))
                .takes_turns(),
            Step::new("`rsync -a`, to an empty directory", |site| rsync(site, "-a"))
                .checked(|site, _| is_filled(site, &site.beside(COPY), "wanted")),
            Step::new("apply, nothing to do", |_| holo(&["apply"])).at_least(Least::calls(5.0, "`statx` of target, base, record and resource file, and of a stock file of the distribution")).after(Site::settle).changes_nothing(),
            Step::new("`rsync -ac`, all equal", |site| rsync(site, "-ac")).changes_nothing(),
            Step::new("check", |_| holo(&["check"])).at_least(Least::calls(5.0, "`statx` of target, base, record and resource file, and of a stock file of the distribution")).changes_nothing(),
            Step::new("`rsync -a`, all equal", |site| rsync(site, "-a")).changes_nothing(),
            Step::new("apply --verify, nothing to do", |_| holo(&["apply", "--verify"])).at_least(Least::calls(11.0, "`statx` of target, base, record and resource file, and of a stock file of the distribution; target and resource file are opened, read and closed")).changes_nothing(),
            Step::new("apply of one entity, nothing to do", |site| {
                holo(&["apply", &format!("file:/{}", target(site.size / 2))])
            }).at_least(Least::calls(0.0, "no call for the others"))
            .changes_nothing(),
            Step::new("scrub of all", |_| holo(&["apply"])).at_least(Least::calls(5.0, "`statx` of target, base and record, one rename of the base to the target, and the record removed"))
                .after(|site| site.remove(RESOURCES))
                .checked(|site, _| is_filled(site, &site.root(), "stock"))
                .late(),
        ],
        ratios: &[
            ("first apply", "`rsync -a`, to an empty directory"),
            ("apply, nothing to do", "`rsync -ac`, all equal"),
            ("apply, nothing to do", "`rsync -a`, all equal"),
            ("check", "apply, nothing to do"),
            ("apply --verify, nothing to do", "`rsync -ac`, all equal"),
            ("apply of one entity, nothing to do", "scan"),
            ("scrub of all", "first apply"),
        ],
    }
}

/// A first apply that records the run and its inputs, compared with one that does not.
pub(super) fn records() -> Scene {
    Scene {
        name: "records",
        entities: "overlays",
        sizes: &[1000, 10_000],
        needs: &[],
        system: None,
        prepare: |site| {
            prepare(site)?;
            let copy = ["cp".into(), "-a".into(), site.root().into(), site.beside(WITHOUT).into()];
            site.output(&copy.to_vec()).map(drop)
        },
        steps: vec![
            Step::new("first apply", |_| holo(&["apply"]))
                .at_least(
                    Least::calls(21.0, "as without records, and one file read; records are written together")
                        .making(2.0)
                        .writing(8.3),
                )
                .checked(|site, _| is_filled(site, &site.root(), "wanted"))
                .takes_turns(),
            Step::new("first apply, `HOLO_HISTORY=0`", |site| {
                let root = format!("HOLO_ROOT_DIR={}", site.beside(WITHOUT).display());
                let mut words: Words = ["env".into(), "HOLO_HISTORY=0".into(), root.into()].to_vec();
                words.extend(holo(&["apply"])?);
                Ok(words)
            })
            .at_least(Least::calls(20.0, "two inodes").making(2.0))
            .checked(|site, _| is_filled(site, &site.beside(WITHOUT), "wanted")),
        ],
        ratios: &[("first apply", "first apply, `HOLO_HISTORY=0`")],
    }
}

/// Writes resource files, and a stock file for each of them to the target tree.
fn prepare(site: &Site) -> Result<()> {
    site.plugin("files")?;
    create_folder(&site.beside(COPY))?;
    for number in 0..site.size {
        site.write(&target(number), &content("stock", number))?;
        site.write(&format!("{RESOURCES}/{}", target(number)), &content("wanted", number))?;
    }
    Ok(())
}

fn is_all(site: &Site, output: &[u8]) -> Result<bool> {
    Ok(output.iter().filter(|&&byte| byte == b'\n').count() >= site.size)
}

fn rsync(site: &Site, options: &str) -> Result<Words> {
    // With the slash, rsync copies the contents of the directory rather than the directory.
    let from = site.root().join(RESOURCES).join("");
    Ok(vec!["rsync".into(), options.into(), from.into(), site.beside(COPY).into()])
}
