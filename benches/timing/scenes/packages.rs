//! Installed packages, compared with apt-get and dpkg-query.

use super::{Scene, Step};
use crate::timing::limits::Least;
use crate::timing::site::{Site, Words, holo, words};
use anyhow::{Context, Result, ensure};
use holo_testing::{Need, Overlay, overlay};

const DEFINITION: &str = "usr/share/holo/packages/01-bench.toml";

pub(super) fn scene() -> Scene {
    Scene {
        name: "packages",
        entities: "installed packages",
        sizes: &[20, 100, 500],
        needs: &[overlay::NEEDS, &[Need::Program("apt-get"), Need::Program("dpkg-query")]],
        system: Some(Overlay::new),
        prepare,
        steps: vec![
            Step::new("apply, nothing to do", |_| holo(&["apply"]))
                .at_least(Least::calls(0.0, "stamps of the database of dpkg, no call for a package"))
                .after(Site::settle)
                .changes_nothing(),
            Step::new("apply --verify, nothing to do", |_| holo(&["apply", "--verify"]))
                .at_least(Least::calls(0.0, "one `dpkg-query` for all, no call for a package"))
                .changes_nothing(),
            Step::new("`dpkg-query -W`", |site| Ok([words(&["dpkg-query", "-W"]), names(site)?].concat())),
            Step::new("`apt-get install`, nothing to do", |site| {
                Ok([words(&["apt-get", "-qq", "--no-upgrade", "install"]), names(site)?].concat())
            }),
            Step::new("check", |_| holo(&["check"])).at_least(Least::calls(0.0, "like an apply")).changes_nothing(),
        ],
        ratios: &[("apply --verify, nothing to do", "`dpkg-query -W`")],
        remarks: "Both ask `dpkg-query`. `apt-get` also computes dependencies, so it is not compared.",
    }
}

/// Returns the names of as many installed packages as the site needs.
fn names(site: &Site) -> Result<Words> {
    let format = "${db:Status-Abbrev}\\t${binary:Package}\\n";
    let output = site.system()?.run("dpkg-query", &["-W", "-f", format]).stdout.to_string();
    let installed = output.lines().filter_map(|line| line.strip_prefix("ii \t"));
    let names: Words = installed.take(site.size).map(Into::into).collect();
    ensure!(names.len() == site.size, "fewer packages are installed: {}", names.len());
    Ok(names)
}

fn prepare(site: &Site) -> Result<()> {
    site.plugins(&["packages"])?;
    let mut definitions = String::new();
    for name in names(site)? {
        let name = name.into_string().ok().context("the name of a package")?;
        definitions += &format!("[[package]]\nname = \"{name}\"\n");
    }
    site.write(DEFINITION, &definitions)?;
    // The installed packages already become known.
    site.output(&holo(&["apply"])?).map(drop)
}
