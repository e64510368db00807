//! Overlays compared with rsync copying the same files.

use super::{Scene, Step, content, is_filled, nothing_to_do, rsync, target, write_old};
use crate::timing::limits::Least;
use crate::timing::site::{Site, holo};
use anyhow::Result;
use holo_testing::Need;

const RESOURCES: &str = "usr/share/holo/files/01-bench";
const COPY: &str = "copy";

pub(super) fn scene() -> Scene {
    let mut steps = vec![
        Step::new("scan", |_| holo(&["scan", "-s"]))
            .at_least(Least::calls(0.0, "no call for a file: names are read with their directories"))
            .checked(|site, output| Ok(output.iter().filter(|&&byte| byte == b'\n').count() >= site.size)),
        Step::new("first apply", |_| holo(&["apply"]))
            .at_least(
                Least::calls(
                    20.0,
                    "target and record are two inodes: `openat`, `write`, `fchmod`, `close` each, a link for the \
                     base, two renames, and an examination of all five files before and after",
                )
                .making(2.0),
            )
            .checked(|site, _| is_filled(site, &site.root(), "wanted"))
            .takes_turns(),
        Step::new("`rsync -a`, over other files", |site| Ok(copy(site, "-a")))
            .checked(|site, _| is_filled(site, &site.beside(COPY), "wanted")),
    ];
    steps.extend(nothing_to_do(
        Least::calls(4.0, "`statx` of target, base, record and resource file; `rsync -a` has two"),
        Least::calls(10.0, "also, target and resource file are opened, read and closed"),
        |site| Ok(copy(site, "-a")),
        |site| Ok(copy(site, "-ac")),
    ));
    steps.extend([
        Step::new("apply of one entity, nothing to do", |site| {
            holo(&["apply", &format!("file:/{}", target(site.size / 2))])
        })
        .at_least(Least::calls(0.0, "no call for the others"))
        .changes_nothing(),
        Step::new("scrub of all", |_| holo(&["apply"]))
            .at_least(Least::calls(
                5.0,
                "`statx` of target, base and record, one rename of the base to the target, and the record removed",
            ))
            .after(|site| site.remove(RESOURCES))
            .checked(|site, _| is_filled(site, &site.root(), "stock"))
            .late(),
    ]);
    Scene {
        name: "overlays",
        entities: "overlays",
        sizes: &[20, 1000, 10_000, 100_000],
        needs: &[&[Need::Program("rsync")]],
        system: None,
        prepare,
        steps,
        ratios: &[
            ("first apply", "`rsync -a`, over other files"),
            ("apply, nothing to do", "`rsync -a`, all equal"),
            ("apply --verify, nothing to do", "`rsync -ac`, all equal"),
        ],
        remarks: "`rsync` neither syncs nor keeps what it overwrites; holo does both. With nothing to do, both compare \
            sizes and times, so a change that restores these is only found by `--verify` and `-c`. `rsync -ac` reads \
            two files each, as holo does. An apply with nothing to do is measured when files have been unchanged for \
            three seconds and were applied once more: the apply directly after a change has to look again.",
    }
}

/// Writes resource files, and a stock file for each of them to the target tree and to that of rsync.
fn prepare(site: &Site) -> Result<()> {
    site.plugins(&["files"])?;
    for number in 0..site.size {
        site.write(&target(number), &content("stock", number))?;
        write_old(&site.beside(COPY).join(target(number)), &content("stock", number))?;
        site.write(&format!("{RESOURCES}/{}", target(number)), &content("wanted", number))?;
    }
    Ok(())
}

fn copy(site: &Site, options: &str) -> Vec<std::ffi::OsString> {
    rsync(options, &site.root().join(RESOURCES), &site.beside(COPY))
}
