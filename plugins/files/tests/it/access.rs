//! ACLs and SELinux contexts of declared files, and recursive permissions of declared directories.

use crate::support::{applied, declare, refused, root, unchanged};
use bstr::ByteSlice;
use holo_testing::{Need, ScratchRoot, trial_of};
use libtest_mimic::Trial;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};

const ACCOUNTS: &str = "root:x:0:0::/:/bin/sh\nalice:x:1001:1001::/:/bin/sh\nbob:x:1002:1002::/:/bin/sh\n";
const GROUPS: &str = "root:x:0:\nstaff:x:1050:\n";
const ALICE: u32 = 1001;

pub(crate) fn trials() -> Vec<Trial> {
    const ACL: [Need; 3] = [Need::ExtendedAttributes, Need::Program("setfacl"), Need::Program("getfacl")];
    const ROOT: [Need; 2] = [Need::Root, Need::ExtendedAttributes];
    vec![
        trial_of("an ACL is the one that setfacl makes", &ACL, as_setfacl),
        trial_of("an ACL comes, is kept, and goes", &ACL, an_acl),
        trial_of("where the mode is declared, it is the mask", &ACL, the_mask),
        trial_of("an ACL that somebody has changed is overwritten by force only", &ACL, changed_acl),
        trial_of(
            "a declared mode changes the ACL of an existing path, and the ACL is ours",
            &ACL,
            mode_of_existing_path,
        ),
        trial_of("a manual ACL change is refused before the path is changed", &ACL, manual_change_comes_first),
        trial_of("a path of another kind gets its ACL", &ACL, another_kind),
        trial_of("an ACL that an earlier run could not set is set, or scrubbed", &ACL, record_of_earlier_run),
        trial_of("an ACL is known by its meaning, not by its order or spelling", &ACL, spelling),
        trial_of("a file that is as declared gets its ACL, and loses it", &ACL, attributes_only),
        trial_of("a directory has an ACL for what is made in it", &ACL, default_acl),
        trial_of("a context is stored, and parts that are left out stay", &ROOT, context),
        trial_of("without ACLs, a file system is named", &[Need::Root, Need::Program("unshare")], without_acls),
        trial_of("everything below gets owner and mode, and gets them back", &ROOT, below),
        trial_of("only files that could be executed still can", &[], executable),
        trial_of("others decide about what they declare below", &[], others),
        trial_of("directories that are made below have the declared permissions at once", &ROOT, made_below),
        trial_of("symlinks are not followed, and files with several names are left alone", &ROOT, unsafe_names),
        trial_of("a set-user-ID bit does not come back to what somebody else had", &ROOT, set_user_id),
        trial_of("what somebody has changed below is overwritten by force only", &[], changed_below),
        trial_of("what cannot be is refused with words", &[], refusals),
        trial_of("a listing shows what differs", &ACL, listing),
        trial_of("adopted files have the same ACL where they are created", &ACL, adopted),
    ]
}

fn machine() -> ScratchRoot {
    root().file("etc/passwd", ACCOUNTS).file("etc/group", GROUPS)
}

/// Returns the output of getfacl for a path, without its header.
#[track_caller]
fn acl(root: &ScratchRoot, path: &str) -> String {
    let run = root.run("/usr/bin/getfacl", &["-cnpE", root.join(path).to_str().unwrap()]);
    assert!(run.success(), "{run}");
    run.stdout_lossy().trim().replace('\n', ",")
}

#[track_caller]
fn setfacl(root: &ScratchRoot, arguments: &[&str], path: &str) {
    let path = root.join(path);
    let words: Vec<&str> = arguments.iter().copied().chain([path.to_str().unwrap()]).collect();
    let run = root.run("/usr/bin/setfacl", &words);
    assert!(run.success(), "{run}");
}

