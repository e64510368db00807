//! Packages for dpkg: an `ar` archive with two compressed tar archives.

use crate::archive::Archive;
use crate::content::hex;
use crate::format::{Format, Version};
use crate::package::{Kind, Package, body, listed, quoted};
use crate::relation::{Comparison, Relation};
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use liblzma::write::XzEncoder;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Seek, Write};

/// The level of xz that its authors recommend.
const XZ_LEVEL: u32 = 6;

/// Writes a package.
pub(crate) fn write(package: &Package, to: &mut dyn Write) -> io::Result<()> {
    // The size of a member precedes it.
    let mut data = data(package)?;
    let length = data.stream_position()?;
    data.rewind()?;
    let control = control_archive(package)?;
    to.write_all(b"!<arch>\n")?;
    member(to, "debian-binary", package.time, 4, &mut &b"2.0\n"[..])?;
    member(to, "control.tar.gz", package.time, control.len() as u64, &mut &control[..])?;
    member(to, "data.tar.xz", package.time, length, &mut data)
}

fn member(to: &mut dyn Write, name: &str, time: u32, length: u64, content: &mut dyn io::Read) -> io::Result<()> {
    if length > 9_999_999_999 {
        return Err(io::Error::other("the format has no room for packages of 10 GB"));
    }
    writeln!(to, "{name:<16}{time:<12}{:<6}{:<6}{:<8}{length:<10}`", 0, 0, "100644")?;
    io::copy(content, to)?;
    if length % 2 == 1 { to.write_all(b"\n") } else { Ok(()) }
}

fn data(package: &Package) -> io::Result<File> {
    let mut archive = Archive::new(XzEncoder::new(tempfile::tempfile()?, XZ_LEVEL), "./", package.time);
    archive.root()?;
    archive.nodes(package)?;
    archive.finish()?.finish()
}

fn control_archive(package: &Package) -> io::Result<Vec<u8>> {
    let mut archive = Archive::new(GzEncoder::new(Vec::new(), Compression::best()), "./", package.time);
    archive.text("control", 0o644, control(package).as_bytes())?;
    let conffiles: String = package.config_files().map(|path| format!("/{path}\n")).collect();
    if !conffiles.is_empty() {
        archive.text("conffiles", 0o644, conffiles.as_bytes())?;
    }
    archive.text("md5sums", 0o644, md5sums(package).as_bytes())?;
    let paths: BTreeSet<&str> = package.triggers.iter().map(|trigger| trigger.path.as_str()).collect();
    let interests: String = paths.iter().map(|path| format!("interest-noawait {path}\n")).collect();
    if !interests.is_empty() {
        archive.text("triggers", 0o644, interests.as_bytes())?;
    }
    // dpkg also calls these for upgrades.
    let guard = |script: &str| if script.is_empty() { "" } else { "if [ \"$1\" != remove ]; then exit 0; fi\n" };
    let purge = match &*package.purge {
        "" => String::new(),
        purge => format!("if [ \"$1\" = purge ]; then\n{purge}exit\nfi\n"),
    };
    for (name, script) in [
        ("postinst", format!("{}{}", triggered(package), package.setup)),
        ("prerm", format!("{}{}", guard(&package.removal), package.removal)),
        ("postrm", format!("{purge}{}{}", guard(&package.cleanup), package.cleanup)),
    ] {
        if !script.is_empty() {
            archive.text(name, 0o755, format!("#!/bin/bash\n{script}").as_bytes())?;
        }
    }
    archive.finish()?.finish()
}

/// Returns the beginning of the script that runs the triggers whose names dpkg passes.
fn triggered(package: &Package) -> String {
    if package.triggers.is_empty() {
        return String::new();
    }
    let mut script = "if [ \"$1\" = triggered ]; then\nstatus=0\n".to_owned();
    for trigger in &package.triggers {
        // In a subshell, a trigger that exits does not prevent the others. `|| status=1` would disable `set -e` in it.
        let (name, body) = (quoted(&format!(" {} ", trigger.path)), body(&trigger.script));
        script += &format!("case \" $2 \" in *{name}*)\n(\n{body})\n[ $? -eq 0 ] || status=1\nesac\n");
    }
    script += "exit $status\nfi\n";
    // dpkg drops the triggers of a package that is not configured yet, such as those by its own files.
    for trigger in &package.triggers {
        let path = quoted(&trigger.path);
        script += &format!("if [ \"$1\" = configure ] && [ -e {path} ]; then dpkg-trigger --no-await {path}; fi\n");
    }
    script
}

fn control(package: &Package) -> String {
    let description = if package.description.is_empty() { &package.name } else { &package.description };
    let mut control = String::new();
    let mut field = |name: &str, value: &str| {
        if !value.is_empty() {
            control += &format!("{name}: {value}\n");
        }
    };
    field("Package", &package.name);
    field("Version", &Format::Debian.full_version(&package.version));
    field("Architecture", Format::Debian.architecture(package.architecture));
    field("Maintainer", package.author.as_deref().unwrap_or_default());
    field("Installed-Size", &(package.apparent_size() / 1024).to_string());
    field("Section", "misc");
    field("Priority", "optional");
    field("Depends", &relations(&package.requires));
    field("Provides", &relations(&package.provides));
    field("Conflicts", &relations(&package.conflicts));
    field("Replaces", &relations(&package.replaces));
    field("Homepage", package.homepage.as_deref().unwrap_or_default());
    field("Description", description);
    control += &package.details.as_deref().map_or_else(String::new, extended);
    control
}

/// Returns a longer description, as it follows the short one.
fn extended(details: &str) -> String {
    let lines = details.lines().map(|line| match line {
        "" => " .\n".to_owned(),
        // It would be taken for an empty line, or for an instruction.
        _ if line.starts_with('.') => format!("  {line}\n"),
        _ => format!(" {line}\n"),
    });
    lines.collect()
}

/// Returns the changes of this version as a compressed file, whose time is in seconds since 1970.
pub(crate) fn changelog(name: &str, version: &Version, author: &str, changes: &str, time: u32) -> io::Result<Vec<u8>> {
    let version = Format::Debian.full_version(version);
    let changes = listed(changes, "  * ");
    let time = Timestamp::from_second(time.into()).unwrap_or_default();
    let time = time.strftime("%a, %d %b %Y %H:%M:%S +0000");
    let mut file = GzEncoder::new(Vec::new(), Compression::best());
    write!(file, "{name} ({version}) unstable; urgency=medium\n\n{changes}\n -- {author}  {time}\n")?;
    file.finish()
}

fn relations(relations: &[Relation]) -> String {
    let shown = relations.iter().map(|Relation { name, constraint }| match constraint {
        None => name.clone(),
        Some((comparison, version)) => {
            let operator = match comparison {
                Comparison::Less => "<<",
                Comparison::Greater => ">>",
                other => other.operator(),
            };
            format!("{name} ({operator} {version})")
        }
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Returns the list of digests. dpkg keeps those of configuration files itself.
fn md5sums(package: &Package) -> String {
    let lines = package.nodes.iter().filter_map(|(path, node)| match &node.kind {
        Kind::File { content, is_config: false } => Some(format!("{}  {path}\n", hex(&content.md5))),
        _ => None,
    });
    lines.collect()
}
