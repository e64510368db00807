//! ACLs and other extended attributes are handled like the mode: they are kept when a target is replaced, and restored with it. Sparse
//! files stay sparse.

use holo_testing::{Need, Run, ScratchRoot, binaries::built, trial_of};
use libtest_mimic::Trial;
use rustix::fs::XattrFlags;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const STOCK: &str = "stock\n";
const WANTED: &str = "wanted\n";
const TARGET: &str = "etc/motd";
const RESOURCE: &str = "usr/share/holo/files/01-x/etc/motd";
const BASE: &str = "var/lib/holo/files/base/etc/motd";
const PROVISIONED: &str = "var/lib/holo/files/provisioned/etc/motd";

const ACL: &str = "system.posix_acl_access";
const DEFAULT_ACL: &str = "system.posix_acl_default";
/// The users and groups in ACLs. They need not exist.
const SOMEBODY: u32 = 12345;
const SOMEBODY_ELSE: u32 = 12346;
/// The mode of a file that the owner and one more user may write. The group may not, but its bits are set because they are the mask.
const NO_GROUP: u32 = 0o660;

pub(crate) fn trials() -> Vec<Trial> {
    const XATTRS: Need = Need::ExtendedAttributes;
    vec![
        trial_of("an ACL stays when the target is replaced, and when it is restored", &[XATTRS], acl_stays),
        trial_of("so does what a user has noted", &[XATTRS], notes_stay),
        trial_of("so does a capability", &[XATTRS, Need::Root], capabilities_stay),
        trial_of("the base that is copied has the attributes too", &[XATTRS], copied_base),
        trial_of("a new version from the package comes with its own", &[XATTRS], stock_file),
        trial_of("a file gets no ACL from its folder that it did not have", &[XATTRS], default_acl),
        trial_of(
            "attributes that a person has given are no reason to refuse, and stay until scrubbing",
            &[XATTRS],
            later,
        ),
        trial_of("forced overwriting of another mode restores the ACL of the base", &[XATTRS], forced),
        trial_of(
            "where the base cannot have an ACL it allows less, and the target keeps its own",
            &[XATTRS, Need::Root, Need::Program("unshare")],
            base_without_acl,
        ),
        trial_of("holes stay holes", &[], holes),
    ]
}

fn root() -> ScratchRoot {
    let root = ScratchRoot::new().binary(built("holo")).plugin("files").file("etc/os-release", "ID=arch\n");
    root.file(TARGET, STOCK).file(RESOURCE, WANTED)
}

#[track_caller]
fn applied(root: &ScratchRoot, arguments: &[&str]) -> Run {
    let run = root.holo(&[&["apply"], arguments].concat());
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    run
}

fn acl(user: u32, owner: u16, group: u16, mask: u16, other: u16) -> Vec<u8> {
    let entries =
        [(1, owner, u32::MAX), (2, 6, user), (4, group, u32::MAX), (16, mask, u32::MAX), (32, other, u32::MAX)];
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        acl.extend(u16::to_le_bytes(tag));
        acl.extend(permissions.to_le_bytes());
        acl.extend(id.to_le_bytes());
    }
    acl
}

fn acl_without_group() -> Vec<u8> {
    acl(SOMEBODY, 6, 0, 6, 0)
}

#[track_caller]
fn set(root: &ScratchRoot, path: &str, name: &str, value: &[u8]) {
    rustix::fs::setxattr(root.join(path), name, value, XattrFlags::empty()).unwrap();
}