fn chmod(root: &ScratchRoot, path: &str, mode: u32) {
    fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(root: &ScratchRoot, path: &str) -> u32 {
    fs::symlink_metadata(root.join(path)).unwrap().mode() & 0o7777
}

fn owner(root: &ScratchRoot, path: &str) -> u32 {
    fs::symlink_metadata(root.join(path)).unwrap().uid()
}

fn undeclare(root: &ScratchRoot) {
    fs::remove_file(root.join("usr/share/holo/files/a.toml")).unwrap();
}

fn as_setfacl() {
    for (mode, entries) in [
        (0o640, &["user:1001:rw"][..]),
        (0o644, &["u:1001:r", "g:1050:rwX"]),
        (0o755, &["u:1001:-", "g:1050:rX", "m:r"]),
        (0o600, &["g::r", "o::-", "u:1001:7"]),
        (0o2770, &["d:u:1001:rwX", "d:g:1050:r", "u:1002:x"]),
        (0o700, &["d:u::rw", "d:o::-"]),
    ] {
        let root = machine();
        let is_directory = entries.iter().any(|entry| entry.starts_with("d:"));
        let ensure = if is_directory { "directory" } else { "present" };
        for path in ["srv/ours", "srv/theirs"] {
            if is_directory {
                fs::create_dir_all(root.join(path)).unwrap();
            } else {
                root.write(path, "x");
            }
            chmod(&root, path, mode);
        }
        setfacl(&root, &["-m", &entries.join(",")], "srv/theirs");
        declare(&root, &format!("[[file]]\npath = \"/srv/ours\"\nensure = \"{ensure}\"\nacl = {entries:?}\n"));
        applied(&root);
        assert_eq!(acl(&root, "srv/ours"), acl(&root, "srv/theirs"), "{mode:o} {entries:?}");
        unchanged(&root);
    }
}

fn adopted() {
    for (mode, entries, ensure) in [
        (0o644, "u:1001:rw,g:1050:r", "file"),
        (0o600, "g::-,u:1001:rx", "file"),
        (0o2770, "d:u:1001:rwX,d:g:1050:r,u:4711:x", "directory"),
        (0o700, "d:u::rw,d:o::-", "directory"),
    ] {
        let root = machine();
        if ensure == "directory" {
            fs::create_dir_all(root.join("srv/x")).unwrap();
        } else {
            root.write("srv/x", "x");
        }
        chmod(&root, "srv/x", mode);
        setfacl(&root, &["-m", entries], "srv/x");
        let before = acl(&root, "srv/x");
        let run = root.holo(&["adopt", "/srv/x"]);
        assert!(run.success() && run.stderr.is_empty(), "{run}");
        let definition = root.read("etc/holo/resources/files/adopted.toml");
        assert_eq!(definition.contains_str("alice"), entries.contains("1001"), "{definition}");
        let run = root.holo(&["check"]);
        assert!(run.success() && run.stdout.is_empty(), "{run}");
        fs::rename(root.join("srv/x"), root.join("srv/old")).unwrap();
        applied(&root);
        assert_eq!(
            (acl(&root, "srv/x"), self::mode(&root, "srv/x")),
            (before, self::mode(&root, "srv/old")),
            "{definition}"
        );
    }
}

fn an_acl() {
    let root = machine().file("etc/x", "before\n");
    setfacl(&root, &["-m", "u:1002:r"], "etc/x");
    let before = acl(&root, "etc/x");
    declare(&root, "[[file]]\npath = \"/etc/x\"\ncontent = \"x\\n\"\nacl = [\"user:alice:rw\"]\n");
    applied(&root);
    assert_eq!(acl(&root, "etc/x"), "user::rw-,user:1001:rw-,group::r--,mask::rw-,other::r--");
    unchanged(&root);
    declare(&root, "[[file]]\npath = \"/etc/x\"\ncontent = \"y\\n\"\nacl = [\"user:alice:rw\", \"group:staff:r\"]\n");
    applied(&root);
    assert_eq!(acl(&root, "etc/x"), "user::rw-,user:1001:rw-,group::r--,group:1050:r--,mask::rw-,other::r--");
    unchanged(&root);
    declare(&root, "[[file]]\npath = \"/etc/x\"\ncontent = \"z\\n\"\nacl = []\n");
    applied(&root);
    assert_eq!(acl(&root, "etc/x"), "user::rw-,group::r--,other::r--");
    undeclare(&root);
    applied(&root);
    assert_eq!((acl(&root, "etc/x"), root.read("etc/x")), (before, "before\n".into()));
    assert_eq!(root.records("files/access"), [""; 0]);
}

fn the_mask() {
    let root = machine();
    declare(&root, "[[file]]\npath = \"/etc/x\"\ncontent = \"\"\nmode = \"0640\"\nacl = [\"u:alice:rw\", \"g::-\"]\n");
    let run = applied(&root);
    let doubt = "the mode limits user:alice:rw- to r--";
    assert!(run.stderr_lossy().contains(doubt), "{run}");
    assert_eq!(acl(&root, "etc/x"), "user::rw-,user:1001:rw-,group::---,mask::r--,other::---");
    assert_eq!(mode(&root, "etc/x"), 0o640);
    assert_eq!(applied(&root).stdout_lossy().trim(), "");
    undeclare(&root);
    applied(&root);
    assert!(!root.exists("etc/x"));
}

fn changed_acl() {
    let root = machine().file("etc/x", "x\n");
    declare(&root, "[[file]]\npath = \"/etc/x\"\nacl = [\"u:alice:rw\"]\n");
    applied(&root);
    setfacl(&root, &["-m", "u:1001:r,u:1002:r"], "etc/x");
    let theirs = acl(&root, "etc/x");
    refused(&root, "manual change of the ACL of");
    assert_eq!(acl(&root, "etc/x"), theirs);
    assert!(root.holo(&["apply", "--force"]).success());
    assert_eq!(acl(&root, "etc/x"), "user::rw-,user:1001:rw-,group::r--,mask::rw-,other::r--");
    setfacl(&root, &["-m", "u:1001:r"], "etc/x");
    undeclare(&root);
    refused(&root, "manual change of the ACL of");
    assert!(root.holo(&["apply", "--force"]).success());
    assert_eq!(acl(&root, "etc/x"), "user::rw-,group::r--,other::r--");
}

/// The mode of a path is changed before its ACL, and chmod changes both.
fn mode_of_existing_path() {
    for (is_directory, before, after, extra) in [
        (false, 0o444, "0644", "content = \"new\\n\"\n"),
        (false, 0o444, "0644", ""),
        (false, 0o644, "0640", "content = \"new\\n\"\n"),
        (false, 0o600, "0640", "content = \"old\\n\"\n"),
        (false, 0o755, "0600", "content = \"new\\n\"\nin_place = true\n"),
        (true, 0o755, "0700", ""),
        (true, 0o700, "2750", ""),
        (true, 0o555, "0775", "recurse = true\n"),
    ] {
        for acl_before in [None, Some("u:1002:rx,g:1050:w")] {
            let root = machine();
            for path in ["srv/ours", "srv/theirs"] {
                if is_directory {
                    fs::create_dir_all(root.join(path)).unwrap();
                } else {
                    root.write(path, "old\n");
                }
                chmod(&root, path, before);
                acl_before.iter().for_each(|entries| setfacl(&root, &["-m", entries], path));
            }
            let (acl_at_first, mode_at_first) = (acl(&root, "srv/ours"), mode(&root, "srv/ours"));
            let entries = if is_directory { "\"u:alice:r\", \"d:u:alice:rX\"" } else { "\"u:alice:r\"" };
            let ensure = if is_directory { "directory" } else { "present" };
            declare(
                &root,
                &format!(
                    "[[file]]\npath = \"/srv/ours\"\nensure = \"{ensure}\"\nmode = \"{after}\"\nacl = [{entries}]\n{extra}"
                ),
            );
            let run = root.holo(&["apply", "--json"]);
            let what = format!("{before:o} {acl_before:?} {after} {extra:?}\n{run}");
            let expected = u32::from_str_radix(after, 8).unwrap();
            assert!(acl(&root, "srv/ours").contains("user:1001:r--"), "{}\n{what}", acl(&root, "srv/ours"));
            assert_eq!(mode(&root, "srv/ours"), expected, "{what}");
            assert!(run.success() && run.stdout_lossy().contains("\"changed\":1"), "{what}");
            assert_eq!(applied(&root).stdout_lossy().trim(), "", "{what}");
            undeclare(&root);
            applied(&root);
            assert_eq!((acl(&root, "srv/ours"), mode(&root, "srv/ours")), (acl_at_first, mode_at_first), "{what}");
            assert!(!root.exists("var/lib/holo/files/.access"), "{what}");
        }
    }
}

fn manual_change_comes_first() {
    let root = machine().file("etc/x", "x\n");
    declare(&root, "[[file]]\npath = \"/etc/x\"\ncontent = \"y\\n\"\nmode = \"0640\"\nacl = [\"u:alice:r\"]\n");
    applied(&root);
    setfacl(&root, &["-m", "u:1002:r"], "etc/x");
    declare(&root, "[[file]]\npath = \"/etc/x\"\ncontent = \"z\\n\"\nmode = \"0660\"\nacl = [\"u:alice:r\"]\n");
    assert_eq!(root.holo(&["check"]).status, Some(3));
    refused(&root, "manual change of the ACL of");
    assert!(root.holo(&["apply", "--force"]).success());
    assert_eq!((root.read("etc/x"), mode(&root, "etc/x")), ("z\n".into(), 0o660));
    unchanged(&root);
}

fn another_kind() {
    let root = machine().file("srv/x", "x\n");
    chmod(&root, "srv/x", 0o600);
    declare(&root, "[[file]]\npath = \"/srv/x\"\nacl = [\"u:alice:rw\"]\n");
    applied(&root);
    let acl_of_file = acl(&root, "srv/x");
    declare(&root, "[[file]]\npath = \"/srv/x\"\nensure = \"directory\"\nacl = [\"u:alice:rwx\"]\n");
    let run = root.holo(&["apply", "--force"]);
    assert!(run.success(), "{run}");
    assert_eq!(acl(&root, "srv/x"), "user::rwx,user:1001:rwx,group::r-x,mask::rwx,other::r-x");
    unchanged(&root);
    assert_ne!(acl(&root, "srv/x"), acl_of_file);
    undeclare(&root);
    applied(&root);
    assert_eq!((acl(&root, "srv/x"), root.read("srv/x")), ("user::rw-,group::---,other::---".into(), "x\n".into()));
}

/// An earlier version took its own change of the mode for a manual change of the ACL, and left the path in this state.
fn record_of_earlier_run() {
    for is_declared in [true, false] {
        let root = machine().file("etc/x", "x\n");
        declare(&root, "[[file]]\npath = \"/etc/x\"\nmode = \"0640\"\nacl = [\"u:alice:r\"]\n");
        applied(&root);
        setfacl(&root, &["-b"], "etc/x");
        chmod(&root, "etc/x", 0o640);
        let known: serde_json::Value = serde_json::from_str(&root.record("files/access", "file:/etc/x")).unwrap();
        let old = serde_json::json!(["user::r--", "group::r--", "other::r--"]);
        let mut known = known;
        known["base"][0][1] = serde_json::json!({ "base": { "acl": old }, "made": { "acl": old } });
        root.write_record("files/access", "file:/etc/x", &known.to_string());
        if is_declared {
            applied(&root);
            assert_eq!(acl(&root, "etc/x"), "user::rw-,user:1001:r--,group::r--,mask::r--,other::---");
            unchanged(&root);
        }
        undeclare(&root);
        applied(&root);
    }
}

fn spelling() {
    let root = machine().file("etc/x", "x\n");
    declare(&root, "[[file]]\npath = \"/etc/x\"\nacl = [\"user:alice:rw\", \"g:staff:r-x\"]\n");
    applied(&root);
    declare(&root, "[[file]]\npath = \"/etc/x\"\nacl = [\"group:1050:5\", \"u:1001:wr\"]\n");
    unchanged(&root);
}

fn attributes_only() {
    let root = machine().file("etc/x", "x\n");
    declare(&root, "[[file]]\npath = \"/etc/x\"\ncontent = \"x\\n\"\nacl = [\"user:alice:rw\"]\n");
    let inode = fs::metadata(root.join("etc/x")).unwrap().ino();
    applied(&root);
    unchanged(&root);
    // A content that is declared later is written with the ACL.
    declare(&root, "[[file]]\npath = \"/etc/x\"\ncontent = \"y\\n\"\nacl = [\"user:alice:rw\"]\n");
    applied(&root);
    assert_ne!(fs::metadata(root.join("etc/x")).unwrap().ino(), inode);
    assert_eq!(acl(&root, "etc/x"), "user::rw-,user:1001:rw-,group::r--,mask::rw-,other::r--");
    undeclare(&root);
    applied(&root);
    assert_eq!((acl(&root, "etc/x"), root.read("etc/x")), ("user::rw-,group::r--,other::r--".into(), "x\n".into()));
}

fn default_acl() {
    let root = machine();
    declare(&root, "[[file]]\npath = \"/srv/d\"\nensure = \"directory\"\nmode = \"0750\"\nacl = [\"d:u:alice:rX\"]\n");
    applied(&root);
    unchanged(&root);
    root.write("srv/d/new", "");
    assert!(acl(&root, "srv/d/new").contains("user:1001:r-x"), "{}", acl(&root, "srv/d/new"));
    fs::remove_file(root.join("srv/d/new")).unwrap();
    undeclare(&root);
    applied(&root);
    assert!(!root.exists("srv/d"));
}

fn context() {
    let root = machine().file("etc/x", "x\n");
    let stored = |root: &ScratchRoot| {
        let mut value = [0; 200];
        let length = rustix::fs::getxattr(root.join("etc/x"), "security.selinux", &mut value).unwrap_or(0);
        String::from_utf8_lossy(&value[..length]).into_owned()
    };
    declare(&root, "[[file]]\npath = \"/etc/x\"\nselinux = \"etc_t\"\n");
    applied(&root);
    assert_eq!(stored(&root), "system_u:object_r:etc_t:s0\0");
    unchanged(&root);
    declare(&root, "[[file]]\npath = \"/etc/x\"\nselinux = \"staff_u::net_conf_t:s0:c1,c2\"\n");
    applied(&root);
    assert_eq!(stored(&root), "staff_u:object_r:net_conf_t:s0:c1,c2\0");
    declare(&root, "[[file]]\npath = \"/etc/x\"\nselinux = \"::etc_t\"\n");
    applied(&root);
    assert_eq!(stored(&root), "staff_u:object_r:etc_t:s0:c1,c2\0");
    undeclare(&root);
    applied(&root);
    assert_eq!(stored(&root), "");
}

/// ramfs does not support ACLs.
fn without_acls() {
    let root = machine();
    fs::create_dir_all(root.join("srv")).unwrap();
    declare(&root, "[[file]]\npath = \"/srv/x\"\ncontent = \"x\\n\"\nacl = [\"user:alice:rw\"]\n");
    let script = r#"mount -t ramfs none "$1" && exec "$2" apply"#;
    let (mounted, holo) = (root.join("srv"), holo_testing::binaries::built("holo"));
    let words = ["--mount", "sh", "-c", script, "sh", mounted.to_str().unwrap(), holo.to_str().unwrap()];
    let run = root.run("/usr/bin/unshare", &words);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains("its file system has no ACLs"), "{run}");
}

