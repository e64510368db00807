//! Packages for rpm: a lead, a signature, a header, and the files in a compressed cpio archive.
//!
//! The crate `rpm` is not used because it needs thirty others, and decides on dependencies and the build host itself.

mod header;

use crate::content::hex;
use crate::format::Format;
use crate::package::{Kind, Node, Origin, Owner, Package, listed};
use crate::relation::{Comparison, Relation};
use header::{Header, Value, number};
use liblzma::write::XzEncoder;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read, Seek, Write};

/// The level of xz that its authors recommend.
const XZ_LEVEL: u32 = 6;

/// Flags of relations.
const LESS: u32 = 1 << 1;
const GREATER: u32 = 1 << 2;
const EQUAL: u32 = 1 << 3;
/// A requirement of a feature of rpm.
const RPMLIB: u32 = 1 << 24;

/// Flags of triggers: `%transfiletriggerin` and `%transfiletriggerpostun`.
const TRIGGER_IN: u32 = 1 << 16;
const TRIGGER_POST_UN: u32 = 1 << 18;
/// The default priority of triggers.
const TRIGGER_PRIORITY: u32 = 1_000_000;

/// Flags of files: `%config(noreplace)`, `%doc` and `%license`.
const CONFIG: u32 = 1 << 0;
const NO_REPLACE: u32 = 1 << 4;
const DOC: u32 = 1 << 1;
const LICENSE: u32 = 1 << 7;
/// The verification of the owner and of the group.
const VERIFY_OWNER: u32 = 1 << 3;
const VERIFY_GROUP: u32 = 1 << 4;

/// Signs the bytes of a header: returns an OpenPGP signature packet.
pub(crate) type Sign<'a> = &'a dyn Fn(&[u8]) -> Result<Vec<u8>, crate::sign::SignError>;

/// The package cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RpmError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Sign(#[from] crate::sign::SignError),
}

/// Writes a package.
pub(crate) fn write(package: &Package, sign: Option<Sign<'_>>, to: &mut dyn Write) -> Result<(), RpmError> {
    let nodes: Vec<(&str, &Node)> = files(package);
    let mut payload = Payload::write(package, &nodes)?;
    let header = main_header(package, &nodes, &payload)?.to_bytes(63)?;
    let mut md5 = Md5::new();
    md5.update(&header);
    io::copy(&mut payload.compressed, &mut HashWriter(&mut md5))?;
    payload.compressed.rewind()?;

    let mut signature = Header::default();
    if let Some(sign) = sign {
        let packet = sign(&header)?;
        // The tag depends on the algorithm of the key: RSA, or any other.
        let tag = if crate::sign::is_rsa(&packet) { 268 } else { 267 };
        signature.set(tag, Value::Binary(packet));
    }
    signature.set(269, Value::Text(hex(&Sha1::digest(&header))));
    signature.set(273, Value::Text(hex(&Sha256::digest(&header))));
    signature.set(1000, Value::Int32(vec![number(header.len() as u64 + payload.compressed_size)?]));
    signature.set(1004, Value::Binary(md5.finalize().to_vec()));
    signature.set(1007, Value::Int32(vec![number(payload.size)?]));
    let mut signature = signature.to_bytes(62)?;
    signature.resize(signature.len().next_multiple_of(8), 0);

    to.write_all(&lead(package))?;
    to.write_all(&signature)?;
    to.write_all(&header)?;
    io::copy(&mut payload.compressed, to)?;
    Ok(())
}

/// Returns the files of the package. It does not own the directories on the way, so that their attributes cannot
/// conflict with those of other packages.
fn files(package: &Package) -> Vec<(&str, &Node)> {
    let nodes = package.nodes.iter().filter(|(_, node)| node.origin != Origin::Implied);
    nodes.map(|(path, node)| (path.as_str(), node)).collect()
}

/// Returns the first 96 bytes, which are only evaluated by `file`.
fn lead(package: &Package) -> Vec<u8> {
    let mut lead = vec![0xed, 0xab, 0xee, 0xdb, 3, 0, 0, 0, 0, 1];
    let version = &package.version;
    let name = format!("{}-{}", package.name, Format::Rpm.full_version(version));
    lead.extend(name.bytes().take(65));
    lead.resize(76, 0);
    // Linux, and a signature in the form of a header.
    lead.extend([0, 1, 0, 5]);
    lead.resize(96, 0);
    lead
}

