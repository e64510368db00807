//! Packages for dpkg: an `ar` archive with two compressed tar archives.

use crate::archive::Archive;
use crate::content::hex;
use crate::format::Format;
use crate::package::{Kind, Package};
use crate::relation::{Comparison, Relation};
use flate2::Compression;
use flate2::write::GzEncoder;
use liblzma::write::XzEncoder;
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
    if !package.setup.is_empty() {
        archive.text("postinst", 0o755, format!("#!/bin/bash\n{}", package.setup).as_bytes())?;
    }
    if !package.cleanup.is_empty() {
        // dpkg also calls it for upgrades and purges.
        let guard = "if [ \"$1\" != remove ]; then exit 0; fi";
        archive.text("postrm", 0o755, format!("#!/bin/bash\n{guard}\n{}", package.cleanup).as_bytes())?;
    }
    archive.finish()?.finish()
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
    field("Description", description);
    control
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
