//! Extracting a tar archive, compared with tar.

use super::{Scene, Step};
use crate::timing::limits::Least;
use crate::timing::site::{Site, create_folder, holo, words};
use anyhow::{Context, Result};
use holo_testing::Need;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

const ARCHIVE: &str = "srv/bench.tar";
const DEFINITION: &str = "usr/share/holo/archives/01-bench.toml";
/// 10,000 files of this size make 244 MB.
const FILE_SIZE: usize = 24_400;
const BLOCK: usize = 512;

pub(super) fn scene() -> Scene {
    Scene {
        name: "archives",
        entities: "files in a tar",
        sizes: &[20, 1000, 10_000],
        needs: &[&[Need::Program("tar")]],
        system: None,
        prepare,
        steps: vec![
            Step::new("first apply", |_| holo(&["apply"]))
                .at_least(
                    Least::calls(
                        6.0,
                        "`openat`, `write`, `fchmod`, `utimensat`, `close` and `renameat`; `tar` has no rename",
                    )
                    .making(1.0)
                    .writing(24.0),
                )
                .checked(|site, _| is_extracted(site, &site.root().join("srv/tree")))
                .takes_turns(),
            Step::new("`tar xf`, `sync -f`", |site| {
                let script = "tar xf \"$0\" -C \"$1\" && sync -f \"$1\"";
                let mut words = words(&["sh", "-c", script]);
                words.extend([site.root().join(ARCHIVE).into(), site.beside("tree").into()]);
                Ok(words)
            })
            .checked(|site, _| is_extracted(site, &site.beside("tree"))),
            Step::new("apply, nothing to do", |_| holo(&["apply"]))
                .at_least(Least::calls(1.0, "`statx` of each file"))
                .after(Site::settle)
                .changes_nothing(),
            Step::new("apply --verify, nothing to do", |_| holo(&["apply", "--verify"]))
                .at_least(Least::calls(5.0, "each file is examined, opened, read and closed"))
                .changes_nothing(),
            Step::new("`tar df`", |site| {
                let mut words = words(&["tar", "df"]);
                words.extend([site.root().join(ARCHIVE).into(), "-C".into(), site.beside("tree").into()]);
                Ok(words)
            })
            .changes_nothing(),
            Step::new("scrub", |_| holo(&["apply"]))
                .at_least(Least::calls(2.0, "`statx` and `unlink` of each file"))
                .after(|site| site.remove(DEFINITION))
                .checked(|site, _| Ok(!site.root().join("srv/tree").exists()))
                .late(),
        ],
        ratios: &[("first apply", "`tar xf`, `sync -f`"), ("apply --verify, nothing to do", "`tar df`")],
        remarks: "`tar df` compares the files with the archive, `apply --verify` with the checksums of their contents; \
            `tar` has no way to compare only sizes and times. holo also computes the SHA-256 of the archive and of \
            all files. Both sync once.",
    }
}

fn path(number: usize) -> String {
    format!("{:03}/{number:05}.bin", number / 100)
}

/// Returns a content that compression and sparse files cannot shrink.
fn content(number: usize) -> Vec<u8> {
    let mut state = number as u64 + 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..FILE_SIZE / 8).flat_map(|_| next().to_le_bytes()).collect()
}

fn prepare(site: &Site) -> Result<()> {
    site.plugins(&["archives"])?;
    create_folder(&site.beside("tree"))?;
    let archive = site.root().join(ARCHIVE);
    create_folder(archive.parent().unwrap_or(&archive))?;
    let mut file = BufWriter::new(File::create(&archive).with_context(|| format!("create {}", archive.display()))?);
    for number in 0..site.size {
        let content = content(number);
        file.write_all(&header(&path(number), content.len()))?;
        file.write_all(&content)?;
        file.write_all(&vec![0; content.len().next_multiple_of(BLOCK) - content.len()])?;
    }
    file.write_all(&[0; 2 * BLOCK])?;
    file.into_inner()?.sync_all()?;
    let sum = site.output(&[words(&["sha256sum"]), vec![archive.into()]].concat())?;
    let sum = String::from_utf8_lossy(&sum).split_whitespace().next().unwrap_or_default().to_owned();
    let definition = format!(
        "[[archive]]\npath = \"/{ARCHIVE}\"\nurl = \"file:///{ARCHIVE}\"\nextract_to = \"/srv/tree\"\nchecksum = \"sha256:{sum}\"\n"
    );
    site.write(DEFINITION, &definition)
}

/// Returns the header of a file in a tar archive.
fn header(name: &str, size: usize) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let put = |header: &mut [u8; BLOCK], at: usize, text: &str| {
        header.iter_mut().skip(at).zip(text.bytes()).for_each(|(byte, new)| *byte = new);
    };
    put(&mut header, 0, name);
    put(&mut header, 100, "0000644");
    put(&mut header, 108, "0000000");
    put(&mut header, 116, "0000000");
    put(&mut header, 124, &format!("{size:011o}"));
    put(&mut header, 136, &format!("{:011o}", 1_700_000_000));
    put(&mut header, 148, "        ");
    put(&mut header, 156, "0");
    put(&mut header, 257, "ustar");
    put(&mut header, 263, "00");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    put(&mut header, 148, &format!("{sum:06o}\0"));
    header
}

fn is_extracted(site: &Site, tree: &Path) -> Result<bool> {
    // Only a sample: reading all files would take longer than the timed step.
    for number in (0..site.size).step_by(97) {
        let mut found = Vec::new();
        File::open(tree.join(path(number)))?.read_to_end(&mut found)?;
        if found != content(number) {
            return Ok(false);
        }
    }
    Ok(true)
}
