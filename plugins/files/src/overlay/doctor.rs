//! Diagnoses resource files that are never used, and leftovers of package managers and killed applies.

use crate::overlay::entity::{Kind, Resource};
use crate::overlay::scan::DIRECTORIES;
use crate::overlay::stock::Distribution;
use holo_change::image_store::BASE;
use holo_plugin::definitions::ResourceFile;
use holo_plugin::{Diagnosis, Host, Level};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path};
use walkdir::WalkDir;

/// The suffixes of stock files of all distributions, as a file may have been copied from another one.
const STOCK: [&str; 6] = [".pacnew", ".apk-new", ".dpkg-dist", ".dpkg-new", ".ucf-dist", ".rpmnew"];
/// The suffix of the temporary file that replaces a target.
const TEMPORARY: &str = ".holonew";
/// The directory in which package managers protect configuration files.
const CONFIGURATION: &str = "/etc";

/// Returns all diagnoses.
pub(crate) fn diagnose(host: &Host) -> Vec<Diagnosis> {
    let mut found: Vec<Diagnosis> = distribution(host).into_iter().collect();
    let resources = host.resources().walk().unwrap_or_default();
    found.extend(resources.iter().filter_map(|file| resource(file, host)));
    found.extend(beside_targets(host));
    if found.is_empty() {
        found.push(Diagnosis::new(Level::Ok, "no new stock files were found", ""));
    }
    found
}

fn distribution(host: &Host) -> Option<Diagnosis> {
    let Distribution::Unknown(ids) = Distribution::of(host.system().os_release()) else { return None };
    let ids = if ids.is_empty() { "none".to_owned() } else { ids.join(", ") };
    let title = format!("the distribution is not recognised by the IDs in os-release: {ids}");
    let remedy =
        "new versions of configuration files are not detected; set ID_LIKE in os-release to a similar distribution";
    Some(Diagnosis::new(Level::Warning, title, remedy))
}

/// Diagnoses a resource file.
fn resource(file: &ResourceFile, host: &Host) -> Option<Diagnosis> {
    let shown = file.path.display();
    let mut components = file.below.components();
    let Some(Component::Normal(first)) = components.next() else { return None };
    let rest = components.as_path();
    if rest.as_os_str().is_empty() {
        return None;
    }
    if let Some(directory) = first.to_str().filter(|first| DIRECTORIES.contains(first)) {
        let target = host.below_root(&Path::new("/").join(rest));
        let title = format!(
            "{shown} is an overlay of {}, because {directory} is taken for the disambiguator",
            target.display()
        );
        return Some(Diagnosis::new(
            Level::Warning,
            title,
            format!("move it below a folder with a name such as 10-{directory}"),
        ));
    }
    let (_, resource) = Resource::parse(&file.below, file.directory)?;
    let is_executable = fs::metadata(&file.path).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0);
    (resource.kind == Kind::Script && !is_executable).then(|| {
        let title = format!("{shown} is a holoscript that cannot be executed");
        Diagnosis::new(Level::Error, title, format!("chmod +x {shown}"))
    })
}

/// Diagnoses leftovers of package managers and killed applies.
fn beside_targets(host: &Host) -> impl Iterator<Item = Diagnosis> {
    let folder = host.below_root(Path::new(CONFIGURATION));
    let entries = WalkDir::new(&folder).sort_by_file_name().into_iter().filter_map(Result::ok);
    entries.filter(|entry| !entry.file_type().is_dir()).filter_map(move |entry| {
        let bytes = entry.path().as_os_str().as_bytes();
        let target = |suffix: &str| {
            let target = bytes.strip_suffix(suffix.as_bytes())?;
            Some(Path::new(std::ffi::OsStr::from_bytes(target)).to_owned())
        };
        let shown = entry.path().display();
        if target(TEMPORARY).is_some() {
            let title = format!("{shown} was left behind by an interrupted apply");
            return Some(Diagnosis::new(
                Level::Warning,
                title,
                format!("if the next apply does not remove it: rm {shown}"),
            ));
        }
        let target = STOCK.iter().find_map(|suffix| target(suffix))?;
        let below = target.strip_prefix(host.root()).unwrap_or(&target);
        let is_managed = host.state_dir().join(BASE).join(below).symlink_metadata().is_ok();
        let title = format!("{shown} is a new version of {}", target.display());
        let remedy = if is_managed {
            format!("holo apply file:/{}", below.display())
        } else {
            format!("it is unmanaged: merge it by hand, then: rm {shown}")
        };
        Some(Diagnosis::new(Level::Warning, title, remedy))
    })
}