fn get(root: &ScratchRoot, path: &str, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 4096];
    let length = rustix::fs::getxattr(root.join(path), name, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[track_caller]
fn scrub(root: &ScratchRoot) {
    fs::remove_file(root.join(RESOURCE)).unwrap();
    applied(root, &[]);
    assert_eq!(root.read(TARGET), STOCK);
    assert!(!root.exists(BASE));
}

fn acl_stays() {
    let root = root();
    set(&root, TARGET, ACL, &acl_without_group());
    assert_eq!(mode(&root.join(TARGET)), NO_GROUP);
    for wanted in [WANTED, "wanted later\n"] {
        root.write(RESOURCE, wanted);
        applied(&root, &[]);
        assert_eq!(root.read(TARGET), wanted);
        for path in [TARGET, BASE, PROVISIONED] {
            assert_eq!(get(&root, path, ACL), Some(acl_without_group()), "{path}");
            assert_eq!(mode(&root.join(path)), NO_GROUP, "{path}");
        }
        assert!(applied(&root, &[]).stdout.is_empty());
    }
    scrub(&root);
    assert_eq!(get(&root, TARGET, ACL), Some(acl_without_group()));
    assert_eq!(mode(&root.join(TARGET)), NO_GROUP);
}

fn notes_stay() {
    let root = root();
    // Longer than usual values.
    let note = "x".repeat(1000);
    set(&root, TARGET, "user.note", note.as_bytes());
    applied(&root, &[]);
    assert_eq!(root.read(TARGET), WANTED);
    assert_eq!(get(&root, TARGET, "user.note"), Some(note.clone().into()));
    scrub(&root);
    assert_eq!(get(&root, TARGET, "user.note"), Some(note.into()));
}

fn capabilities_stay() {
    /// CAP_NET_RAW
    const CAPABILITY: &[u8] = &[1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let root = root();
    std::os::unix::fs::chown(root.join(TARGET), Some(SOMEBODY), None).unwrap();
    set(&root, TARGET, "security.capability", CAPABILITY);
    applied(&root, &[]);
    for path in [TARGET, BASE] {
        assert_eq!(get(&root, path, "security.capability").as_deref(), Some(CAPABILITY), "{path}");
        assert_eq!(fs::metadata(root.join(path)).unwrap().uid(), SOMEBODY, "{path}");
    }
    scrub(&root);
    assert_eq!(get(&root, TARGET, "security.capability").as_deref(), Some(CAPABILITY));
}

/// The target is already in its desired state, so the base is a copy.
fn copied_base() {
    let root = root();
    root.write(RESOURCE, STOCK);
    set(&root, TARGET, ACL, &acl_without_group());
    applied(&root, &[]);
    for path in [TARGET, BASE, PROVISIONED] {
        assert_eq!(get(&root, path, ACL), Some(acl_without_group()), "{path}");
    }
}

fn stock_file() {
    let root = root();
    applied(&root, &[]);
    root.write("etc/motd.pacnew", "new stock\n");
    set(&root, "etc/motd.pacnew", ACL, &acl_without_group());
    applied(&root, &[]);
    assert_eq!(root.read(BASE), "new stock\n");
    for path in [TARGET, BASE] {
        assert_eq!(get(&root, path, ACL), Some(acl_without_group()), "{path}");
    }
}

fn default_acl() {
    let root = root();
    for folder in ["etc", "var/lib/holo"] {
        set(&root, folder, DEFAULT_ACL, &acl(SOMEBODY, 7, 7, 7, 7));
    }
    applied(&root, &[]);
    assert_eq!(root.read(TARGET), WANTED);
    for path in [TARGET, BASE, PROVISIONED] {
        assert_eq!((get(&root, path, ACL), mode(&root.join(path))), (None, 0o644), "{path}");
    }
    scrub(&root);
    assert_eq!((get(&root, TARGET, ACL), mode(&root.join(TARGET))), (None, 0o644));
}

fn later() {
    let root = root();
    set(&root, TARGET, "user.note", b"from the beginning");
    applied(&root, &[]);
    set(&root, TARGET, "user.note", b"later");
    // The mode stays the same.
    set(&root, TARGET, ACL, &acl(SOMEBODY, 6, 4, 4, 4));
    assert!(applied(&root, &[]).stdout.is_empty());
    assert!(root.holo(&["check"]).success());
    root.write(RESOURCE, "wanted later\n");
    applied(&root, &[]);
    assert_eq!(root.read(TARGET), "wanted later\n");
    assert_eq!(get(&root, TARGET, "user.note").as_deref(), Some(&b"later"[..]));
    assert_eq!(get(&root, TARGET, ACL), Some(acl(SOMEBODY, 6, 4, 4, 4)));
    scrub(&root);
    assert_eq!(get(&root, TARGET, "user.note").as_deref(), Some(&b"from the beginning"[..]));
    assert_eq!(get(&root, TARGET, ACL), None);

    // Also if nothing else has to be restored.
    root.write(RESOURCE, STOCK);
    applied(&root, &[]);
    set(&root, TARGET, "user.note", b"later");
    scrub(&root);
    assert_eq!(get(&root, TARGET, "user.note").as_deref(), Some(&b"from the beginning"[..]));
}

fn forced() {
    let root = root();
    set(&root, TARGET, ACL, &acl_without_group());
    applied(&root, &[]);
    set(&root, TARGET, ACL, &acl(SOMEBODY_ELSE, 6, 0, 4, 0));
    let run = root.holo(&["apply"]);
    assert!(run.stderr_lossy().contains("modified by user"), "{run}");
    assert_eq!(get(&root, TARGET, ACL), Some(acl(SOMEBODY_ELSE, 6, 0, 4, 0)));
    applied(&root, &["--force"]);
    assert_eq!(get(&root, TARGET, ACL), Some(acl_without_group()));
    assert_eq!(mode(&root.join(TARGET)), NO_GROUP);
}

fn base_without_acl() {
    let root = root();
    let script = format!(
        "set -e\ncd {root}\nmount -t ramfs none var/lib/holo\n{holo} apply >first\n\
         stat -c %a {BASE} {PROVISIONED} >modes\n{holo} apply >second\necho later >{RESOURCE}\n{holo} apply >third\n\
         cat {TARGET} >content\nstat -c %a {TARGET} >>modes\nrm {RESOURCE}\n{holo} apply >fourth\n",
        root = root.path().display(),
        holo = built("holo").display(),
    );
    set(&root, TARGET, ACL, &acl_without_group());
    let run = root
        .run("unshare", &["--mount", "env", &format!("HOLO_ROOT_DIR={}", root.path().display()), "sh", "-c", &script]);
    assert!(run.success() && run.stderr.is_empty(), "{run}");
    assert_eq!(root.read("modes"), "600\n600\n660\n");
    assert_eq!(root.read("second"), "");
    assert_eq!(root.read("content"), "later\n");
    assert_eq!(root.read(TARGET), STOCK);
    assert_eq!(get(&root, TARGET, ACL), Some(acl_without_group()));
    assert_eq!(mode(&root.join(TARGET)), NO_GROUP);
}

fn holes() {
    const SIZE: u64 = 256 << 20;
    /// Enough for the data, but not for the hole.
    const FEW_BLOCKS: u64 = 1 << 12;
    // Others may write to the file, so its base is a copy.
    let root = root().mode(TARGET, 0o666);
    let mut file = File::options().write(true).open(root.join(TARGET)).unwrap();
    file.seek(SeekFrom::Start(SIZE)).unwrap();
    file.write_all(STOCK.as_bytes()).unwrap();
    applied(&root, &[]);
    let base = fs::metadata(root.join(BASE)).unwrap();
    assert_eq!(base.len(), SIZE + STOCK.len() as u64);
    assert!(base.blocks() < FEW_BLOCKS, "the base has {} blocks", base.blocks());
    fs::remove_file(root.join(RESOURCE)).unwrap();
    applied(&root, &[]);
    let target = fs::metadata(root.join(TARGET)).unwrap();
    assert_eq!(target.len(), base.len());
    assert!(target.blocks() < FEW_BLOCKS, "the target has {} blocks", target.blocks());
}