fn below() {
    let root = machine().file("srv/www/a", "a\n").file("srv/www/sub/b", "b\n");
    let root_user = 0;
    chmod(&root, "srv/www/sub", 0o700);
    chmod(&root, "srv/www/a", 0o666);
    symlink("/etc/passwd", root.join("srv/www/link")).unwrap();
    let before = root.dump();
    declare(
        &root,
        "[[file]]\npath = \"/srv/www\"\nensure = \"directory\"\nowner = \"alice\"\nmode = \"2750\"\nrecurse = true\n",
    );
    applied(&root);
    for (path, expected) in
        [("srv/www", 0o2750), ("srv/www/sub", 0o2750), ("srv/www/a", 0o640), ("srv/www/sub/b", 0o640)]
    {
        assert_eq!((mode(&root, path), owner(&root, path)), (expected, ALICE), "{path}");
    }
    assert_eq!((owner(&root, "srv/www/link"), owner(&root, "etc/passwd")), (ALICE, root_user));
    unchanged(&root);
    // New paths are changed by the next apply, and removed ones are forgotten.
    root.write("srv/www/sub/new", "");
    fs::remove_file(root.join("srv/www/sub/b")).unwrap();
    applied(&root);
    assert_eq!(owner(&root, "srv/www/sub/new"), ALICE);
    fs::remove_file(root.join("srv/www/sub/new")).unwrap();
    undeclare(&root);
    applied(&root);
    root.write("srv/www/sub/b", "b\n");
    let now = root.dump();
    let of_srv = |dump: &[u8]| {
        let text = String::from_utf8_lossy(dump).into_owned();
        text.split("----------------------------------------\n")
            .filter(|part| part.contains("./srv/"))
            .collect::<String>()
    };
    assert_eq!(of_srv(&now), of_srv(&before));
    assert_eq!(owner(&root, "srv/www/link"), root_user);
}