fn main_header(package: &Package, nodes: &[(&str, &Node)], payload: &Payload) -> io::Result<Header> {
    let mut header = Header::default();
    let text = |text: &str| Value::Text(text.to_owned());
    let description = if package.description.is_empty() { &package.name } else { &package.description };
    let version = Format::Rpm.upstream_version(&package.version);
    let release = package.version.release.to_string();
    header.set(100, Value::Texts(vec!["C".to_owned()]));
    header.set(1000, text(&package.name));
    header.set(1001, text(&version));
    header.set(1002, text(&release));
    if package.version.epoch > 0 {
        header.set(1003, Value::Int32(vec![package.version.epoch]));
    }
    header.set(1004, Value::Translated(description.clone()));
    header.set(1005, Value::Translated(package.details.as_ref().unwrap_or(description).clone()));
    header.set(1006, Value::Int32(vec![package.time]));
    header.set(1007, text("localhost"));
    header.set(1009, Value::Int32(vec![number(nodes.iter().map(|(_, node)| size(node)).sum::<u64>())?]));
    header.set(1014, text(package.license.as_deref().unwrap_or("None")));
    if let Some(author) = &package.author {
        header.set(1015, text(author));
    }
    header.set(1016, Value::Translated("System/Management".to_owned()));
    if let Some(homepage) = &package.homepage {
        header.set(1020, text(homepage));
    }
    header.set(1021, text("linux"));
    header.set(1022, text(Format::Rpm.architecture(package.architecture)));
    if !package.setup.is_empty() {
        header.set(1024, text(&package.setup));
        header.set(1086, text("/bin/sh"));
    }
    let cleanup = format!("{}{}", package.cleanup, package.purge);
    for (tag, interpreter, script) in [(1025, 1087, &package.removal), (1026, 1088, &cleanup)] {
        if !script.is_empty() {
            // rpm also calls these for upgrades.
            header.set(tag, Value::Text(format!("if [ \"$1\" -ne 0 ]; then exit 0; fi\n{script}")));
            header.set(interpreter, text("/bin/sh"));
        }
    }
    if let Some(changes) = &package.changes {
        let author = package.author.as_deref().unwrap_or_default();
        header.set(1080, Value::Int32(vec![package.time]));
        header.set(1081, Value::Texts(vec![format!("{author} {}", Format::Rpm.full_version(&package.version))]));
        header.set(1082, Value::Texts(vec![listed(changes, "- ").trim_end().to_owned()]));
    }
    trigger_tags(&mut header, package)?;
    let has_scripts = [&package.setup, &package.removal, &cleanup].iter().any(|script| !script.is_empty());
    if has_scripts || !package.triggers.is_empty() {
        // The shell is installed before, if it is installed in the same transaction; a requirement is not needed.
        header.set(5035, Value::Texts(vec!["/bin/sh".to_owned()]));
        header.set(5036, Value::Texts(vec![String::new()]));
        header.set(5037, Value::Int32(vec![0]));
    }
    // Without it, rpm takes the package for one with sources.
    header.set(1044, Value::Text(format!("{}-{version}-{release}.src.rpm", package.name)));
    header.set(1064, text(concat!("holo-build ", env!("CARGO_PKG_VERSION"))));
    header.set(1124, text("cpio"));
    header.set(1125, text("xz"));
    header.set(1126, Value::Text(XZ_LEVEL.to_string()));
    header.set(5062, text("utf-8"));
    header.set(5092, Value::Texts(vec![payload.sha256.clone()]));
    header.set(5093, Value::Int32(vec![8]));
    relation_tags(&mut header, package);
    file_tags(&mut header, nodes, package.time)?;
    Ok(header)
}

/// Sets the tags of the scripts that run after a transaction with files below a directory: one after they have been
/// installed, and one after they have been removed.
fn trigger_tags(header: &mut Header, package: &Package) -> io::Result<()> {
    let mut scripts = Vec::new();
    let mut conditions = Vec::new();
    for trigger in &package.triggers {
        for flag in [TRIGGER_IN, TRIGGER_POST_UN] {
            // rpm compares the beginnings of paths. Like rpmbuild, we sort the conditions.
            conditions.push((format!("{}/", trigger.path), flag, number(scripts.len())?));
            // rpm passes the names of the files, which a command in the script could read by mistake.
            scripts.push(format!("exec </dev/null\n{}", trigger.script));
        }
    }
    conditions.sort();
    let count = scripts.len();
    header.set(5076, Value::Texts(scripts));
    header.set(5077, Value::Texts(vec!["/bin/sh".to_owned(); count]));
    header.set(5079, Value::Texts(conditions.iter().map(|(name, ..)| name.clone()).collect()));
    header.set(5080, Value::Int32(conditions.iter().map(|(.., index)| *index).collect()));
    header.set(5081, Value::Texts(vec![String::new(); count]));
    header.set(5082, Value::Int32(conditions.iter().map(|(_, flag, _)| *flag).collect()));
    header.set(5085, Value::Int32(vec![TRIGGER_PRIORITY; count]));
    Ok(())
}

