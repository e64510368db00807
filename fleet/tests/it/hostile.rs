//! Archives that no `bundle build` makes.

use crate::desk::fail;
use crate::host::files;
use holo_testing::{ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::collections::BTreeMap;
use std::io::{self, Read};
use tar::{EntryType, Header};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial_of("an_archive_is_what_its_manifest_says_or_refused", &[], an_archive_is_what_its_manifest_says),
        trial_of("a_bomb_is_not_unpacked", &[], a_bomb_is_not_unpacked),
    ]
}

/// The SHA-256 of `x`.
const X: &str = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";

/// Returns an archive with this list of files in its manifest, and these members.
fn archive(listed: &str, members: &[(&str, EntryType, &str)]) -> Vec<u8> {
    let manifest = format!("{{\"name\": \"one\", \"version\": \"1\", \"files\": {listed}}}");
    let mut tar = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
    let all = [("holo-bundle.json", EntryType::Regular, &*manifest)].into_iter().chain(members.iter().copied());
    for (name, kind, content) in all {
        let mut header = Header::new_ustar();
        // Without the checks of a builder.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o644);
        let content = if kind == EntryType::Regular {
            content
        } else {
            header.as_old_mut().linkname[..content.len()].copy_from_slice(content.as_bytes());
            ""
        };
        header.set_size(content.len() as u64);
        header.set_cksum();
        tar.append(&header, content.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn refused(bytes: &[u8]) -> String {
    let host = ScratchRoot::in_memory();
    host.write("tmp/x.tar.zst", bytes);
    let said = fail(&host, &["host", "install", "--allow-unsigned", "tmp/x.tar.zst"]);
    assert_eq!(files(&host), BTreeMap::new());
    said.strip_prefix("holo-fleet: tmp/x.tar.zst: this is not a bundle: ").map_or(said.clone(), str::to_owned)
}

fn an_archive_is_what_its_manifest_says() {
    const FILE: EntryType = EntryType::Regular;
    let file = |path: &str| format!("{{\"{path}\": {{\"sha256\": \"{X}\", \"size\": 1}}}}");
    let data = "etc/holo/data/x";
    let wrong = format!("{data} is not as in its manifest\n");
    for members in [
        &[][..],
        &[(data, FILE, "y")],
        &[(data, FILE, "xx")],
        &[("etc/holo/data/y", FILE, "x")],
        &[("etc/passwd", FILE, "x")],
        &[("../etc/passwd", FILE, "x")],
        &[(data, EntryType::Symlink, "/etc/passwd")],
        &[(data, EntryType::Link, "/etc/passwd")],
        &[(data, EntryType::Fifo, "")],
        &[(data, EntryType::Directory, "")],
    ] {
        assert_eq!(refused(&archive(&file(data), members)), wrong, "{members:?}");
    }
    let twice = [(data, FILE, "x"), (data, FILE, "x")];
    assert_eq!(refused(&archive(&file(data), &twice)), "it contains more than its manifest lists\n");
    for path in ["etc/passwd", "/etc/holo/data/x", "etc/holo/data/../../x", "etc/holo/agent.toml", "", "etc/holo/data"]
    {
        let said = refused(&archive(&file(path), &[(path, FILE, "x")]));
        assert!(said.starts_with(&format!("{path}: ")), "{path}: {said}");
    }
    let link = |target: &str| format!("{{\"etc/holo/data/x\": {{\"target\": \"{target}\"}}}}");
    for target in ["/etc/passwd", "../../../etc/passwd", "missing"] {
        let said = refused(&archive(&link(target), &[(data, EntryType::Symlink, target)]));
        assert!(said.contains("leads out of the bundle"), "{target}: {said}");
    }
    for (listed, word) in [("[]", "holo-bundle.json: "), ("{\"x\": {\"device\": 1}}", "holo-bundle.json: ")] {
        let said = refused(&archive(listed, &[]));
        assert!(said.starts_with(word), "{said}");
    }
    let whole = archive(&file(data), &[(data, FILE, "x")]);
    for end in [0, 1, 10, whole.len() / 2, whole.len() - 20] {
        refused(&whole[..end]);
    }
    refused(b"nonsense");
    // A flipped bit is noticed by the checksum of zstd, or by the digest of the file.
    for at in (0..whole.len()).step_by(7) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        let host = ScratchRoot::in_memory();
        host.write("tmp/x.tar.zst", &flipped);
        let run = crate::desk::run(&host, &["host", "install", "--allow-unsigned", "tmp/x.tar.zst"]);
        assert!(!run.stderr_lossy().contains("panicked"), "{at}: {run}");
        assert!(!run.success() || host.read(data) == "x", "{at}: {run}");
    }
}

fn a_bomb_is_not_unpacked() {
    // What it lists is too much.
    let listed = format!("{{\"etc/holo/data/x\": {{\"sha256\": \"{X}\", \"size\": {}}}}}", (1_u64 << 30) + 1);
    let said = refused(&archive(&listed, &[]));
    assert_eq!(said, "holo-fleet: tmp/x.tar.zst: more than 1073741824 bytes, the limit of a bundle\n");
    // What it contains is more than it lists.
    let mut header = Header::new_ustar();
    header.set_path("holo-bundle.json").unwrap();
    header.set_entry_type(EntryType::Regular);
    header.set_size(1 << 40);
    header.set_cksum();
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    io::copy(&mut header.as_bytes().as_slice(), &mut encoder).unwrap();
    io::copy(&mut io::repeat(b' ').take(300 << 20), &mut encoder).unwrap();
    assert_eq!(refused(&encoder.finish().unwrap()), "its first member is not holo-bundle.json\n");
    // A name without end.
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    let mut header = Header::new_gnu();
    header.set_path("././@LongLink").unwrap();
    header.set_entry_type(EntryType::GNULongName);
    header.set_size(1 << 40);
    header.set_cksum();
    io::copy(&mut header.as_bytes().as_slice(), &mut encoder).unwrap();
    io::copy(&mut io::repeat(b'a').take(300 << 20), &mut encoder).unwrap();
    assert_eq!(refused(&encoder.finish().unwrap()), "its first member is not holo-bundle.json\n");
}