fn executable() {
    let root = machine().file("srv/www/a", "a\n").file("srv/www/b", "b\n");
    chmod(&root, "srv/www/a", 0o700);
    declare(&root, "[[file]]\npath = \"/srv/www\"\nensure = \"directory\"\nmode = \"0755\"\nrecurse = true\n");
    applied(&root);
    assert_eq!((mode(&root, "srv/www/a"), mode(&root, "srv/www/b")), (0o755, 0o644));
    declare(
        &root,
        "[[file]]\npath = \"/srv/www\"\nensure = \"directory\"\nmode = \"0750\"\nrecurse = true\nfile_mode = \"0400\"\n",
    );
    applied(&root);
    assert_eq!((mode(&root, "srv/www/a"), mode(&root, "srv/www/b")), (0o400, 0o400));
    unchanged(&root);
}

fn others() {
    let root = machine().file("srv/www/overlaid", "stock\n").file("srv/www/inner/x", "x\n");
    root.write("usr/share/holo/files/01-x/srv/www/overlaid", "ours\n");
    chmod(&root, "srv/www/overlaid", 0o644);
    applied(&root);
    chmod(&root, "srv/www/inner/x", 0o666);
    let outer = "[[file]]\npath = \"/srv/www\"\nensure = \"directory\"\nmode = \"0750\"\nrecurse = true\n";
    let inner = "[[file]]\npath = \"/srv/www/inner\"\nensure = \"directory\"\nmode = \"0700\"\nrecurse = true\n";
    let file = "[[file]]\npath = \"/srv/www/secret\"\ncontent = \"x\\n\"\nmode = \"0600\"\n";
    declare(&root, &[outer, inner, file].concat());
    applied(&root);
    applied(&root);
    unchanged(&root);
    assert_eq!(mode(&root, "srv/www/secret"), 0o600);
    assert_eq!((mode(&root, "srv/www/inner"), mode(&root, "srv/www/inner/x")), (0o700, 0o600));
    assert_eq!(mode(&root, "srv/www/overlaid"), 0o644);
}