fn relation_tags(header: &mut Header, package: &Package) {
    let own_version = (Comparison::Equal, Format::Rpm.full_version(&package.version));
    let own = Relation { name: package.name.clone(), constraint: Some(own_version) };
    let mut provides = package.provides.clone();
    if !provides.contains(&own) {
        provides.push(own);
    }
    let features = [
        ("CompressedFileNames", "3.0.4-1", true),
        ("PayloadFilesHavePrefix", "4.0-1", true),
        ("PayloadIsXz", "5.2-1", true),
        ("TildeInVersions", "4.10.0-1", package.version.prerelease.is_some()),
        ("VersionedDependencies", "3.0.3-1", true),
    ];
    let features = features
        .into_iter()
        .filter(|(.., is_used)| *is_used)
        .map(|(feature, version, _)| (format!("rpmlib({feature})"), RPMLIB | LESS | EQUAL, version.to_owned()));
    let listed = |relations: &[Relation]| -> Vec<(String, u32, String)> {
        let parts = relations.iter().map(|Relation { name, constraint }| match constraint {
            Some((comparison, version)) => (name.clone(), flags(*comparison), version.clone()),
            None => (name.clone(), 0, String::new()),
        });
        parts.collect()
    };
    let requires = listed(&package.requires).into_iter().chain(features).collect();
    for (tags, relations) in [
        ([1049, 1048, 1050], requires),
        ([1047, 1112, 1113], listed(&provides)),
        ([1054, 1053, 1055], listed(&package.conflicts)),
        ([1090, 1114, 1115], listed(&package.replaces)),
    ] {
        let [name, flags, version] = tags;
        header.set(name, Value::Texts(relations.iter().map(|(name, ..)| name.clone()).collect()));
        header.set(flags, Value::Int32(relations.iter().map(|(_, flags, _)| *flags).collect()));
        header.set(version, Value::Texts(relations.into_iter().map(|(.., version)| version).collect()));
    }
}

fn flags(comparison: Comparison) -> u32 {
    match comparison {
        Comparison::Less => LESS,
        Comparison::LessOrEqual => LESS | EQUAL,
        Comparison::Equal => EQUAL,
        Comparison::GreaterOrEqual => GREATER | EQUAL,
        Comparison::Greater => GREATER,
    }
}

fn file_tags(header: &mut Header, nodes: &[(&str, &Node)], time: u32) -> io::Result<()> {
    let numbers = |value: &dyn Fn(&Node) -> u32| Value::Int32(nodes.iter().map(|(_, node)| value(node)).collect());
    let texts = |value: &dyn Fn(&Node) -> String| Value::Texts(nodes.iter().map(|(_, node)| value(node)).collect());
    nodes.iter().try_for_each(|(_, node)| number(size(node)).map(drop))?;
    header.set(1028, numbers(&|node| number(size(node)).unwrap_or_default()));
    let modes = nodes.iter().map(|(_, node)| u16::try_from(mode(node)).unwrap_or_default());
    header.set(1030, Value::Int16(modes.collect()));
    header.set(1033, Value::Int16(vec![0; nodes.len()]));
    header.set(1034, numbers(&|_| time));
    header.set(
        1035,
        texts(&|node| match &node.kind {
            Kind::File { content, .. } => hex(&content.sha256),
            _ => String::new(),
        }),
    );
    header.set(
        1036,
        texts(&|node| match &node.kind {
            Kind::Symlink { target } => target.clone(),
            _ => String::new(),
        }),
    );
    header.set(1037, Value::Int32(nodes.iter().map(|(path, node)| file_flags(path, node)).collect()));
    header.set(1039, texts(&|_| "root".to_owned()));
    header.set(1040, texts(&|_| "root".to_owned()));
    header.set(
        1045,
        numbers(&|node| {
            // The setup script changes these.
            let changed = [(&node.owner, VERIFY_OWNER), (&node.group, VERIFY_GROUP)].into_iter();
            changed.filter(|(owner, _)| **owner != Owner::ROOT).fold(u32::MAX, |flags, (_, flag)| flags & !flag)
        }),
    );
    header.set(1095, numbers(&|_| 1));
    let count = number(nodes.len())?;
    header.set(1096, Value::Int32((1..=count).collect()));
    header.set(1097, texts(&|_| String::new()));
    header.set(5011, Value::Int32(if nodes.is_empty() { Vec::new() } else { vec![8] }));

    // Paths consist of a name and the index of a directory.
    let (mut directories, mut indexes, mut names) = (Vec::<String>::new(), Vec::new(), Vec::new());
    let mut known = std::collections::HashMap::new();
    for (path, _) in nodes {
        let (directory, name) =
            path.rsplit_once('/').map_or(("/".to_owned(), *path), |(directory, name)| (format!("/{directory}/"), name));
        let index = *known.entry(directory.clone()).or_insert(directories.len());
        if index == directories.len() {
            directories.push(directory);
        }
        indexes.push(number(index)?);
        names.push(name.to_owned());
    }
    header.set(1116, Value::Int32(indexes));
    header.set(1117, Value::Texts(names));
    header.set(1118, Value::Texts(directories));
    Ok(())
}

