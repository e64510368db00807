//! Rendering a directory from templates, compared with rsync copying the templates.

use super::{Scene, Step, nothing_to_do, rsync};
use crate::timing::limits::Least;
use crate::timing::site::{Site, create_folder, holo};
use anyhow::Result;
use holo_testing::Need;

const TEMPLATES: &str = "usr/share/holo/scaffold/site";
const DEFINITION: &str = "usr/share/holo/scaffold/01-site.toml";
const COPY: &str = "copy";

pub(super) fn scene() -> Scene {
    let mut steps = vec![
        Step::new("first apply", |_| holo(&["apply"]))
            .at_least(
                Least::calls(
                    10.0,
                    "the template is opened, read and closed, the target examined, opened, written, closed and \
                     renamed: one inode",
                )
                .making(1.0),
            )
            .checked(is_rendered)
            .takes_turns(),
        Step::new("`rsync -a`, to an empty directory", |site| Ok(copy(site, "-a"))),
    ];
    steps.extend(nothing_to_do(
        Least::calls(2.0, "`statx` of template and target"),
        Least::calls(8.0, "also, template and target are opened, read and closed"),
        |site| Ok(copy(site, "-a")),
        |site| Ok(copy(site, "-ac")),
    ));
    steps.push(
        Step::new("scrub", |_| holo(&["apply"]))
            .at_least(Least::calls(2.0, "`statx` and `unlink` of the target"))
            .after(|site| site.remove(DEFINITION))
            .checked(|site, _| Ok(!site.root().join("srv/site").exists()))
            .late(),
    );
    Scene {
        name: "scaffold",
        entities: "templates",
        sizes: &[20, 1000, 10_000],
        needs: &[&[Need::Program("rsync")]],
        system: None,
        prepare,
        steps,
        ratios: &[
            ("first apply", "`rsync -a`, to an empty directory"),
            ("apply, nothing to do", "`rsync -a`, all equal"),
            ("apply --verify, nothing to do", "`rsync -ac`, all equal"),
        ],
        remarks: "`rsync` copies the templates and renders nothing. All templates belong to one entity.",
    }
}

fn path(number: usize) -> String {
    format!("{:04}/{number:06}.conf", number / 100)
}

fn prepare(site: &Site) -> Result<()> {
    site.plugins(&["scaffold"])?;
    create_folder(&site.root().join("srv"))?;
    create_folder(&site.beside(COPY))?;
    for number in 0..site.size {
        let template = format!("name = {{{{ data.name }}}}\nnumber = {number}\n{}", "more = 1\n".repeat(40));
        site.write(&format!("{TEMPLATES}/{}", path(number)), &template)?;
    }
    site.write(DEFINITION, "[[scaffold]]\ntarget = \"/srv/site\"\nsource = \"site\"\n[scaffold.data]\nname = \"x\"\n")
}

fn copy(site: &Site, options: &str) -> Vec<std::ffi::OsString> {
    rsync(options, &site.root().join(TEMPLATES), &site.beside(COPY))
}

fn is_rendered(site: &Site, _: &[u8]) -> Result<bool> {
    let is_rendered = |number| {
        let text = std::fs::read_to_string(site.root().join("srv/site").join(path(number)));
        text.is_ok_and(|text| text.starts_with(&format!("name = x\nnumber = {number}\n")))
    };
    Ok((0..site.size).all(is_rendered))
}