fn made_below() {
    let root = machine().dir("srv/www").dir("srv/other");
    let outer =
        "[[file]]\npath = \"/srv/www\"\nensure = \"directory\"\nowner = \"alice\"\nmode = \"0700\"\nrecurse = true\n";
    let file = |path: &str| format!("[[file]]\npath = \"{path}\"\ncontent = \"x\\n\"\nmode = \"0644\"\n");
    declare(&root, &[outer, &file("/srv/www/a/b/c"), &file("/srv/other/a/b")].concat());
    applied(&root);
    unchanged(&root);
    for path in ["srv/www/a", "srv/www/a/b"] {
        assert_eq!((mode(&root, path), owner(&root, path)), (0o700, ALICE), "{path}");
    }
    assert_eq!((mode(&root, "srv/www/a/b/c"), owner(&root, "srv/www/a/b/c")), (0o644, 0));
    assert_eq!((mode(&root, "srv/other/a"), owner(&root, "srv/other/a")), (0o755, 0));
    undeclare(&root);
    applied(&root);
    assert!(!root.exists("srv/www/a"));
}

fn unsafe_names() {
    let root = machine().file("srv/www/ours", "a\n").file("etc/shadow", "secret\n").file("srv/out/x", "x\n");
    lchown(root.join("srv/www"), Some(ALICE), None).unwrap();
    fs::hard_link(root.join("etc/shadow"), root.join("srv/www/second")).unwrap();
    symlink("../out", root.join("srv/www/out")).unwrap();
    declare(&root, "[[file]]\npath = \"/srv/www\"\nensure = \"directory\"\nowner = \"alice\"\nrecurse = true\n");
    let run = root.holo(&["apply"]);
    assert_eq!(run.status, Some(1), "{run}");
    assert!(run.stderr_lossy().contains("it has several names, in a directory of another user"), "{run}");
    assert_eq!((owner(&root, "etc/shadow"), owner(&root, "srv/out/x")), (0, 0));
    assert_eq!((owner(&root, "srv/www/ours"), owner(&root, "srv/www/out")), (ALICE, ALICE));
}