fn file_flags(path: &str, node: &Node) -> u32 {
    let is_below = |directory: &&str| path.starts_with(*directory);
    // Like rpmbuild, we leave directories out.
    let place = match node.kind {
        Kind::Directory => 0,
        _ if ["usr/share/doc/", "usr/share/info/", "usr/share/man/"].iter().any(is_below) => DOC,
        _ if is_below(&"usr/share/licenses/") => LICENSE,
        _ => 0,
    };
    match node.kind {
        Kind::File { is_config: true, .. } => place | CONFIG | NO_REPLACE,
        _ => place,
    }
}

fn size(node: &Node) -> u64 {
    match &node.kind {
        Kind::File { content, .. } => content.size,
        Kind::Directory => 0,
        Kind::Symlink { target } => target.len() as u64,
    }
}

/// Returns the mode with the type of the file.
fn mode(node: &Node) -> u32 {
    let kind = match node.kind {
        Kind::File { .. } => 0o100_000,
        Kind::Directory => 0o040_000,
        Kind::Symlink { .. } => 0o120_000,
    };
    kind | node.mode
}

/// The compressed archive of the files.
struct Payload {
    /// A temporary file, to be read from its beginning.
    compressed: File,
    compressed_size: u64,
    /// The size of the archive itself.
    size: u64,
    /// The digest of the compressed archive.
    sha256: String,
}

impl Payload {
    fn write(package: &Package, nodes: &[(&str, &Node)]) -> io::Result<Payload> {
        let mut cpio = Counted { writer: XzEncoder::new(tempfile::tempfile()?, XZ_LEVEL), count: 0 };
        for ((path, node), inode) in nodes.iter().zip(1..) {
            entry(&mut cpio, &format!("./{path}"), mode(node), inode, number(size(node))?, package.time)?;
            match &node.kind {
                Kind::File { content, .. } => io::copy(&mut package.contents.reader(content), &mut cpio).map(drop)?,
                Kind::Symlink { target } => cpio.write_all(target.as_bytes())?,
                Kind::Directory => {}
            }
            cpio.pad()?;
        }
        entry(&mut cpio, "TRAILER!!!", 0, 0, 0, 0)?;
        let Counted { writer, count: size } = cpio;
        let mut compressed = writer.finish()?;
        compressed.rewind()?;
        let mut sha256 = Sha256::new();
        let compressed_size = io::copy(&mut compressed, &mut HashWriter(&mut sha256))?;
        compressed.rewind()?;
        Ok(Payload { compressed, compressed_size, size, sha256: hex(&sha256.finalize()) })
    }
}

/// Writes the header of a file in a cpio archive.
fn entry(cpio: &mut Counted<impl Write>, name: &str, mode: u32, inode: u32, size: u32, time: u32) -> io::Result<()> {
    let links = 1;
    let fields = [inode, mode, 0, 0, links, time, size, 0, 0, 0, 0, number(name.len() + 1)?, 0];
    write!(cpio, "070701")?;
    fields.iter().try_for_each(|field| write!(cpio, "{field:08x}"))?;
    cpio.write_all(&[name.as_bytes(), b"\0"].concat())?;
    cpio.pad()
}

/// A writer that counts its bytes.
struct Counted<W> {
    writer: W,
    count: u64,
}

impl<W: Write> Counted<W> {
    /// Fills up to a multiple of four bytes.
    fn pad(&mut self) -> io::Result<()> {
        let missing = self.count.next_multiple_of(4) - self.count;
        io::copy(&mut io::repeat(0).take(missing), self).map(drop)
    }
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.writer.write(bytes)?;
        self.count += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// A writer that updates a digest.
struct HashWriter<'a, D>(&'a mut D);

impl<D: Digest> Write for HashWriter<'_, D> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