fn set_user_id() {
    let root = machine().file("srv/www/tool", "tool\n");
    chmod(&root, "srv/www/tool", 0o4755);
    declare(
        &root,
        "[[file]]\npath = \"/srv/www\"\nensure = \"directory\"\nowner = \"alice\"\nmode = \"0755\"\nrecurse = true\n",
    );
    applied(&root);
    assert_eq!((mode(&root, "srv/www/tool"), owner(&root, "srv/www/tool")), (0o755, ALICE));
    fs::write(root.join("srv/www/tool"), "something else\n").unwrap();
    undeclare(&root);
    applied(&root);
    assert_eq!((mode(&root, "srv/www/tool"), owner(&root, "srv/www/tool")), (0o755, 0));
}

fn changed_below() {
    let root = machine().file("srv/www/a", "a\n").file("srv/www/b", "b\n");
    chmod(&root, "srv/www/b", 0o604);
    let definition = "[[file]]\npath = \"/srv/www\"\nensure = \"directory\"\nmode = \"0750\"\nrecurse = true\n";
    declare(&root, definition);
    applied(&root);
    // Restoring the original mode manually is no conflict.
    chmod(&root, "srv/www/b", 0o604);
    applied(&root);
    chmod(&root, "srv/www/a", 0o606);
    refused(&root, "manual change of the mode of");
    assert!(root.holo(&["apply", "--force"]).success());
    assert_eq!((mode(&root, "srv/www/a"), mode(&root, "srv/www/b")), (0o640, 0o640));
}

fn refusals() {
    let directory = "[[file]]\npath = \"/x\"\nensure = \"directory\"\n";
    let file = "[[file]]\npath = \"/x\"\ncontent = \"\"\n";
    let link = "[[file]]\npath = \"/x\"\nensure = \"symlink\"\ntarget = \"y\"\n";
    for (definition, words) in [
        (format!("{directory}recurse = true\n"), "recurse: requires owner, group, mode or file_mode"),
        (format!("{file}recurse = true\nmode = \"0600\"\n"), "recurse: is only for ensure = \"directory\""),
        (format!("{directory}file_mode = \"0600\"\n"), "file_mode: is only for recurse = true"),
        (format!("{directory}recurse = true\nfile_mode = \"4755\"\n"), "has special bits"),
        (format!("{file}acl = [\"alice:rw\"]\n"), "is not an entry of an ACL"),
        (format!("{file}acl = [\"user:alice:rq\"]\n"), "does not end with permissions"),
        (format!("{file}acl = [\"u:alice:r\", \"user:alice:w\"]\n"), "is there twice"),
        (format!("{file}acl = [\"d:u:alice:r\"]\n"), "files have no default ACL"),
        (format!("{file}mode = \"0600\"\nacl = [\"m:r\"]\n"), "is what mode says already"),
        (format!("{file}acl = [\"user:carol:r\"]\n"), "there is no user \"carol\""),
        (format!("{link}acl = [\"user:alice:r\"]\n"), "is not for a symlink"),
        (format!("{file}selinux = \"a b\"\n"), "is not a SELinux context"),
        (format!("{file}selinux = \":::\"\n"), "is not a SELinux context"),
    ] {
        let root = machine();
        declare(&root, &definition);
        let run = root.holo(&["apply"]);
        assert_eq!(run.status, Some(1), "{definition}{run}");
        assert!(run.stderr_lossy().contains(words), "{words:?} is not said of\n{definition}{run}");
    }
}

fn listing() {
    let root = machine().file("etc/x", "x\n");
    declare(&root, "[[file]]\npath = \"/etc/x\"\nacl = [\"user:alice:rw\"]\n");
    let run = root.holo(&["check", "--diff"]);
    assert!(run.stdout_lossy().contains("acl user:alice:rw-\n"), "{run}");
    assert_eq!(run.status, Some(3), "{run}");
    applied(&root);
    assert_eq!(root.holo(&["diff"]).stdout_lossy(), "");
    setfacl(&root, &["-m", "u:1001:r"], "etc/x");
    let run = root.holo(&["diff"]);
    assert!(run.stdout_lossy().contains("acl user:alice:rw-\n"), "{run}");
    assert!(run.stdout_lossy().contains("acl user:alice:r--\n"), "{run}");
}
