//! Lives that have failed once.

use super::steps::Bundle::{self, Archive, Purging, Recursive, Scaffold};
use super::steps::Step::{
    self, Abandon, Adopt, Append, Apply, Define, Delete, Fill, FillDisk, Force, KillForced, KillHolo, KillPlugins,
    Link, Package, RollBack, Together, Write,
};
use super::steps::Wish::{
    Absent, Access, Directory, Edits, File, InPlace, Nothing, Overlay, OverlayLink, Script, Symlink, Template,
};

pub(super) const LIVES: &[(&str, &[Step])] = &[
    (
        "an overlay goes with a person's change",
        &[Define("etc/a", Overlay("ours\n")), Apply, Append("etc/a", 1), Define("etc/a", Nothing), Apply],
    ),
    (
        "a failed entity has replaced a person's file",
        &[Define("etc/app/y", File("ours\n")), Apply, Define("etc/app/y", Script), Append("etc/app/y", 11), Force],
    ),
    ("an edit in a directory that nobody makes", &[Define("etc/app/sub/z", Edits("block", true)), Apply]),
    (
        "an edit in a directory that an archive might make",
        &[Fill("etc/app", Archive(&["x"], 0)), Define("etc/app/sub/z", Edits("block", true)), Force],
    ),
    (
        "a file of an archive becomes an edit",
        &[
            Fill("etc/app", Archive(&["x", "y"], 0)),
            Apply,
            Fill("etc/app", Bundle::Nothing),
            Define("etc/app/x", Edits("line block ini", false)),
            Apply,
        ],
    ),
    (
        "a file of a scaffold becomes an edit",
        &[
            Fill("etc/app", Scaffold(&["x", "y"], 0)),
            Apply,
            Fill("etc/app", Bundle::Nothing),
            Define("etc/app/x", Edits("line", false)),
            Apply,
        ],
    ),
    (
        "a file of a scaffold that a person has changed becomes an edit",
        &[
            Fill("etc/app", Scaffold(&["x"], 0)),
            Apply,
            Append("etc/app/x", 1),
            Fill("etc/app", Bundle::Nothing),
            Define("etc/app/x", Edits("line", false)),
            Apply,
            Force,
        ],
    ),
    (
        "a declared symlink becomes an edit",
        &[Define("etc/a", Symlink), Apply, Define("etc/a", Edits("line ini", false)), Apply],
    ),
    (
        "a file of a scaffold is edited",
        &[Fill("etc/app", Scaffold(&["x"], 0)), Apply, Define("etc/app/x", Edits("line", false)), Apply, Force],
    ),
    (
        "an edited file becomes one of an archive",
        &[Define("etc/app/x", Edits("line", false)), Apply, Fill("etc/app", Archive(&["x"], 0)), Apply, Force],
    ),
    (
        "an archive that is here gets a rival",
        &[Fill("etc/app", Archive(&["x"], 0)), Apply, Define("etc/app/x", File("ours\n")), Apply],
    ),
    (
        "what a person has changed in an archive is in the history",
        &[
            Fill("etc/app", Archive(&["x", "y"], 0)),
            Apply,
            Write("etc/app/x", 1),
            Force,
            Append("etc/app/y", 2),
            Fill("etc/app", Bundle::Nothing),
            Force,
        ],
    ),
    (
        "an overlay comes after what was absent",
        &[Define("etc/a", Absent), Apply, Define("etc/a", Overlay("ours\n")), Apply],
    ),
    (
        "an overlay comes after a file that was nothing",
        &[Define("etc/app/sub/z", File("ours\n")), Apply, Define("etc/app/sub/z", OverlayLink), Apply],
    ),
    (
        "an overlay in a tree that is about to be written",
        &[
            Fill("etc/app", Scaffold(&["y", "sub/z"], 0)),
            Define("etc/app/y", Overlay("ours\n")),
            Apply,
            Fill("etc/app", Scaffold(&["y"], 1)),
            Apply,
        ],
    ),
    (
        "a scaffold goes together with an overlay",
        &[
            Fill("etc/app", Scaffold(&["x"], 0)),
            Define("etc/app/x", Overlay("ours\n")),
            Apply,
            Fill("etc/app", Bundle::Nothing),
            Apply,
            Define("etc/app/x", Nothing),
            Apply,
        ],
    ),
    (
        "an overlay comes when its scaffold goes",
        &[
            Fill("etc/app", Scaffold(&["x"], 0)),
            Apply,
            Fill("etc/app", Bundle::Nothing),
            Define("etc/app/x", Overlay("ours\n")),
            Apply,
        ],
    ),
    (
        "a person's file becomes a directory by force",
        &[
            Fill("etc/app", Purging(&["x", "sub/z", "more/w"], 0)),
            Force,
            Write("etc/app/x", 8),
            Fill("etc/app", Bundle::Nothing),
            Define("etc/app/x", Directory),
            Force,
        ],
    ),
    (
        "an archive takes over what was declared",
        &[
            Define("etc/app/x", File("ours\n")),
            Apply,
            Define("etc/app/x", Nothing),
            Fill("etc/app", Archive(&["x", "sub/z", "more/w"], 0)),
            Force,
        ],
    ),
    (
        "a version of an archive is without a file that has an overlay",
        &[
            Define("etc/app/sub/z", Overlay("other\n[life]\nkey = 3\n")),
            Fill("etc/app", Archive(&["x", "sub/z", "more/w"], 0)),
            Apply,
            Fill("etc/app", Archive(&["x"], 0)),
            Apply,
        ],
    ),
    (
        "a declaration replaces an overlay on a file of an archive",
        &[
            Define("etc/app/x", Script),
            Fill("etc/app", Archive(&["x", "sub/z", "more/w"], 0)),
            Together,
            Define("etc/app/x", File("ours\n")),
            Apply,
        ],
    ),
    (
        "an archive and an overlay on its file go when the file is edited",
        &[
            Define("etc/app/x", Overlay("ours\n")),
            Fill("etc/app", Archive(&["x", "sub/z", "more/w"], 1)),
            Apply,
            Fill("etc/app", Bundle::Nothing),
            Define("etc/app/x", Edits("line block ini", true)),
            Apply,
        ],
    ),
    (
        "a file with an overlay, of an archive that is gone, is edited",
        &[
            Fill("etc/app", Archive(&["y", "sub/z"], 0)),
            Apply,
            Define("etc/app/y", Overlay("other\n[life]\nkey = 3\n")),
            Fill("etc/app", Bundle::Nothing),
            Apply,
            Define("etc/app/y", Edits("line block ini", false)),
            Apply,
        ],
    ),
    (
        "a deleted file with an overlay is edited",
        &[
            Define("etc/a", Overlay("other\n[life]\nkey = 3\n")),
            Force,
            Delete("etc/a"),
            Define("etc/a", Edits("block", false)),
            Apply,
        ],
    ),
    ("the first apply of all is killed as it writes the database", &[KillHolo("pwrite64", 20), Apply]),
    (
        "an overlay comes after an edit that has made the file",
        &[Define("etc/new/n", Edits("block", true)), Apply, Define("etc/new/n", Overlay("ours\n")), Apply],
    ),
    (
        "an edit makes a file again that has gone with its directory",
        &[Define("etc/new/n", File("ours\n")), Apply, Define("etc/new/n", Edits("line", true)), Apply],
    ),
    (
        "a file with an overlay in a tree is deleted, and both go",
        &[
            Fill("etc/app", Archive(&["x", "sub/z"], 0)),
            Define("etc/app/sub/z", Overlay("ours\n")),
            Apply,
            Delete("etc/app/sub/z"),
            Fill("etc/app", Bundle::Nothing),
            Define("etc/app/sub/z", Nothing),
            Apply,
        ],
    ),
    (
        "a file with an overlay in a scaffold is deleted, and the overlay goes",
        &[
            Fill("etc/app", Scaffold(&["x"], 1)),
            Define("etc/app/x", OverlayLink),
            Apply,
            Delete("etc/app/x"),
            Define("etc/app/x", Nothing),
            Apply,
        ],
    ),
    ("an overlay becomes a directory", &[Define("etc/a", Overlay("ours\n")), Apply, Define("etc/a", Directory), Apply]),
    (
        "a directory with an overlay is purged",
        &[
            Define("etc/app/x", Overlay("ours\n")),
            Apply,
            Fill("etc/app", Purging(&["y", "sub/z"], 0)),
            Define("etc/app/x", Absent),
            Apply,
        ],
    ),
    (
        "an overlay comes where a declared symlink has been, in a purged directory",
        &[
            Define("etc/app/sub/z", Symlink),
            Fill("etc/app", Purging(&["x"], 1)),
            KillPlugins("rename", 5),
            Define("etc/app/sub/z", Overlay("other\n[life]\nkey = 3\n")),
            Apply,
        ],
    ),
    (
        "a file that a scaffold no longer has gets an overlay",
        &[
            Fill("etc/app", Scaffold(&["x", "y"], 0)),
            Apply,
            Fill("etc/app", Scaffold(&["y"], 0)),
            Define("etc/app/x", Overlay("ours\n")),
            Apply,
        ],
    ),
    (
        "a file that an archive no longer has gets an overlay",
        &[
            Fill("etc/app", Archive(&["x", "y"], 0)),
            Apply,
            Fill("etc/app", Archive(&["y"], 0)),
            Define("etc/app/x", Overlay("ours\n")),
            Apply,
        ],
    ),
    (
        "a directory that a scaffold needs gets an overlay",
        &[Define("etc/app/sub", Overlay("ours\n")), Fill("etc/app", Scaffold(&["x", "sub/z", "more/w"], 0)), Apply],
    ),
    (
        "a file that an edit has made goes, and another edit does not make it",
        &[
            Define("etc/new/n", Edits("ini", true)),
            Apply,
            Define("etc/new/n", Edits("block", false)),
            Apply,
            Define("etc/new/n", Edits("line block", true)),
            Apply,
        ],
    ),
    (
        "a purging scaffold and a declaration take over from an archive",
        &[
            Fill("etc/app", Archive(&["x", "y"], 0)),
            Define("etc/app/x", Overlay("ours\n")),
            Apply,
            Fill("etc/app", Purging(&["y", "sub/z"], 0)),
            Define("etc/app/x", Absent),
            Apply,
        ],
    ),
    (
        "a file that an edit has made goes, and is declared absent",
        &[Define("etc/app/y", Edits("line", true)), Apply, Define("etc/app/y", Absent), Apply],
    ),
    (
        "an edited file is declared as it was before",
        &[Write("etc/a", 1), Define("etc/a", Edits("block", false)), Apply, Define("etc/a", File("person 1\n")), Apply],
    ),
    (
        "the disk is full when an overlay's record is written",
        &[Define("etc/app/x", OverlayLink), FillDisk("mkdirat", 7), Apply],
    ),
    (
        "all edits of a file are defined anew",
        &[
            Define("etc/a", Edits("line block ini", true)),
            Apply,
            Define("etc/a", Edits("line block ini", false)),
            Apply,
        ],
    ),
    (
        "everything in a directory has permissions",
        &[
            Fill("etc/app", Recursive("0750")),
            Apply,
            Write("etc/app/y", 1),
            Apply,
            Fill("etc/app", Recursive("0755")),
            Apply,
        ],
    ),
    (
        "a directory that an archive needs gets an overlay",
        &[Define("etc/app/sub", Overlay("ours\n")), Fill("etc/app", Archive(&["x", "sub/z", "more/w"], 0)), Apply],
    ),
    (
        "a file of edits becomes a directory",
        &[Define("etc/app/y", Edits("block", true)), Apply, Define("etc/app/y", Directory), Apply],
    ),
    (
        "a directory with permissions becomes that of a scaffold",
        &[Fill("etc/app", Recursive("0750")), Apply, Fill("etc/app", Scaffold(&["x", "sub/z"], 0)), Apply],
    ),
    (
        "a directory with permissions becomes that of an archive",
        &[Fill("etc/app", Recursive("0750")), Apply, Fill("etc/app", Archive(&["x", "sub/z"], 0)), Apply],
    ),
    (
        "an edit makes a file in a directory with permissions, which go then",
        &[
            Delete("etc/app/x"),
            Fill("etc/app", Recursive("0750")),
            Define("etc/app/x", Edits("line ini", true)),
            Apply,
            Fill("etc/app", Bundle::Nothing),
            Apply,
        ],
    ),
    (
        "an edit makes a file and its directory below one with permissions",
        &[
            Fill("etc/app", Recursive("0755")),
            Apply,
            Delete("etc/app/sub/z"),
            Define("etc/app/sub/z", Edits("block", true)),
            Apply,
            Define("etc/app/sub/z", Nothing),
            Apply,
        ],
    ),
    (
        "a directory of a scaffold gets permissions",
        &[Fill("etc/app", Scaffold(&["x"], 0)), Apply, Fill("etc/app", Recursive("0755")), Apply],
    ),
    (
        "a directory of an archive gets permissions",
        &[Fill("etc/app", Archive(&["x", "sub/z"], 0)), Apply, Fill("etc/app", Recursive("0755")), Apply],
    ),
    (
        "a declared file goes when its directory gets permissions",
        &[
            Define("etc/app/x", File("ours\n")),
            Apply,
            Define("etc/app/x", Nothing),
            Fill("etc/app", Recursive("0755")),
            Apply,
        ],
    ),
    (
        "an overlay goes when its directory gets permissions",
        &[
            Define("etc/app/x", Overlay("ours\n")),
            Apply,
            Define("etc/app/x", Nothing),
            Fill("etc/app", Recursive("0755")),
            Apply,
        ],
    ),
    (
        "an edit goes when its directory gets permissions",
        &[
            Define("etc/app/x", Edits("line", true)),
            Apply,
            Define("etc/app/x", Nothing),
            Fill("etc/app", Recursive("0755")),
            Apply,
        ],
    ),
    (
        "a file of a scaffold is declared when its directory gets permissions",
        &[
            Fill("etc/app", Scaffold(&["x", "y"], 0)),
            Apply,
            Define("etc/app/x", File("ours\n")),
            Fill("etc/app", Recursive("0755")),
            Apply,
        ],
    ),
    (
        "a declared path is there again when its directory gets permissions",
        &[Define("etc/app/x", Absent), Apply, Define("etc/app/x", Nothing), Fill("etc/app", Recursive("0755")), Apply],
    ),
    (
        "an edited file with an overlay is declared as a directory",
        &[Define("etc/a", Script), Force, Append("etc/a", 14), Define("etc/a", Directory), Apply],
    ),
    (
        "a package manager leaves a file beside an overlay that is a symlink",
        &[Define("etc/a", OverlayLink), Apply, Package("etc/a", ".dpkg-dist", 15), Apply],
    ),
    (
        "an overlay comes when the permissions of its directory go",
        &[
            Fill("etc/app", Recursive("0750")),
            Apply,
            Fill("etc/app", Bundle::Nothing),
            Define("etc/app/x", Overlay("ours\n")),
            Apply,
        ],
    ),
    (
        "a declared file comes when the permissions of its directory go",
        &[
            Fill("etc/app", Recursive("0750")),
            Apply,
            Fill("etc/app", Bundle::Nothing),
            Define("etc/app/x", File("ours\n")),
            Apply,
        ],
    ),
    (
        "an overlay comes into a directory with permissions, which go then",
        &[
            Fill("etc/app", Recursive("0750")),
            Apply,
            Define("etc/app/x", Overlay("ours\n")),
            Apply,
            Fill("etc/app", Bundle::Nothing),
            Apply,
        ],
    ),
    (
        "a declared file comes into a directory with permissions, which go then",
        &[
            Fill("etc/app", Recursive("0750")),
            Apply,
            Define("etc/app/x", File("ours\n")),
            Apply,
            Fill("etc/app", Bundle::Nothing),
            Apply,
        ],
    ),
    (
        "a file of a scaffold that goes is adopted",
        &[
            Fill("etc/app", Scaffold(&["x", "sub/z"], 0)),
            Apply,
            Fill("etc/app", Bundle::Nothing),
            Adopt("etc/app/x", 1),
            Apply,
        ],
    ),
    (
        "a file of an archive that goes is adopted",
        &[
            Fill("etc/app", Archive(&["x", "sub/z"], 0)),
            Apply,
            Fill("etc/app", Bundle::Nothing),
            Adopt("etc/app/x", 1),
            Apply,
        ],
    ),
    (
        "a file of a scaffold is adopted",
        &[Fill("etc/app", Scaffold(&["x", "sub/z"], 0)), Apply, Adopt("etc/app/x", 1), Apply, Force],
    ),
    (
        "a file of an archive is adopted",
        &[Fill("etc/app", Archive(&["x", "sub/z"], 0)), Apply, Adopt("etc/app/x", 1), Apply, Force],
    ),
    (
        "an adopted file becomes one of a scaffold",
        &[
            Define("etc/app/x", Edits("line", false)),
            Adopt("etc/app/x", 1),
            Apply,
            Fill("etc/app", Scaffold(&["x"], 0)),
            Apply,
        ],
    ),
    (
        "an overlaid file of a scaffold that goes is adopted",
        &[
            Fill("etc/app", Scaffold(&["x", "sub/z"], 0)),
            Define("etc/app/x", Overlay("ours\n")),
            Apply,
            Fill("etc/app", Bundle::Nothing),
            Adopt("etc/app/x", 1),
            Apply,
            Define("etc/app/x", Nothing),
            Apply,
        ],
    ),
    (
        "a file below a directory with permissions for everything is adopted",
        &[Fill("etc/app", Recursive("0755")), Write("etc/app/y", 11), Apply, Adopt("etc/app/y", 16), Apply],
    ),
    (
        "an overlay comes where an edit had made the file anew below a directory with permissions for everything",
        &[
            Fill("etc/app", Recursive("0755")),
            Define("etc/app/x", Edits("ini", true)),
            Apply,
            Delete("etc/app/x"),
            Apply,
            Define("etc/app/x", OverlayLink),
            Apply,
        ],
    ),
    (
        "a file of a scaffold that goes gets an overlay below a directory with permissions for everything",
        &[
            Fill("etc/app", Purging(&["x", "sub/z", "more/w"], 0)),
            Apply,
            Fill("etc/app", Recursive("0750")),
            Define("etc/app/sub/z", Overlay("ours\n")),
            Define("etc/app/x", Overlay("ours\n")),
            Apply,
        ],
    ),
    (
        "an overlay and permissions for everything around it come together, and the permissions go",
        &[
            Fill("etc/app", Recursive("0755")),
            Define("etc/app/x", Overlay("ours\n")),
            Apply,
            Fill("etc/app", Bundle::Nothing),
            Apply,
        ],
    ),
    (
        "a killed plugin has only left the record of a scaffold",
        &[
            Fill("etc/app", Purging(&["x", "sub/z", "more/w"], 1)),
            Apply,
            Fill("etc/app", Bundle::Nothing),
            KillPlugins("unlinkat", 7),
            Apply,
        ],
    ),
    (
        "a directory with permissions for everything, and a link in it, become a scaffold",
        &[
            Define("etc/app/sub/z", Symlink),
            Fill("etc/app", Recursive("0755")),
            Apply,
            Define("etc/app/sub/z", Nothing),
            Fill("etc/app", Purging(&["y", "sub/z"], 1)),
            Apply,
        ],
    ),
    (
        "a file with an ACL becomes one of a scaffold",
        &[
            Define("etc/app/y", Access("ours\n")),
            Apply,
            Define("etc/app/y", Nothing),
            Fill("etc/app", Scaffold(&["x", "y"], 0)),
            Apply,
        ],
    ),
    (
        "a file with an ACL becomes one of an archive",
        &[
            Define("etc/app/y", Access("ours\n")),
            Apply,
            Define("etc/app/y", Nothing),
            Fill("etc/app", Archive(&["x", "y"], 0)),
            Apply,
        ],
    ),
    (
        "a file with an ACL becomes one of a scaffold, with an overlay on it",
        &[
            Define("etc/app/y", Access("ours\n")),
            Fill("etc/app", Scaffold(&["x", "y"], 0)),
            Apply,
            Define("etc/app/y", Overlay("other\n")),
            Force,
        ],
    ),
    (
        "what force overwrites when an archive takes over an edited file of a scaffold is in the history",
        &[
            Fill("etc/app", Scaffold(&["y", "sub/z"], 0)),
            Apply,
            Fill("etc/app", Archive(&["y", "sub/z"], 1)),
            Append("etc/app/sub/z", 14),
            Force,
        ],
    ),
    (
        "an edited block cannot be removed for a file that replaces it",
        &[
            Define("etc/app/y", Edits("ini", true)),
            Apply,
            Write("etc/app/y", 17),
            Define("etc/app/y", InPlace("other\n[life]\nkey = 3\n")),
            Apply,
        ],
    ),
    (
        "a declared file that a killed plugin has left becomes an overlay on the file of a package",
        &[
            Define("etc/b.conf", File("ours\n")),
            KillPlugins("write", 5),
            Define("etc/b.conf", Overlay("ours\n")),
            Package("etc/b.conf", ".dpkg-old", 7),
            Apply,
        ],
    ),
    ("a file is adopted twice", &[Adopt("etc/app/x", 20), Adopt("etc/app/x", 21)]),
    (
        "a deleted target of an overlay is declared absent",
        &[Define("etc/app/x", Template), Apply, Delete("etc/app/x"), Define("etc/app/x", Absent), Apply],
    ),
    (
        "a plugin is killed before it lays an overlay on a file with two names",
        &[
            Fill("etc/app", Scaffold(&["x", "y"], 0)),
            Apply,
            Link("etc/app/y", "etc/app/name"),
            Define("etc/app/y", Overlay("other\n[life]\nkey = 3\n")),
            KillPlugins("mkdir", 1),
        ],
    ),
    (
        "a directory with permissions for all in it is below what an overlay leaves",
        &[
            Define("etc/app/x", OverlayLink),
            Fill("etc/app", Recursive("0755")),
            Apply,
            Define("etc/app/x", Nothing),
            Apply,
        ],
    ),
    (
        "an adopted file is declared absent in a scaffold that purges",
        &[Adopt("etc/app/x", 9), Fill("etc/app", Purging(&["x"], 0)), Define("etc/app/x", Absent), Apply],
    ),
    (
        "the disk is full when an ACL is restored",
        &[Fill("etc/app", Recursive("0750")), Apply, Fill("etc/app", Bundle::Nothing), FillDisk("fsetxattr", 1), Apply],
    ),
    (
        "the disk is full when an ACL is set",
        &[
            Define("etc/a", Access("ours\n")),
            FillDisk("fsetxattr", 1),
            Apply,
            Fill("etc/app", Recursive("0750")),
            FillDisk("fsetxattr", 1),
            Apply,
        ],
    ),
    (
        "a scaffold purges a file that is declared later",
        &[
            Fill("etc/app", Scaffold(&["x", "sub/z", "more/w"], 0)),
            Apply,
            Fill("etc/app", Purging(&["x"], 1)),
            Apply,
            Define("etc/app/sub/z", Symlink),
            Apply,
        ],
    ),
    (
        "force removes a person's line from a file that not everyone may read",
        &[Adopt("etc/b.conf", 3), Append("etc/b.conf", 15), Abandon, Force],
    ),
    (
        "a new version of a package's file replaces a person's file below an overlay",
        &[Define("etc/app/x", Script), Append("etc/app/x", 8), Apply, Package("etc/app/x", ".dpkg-dist", 15), Apply],
    ),
    (
        "a scaffold takes over a directory that was made below one with permissions for all in it",
        &[
            Fill("etc/app", Recursive("0750")),
            Define("etc/app/sub/z", File("ours\n")),
            Apply,
            Define("etc/app/sub/z", Overlay("ours\n")),
            Fill("etc/app", Scaffold(&["x", "sub/z", "more/w"], 0)),
            Force,
        ],
    ),
    (
        "an overlay goes on what an archive has left, for a file that is absent",
        &[
            Define("etc/app/x", Overlay("ours\n")),
            Define("etc/app/sub/z", Overlay("ours\n")),
            Fill("etc/app", Archive(&["x", "sub/z", "more/w"], 1)),
            Apply,
            Fill("etc/app", Bundle::Nothing),
            Apply,
            Define("etc/app/sub/z", Absent),
            Apply,
        ],
    ),
    (
        "a scaffold is killed before it makes a file that is declared then",
        &[
            Fill("etc/app", Purging(&["x", "y"], 0)),
            KillPlugins("write", 7),
            Define("etc/app/x", File("other\n[life]\nkey = 3\n")),
            Apply,
        ],
    ),
    (
        "a directory with permissions for all in it is below what was absent",
        &[Fill("etc/app", Recursive("0750")), Define("etc/app/x", Absent), Apply, Define("etc/app/x", Nothing), Apply],
    ),
    (
        "a file that edits have made goes with them, in a scaffold that purges",
        &[
            Fill("etc/app", Purging(&["x", "y"], 0)),
            Define("etc/app/sub/z", Edits("line block ini", true)),
            Apply,
            Define("etc/app/sub/z", Nothing),
            Apply,
        ],
    ),
    (
        "an overlay leaves a new version of a package's file, for a file that is declared instead of a scaffold's",
        &[
            Fill("etc/app", Scaffold(&["x"], 0)),
            Define("etc/app/x", Overlay("ours\n")),
            Force,
            Package("etc/app/x", ".dpkg-dist", 3),
            Fill("etc/app", Bundle::Nothing),
            Define("etc/app/x", File("other\n[life]\nkey = 3\n")),
            Apply,
        ],
    ),
    (
        "an archive takes over a file that a killed scaffold was about to replace",
        &[
            Fill("etc/app", Scaffold(&["x", "y"], 1)),
            KillPlugins("renameat", 4),
            Fill("etc/app", Archive(&["x", "y"], 0)),
            Apply,
        ],
    ),
    (
        "a plugin is killed after it has made a file, and before its ACL is set",
        &[
            Define("etc/a", Edits("line", false)),
            Fill("etc/app", Purging(&["x"], 1)),
            Force,
            Fill("etc/app", Recursive("0750")),
            Define("etc/app/x", Absent),
            Define("etc/a", Access("other\n[life]\nkey = 3\n")),
            KillPlugins("fsync", 11),
        ],
    ),
    (
        "an edit creates a file that was purged",
        &[
            Fill("etc/app", Purging(&["y", "sub/z"], 1)),
            Apply,
            Define("etc/app/sub/z", InPlace("ours\n")),
            Define("etc/app/x", Edits("line", true)),
            Together,
            Apply,
        ],
    ),
    (
        "an edit waits for an overlay that a full disk keeps from going",
        &[Define("etc/a", OverlayLink), Force, Define("etc/a", Edits("line", false)), FillDisk("mkdirat", 1)],
    ),
    (
        "an overlay comes where a file beside a saved version was absent",
        &[Package("etc/a", ".dpkg-old", 10), Define("etc/a", Absent), Apply, Define("etc/a", OverlayLink), Apply],
    ),
    (
        "a plugin is killed when it has restored what a person has changed in an overlay",
        &[
            Define("etc/app/x", Overlay("ours\n")),
            Apply,
            Write("etc/app/x", 6),
            Define("etc/app/x", Nothing),
            KillPlugins("write", 4),
        ],
    ),
    (
        "a plugin is killed before its first record",
        &[Apply, Fill("etc/app", Scaffold(&["y", "sub/z"], 1)), KillPlugins("pwrite64", 12)],
    ),
    (
        "a plugin is killed when a declared symlink becomes an overlay",
        &[Define("etc/a", Symlink), Apply, Define("etc/a", OverlayLink), KillPlugins("linkat", 1), Apply],
    ),
    (
        "an overlay comes where a killed run and a full disk have left a declared file",
        &[
            Define("etc/b.conf", Access("other\n[life]\nkey = 3\n")),
            Define("etc/a", Edits("ini", false)),
            KillHolo("fdatasync", 3),
            Define("etc/b.conf", Nothing),
            FillDisk("pwrite64", 10),
            Define("etc/b.conf", OverlayLink),
            Apply,
        ],
    ),
    (
        "a killed run is rolled back to adopted files",
        &[
            Adopt("etc/b.conf", 0),
            Define("etc/app/x", File("ours\n")),
            Force,
            Define("etc/app/x", Nothing),
            Force,
            Define("etc/b.conf", OverlayLink),
            Abandon,
            KillPlugins("fdatasync", 12),
            RollBack(2),
        ],
    ),
    (
        "an overlay is killed in a scaffold that purges",
        &[
            Fill("etc/app", Purging(&["y", "sub/z"], 0)),
            Define("etc/app/x", Overlay("other\n[life]\nkey = 3\n")),
            KillForced("fsync", 6),
            Apply,
        ],
    ),
    (
        "an overlay goes with a new version of a package's file, for a declaration that is equal to it",
        &[
            Define("etc/app/x", Overlay("ours\n")),
            KillHolo("fdatasync", 1),
            Define("etc/app/x", InPlace("ours\n")),
            Package("etc/app/x", ".dpkg-old", 16),
            Apply,
        ],
    ),
    (
        "an overlay goes with a new version of a package's file in an archive",
        &[
            Define("etc/app/y", Template),
            Fill("etc/app", Archive(&["y", "sub/z"], 0)),
            Package("etc/app/y", ".dpkg-dist", 10),
            Force,
            Define("etc/app/y", Nothing),
            Apply,
        ],
    ),
    (
        "a file gets a declaration where a directory has changed its permissions and an orphan waits for an overlay",
        &[
            Fill("etc/app", Scaffold(&["x", "y"], 0)),
            Define("etc/app/y", Overlay("ours\n")),
            Apply,
            Fill("etc/app", Recursive("0750")),
            Together,
            Define("etc/app/x", Directory),
            Force,
        ],
    ),
    (
        "edits become a declaration below a directory that determines its permissions",
        &[
            Define("etc/app/sub/z", Edits("line block ini", true)),
            KillPlugins("mkdir", 3),
            Fill("etc/app", Recursive("0755")),
            Apply,
            Define("etc/app/sub/z", InPlace("other\n[life]\nkey = 3\n")),
            Force,
        ],
    ),
    (
        "a file of a scaffold is adopted where a directory has changed its permissions",
        &[
            Fill("etc/app", Purging(&["x"], 1)),
            Together,
            Fill("etc/app", Recursive("0755")),
            KillPlugins("flock", 2),
            Adopt("etc/app/x", 21),
            Apply,
        ],
    ),
    (
        "what a scaffold has purged becomes a directory",
        &[Fill("etc/app", Purging(&["y", "sub/z"], 1)), KillForced("unlink", 3), Define("etc/app/x", Directory), Apply],
    ),
    (
        "a file of a scaffold becomes a declaration, while the scaffold stays",
        &[
            Fill("etc/app", Scaffold(&["x", "y"], 0)),
            Apply,
            Fill("etc/app", Scaffold(&["y", "sub/z"], 0)),
            Define("etc/app/x", File("ours\n")),
            Apply,
        ],
    ),
    (
        "a declaration takes the last file from a scaffold whose directory is declared then",
        &[
            Fill("etc/app", Scaffold(&["x"], 1)),
            Apply,
            Define("etc/app/x", Absent),
            Fill("etc/app", Recursive("0750")),
            Apply,
        ],
    ),
    (
        "a scaffold takes over a record of which nothing is left",
        &[
            Fill("etc/app", Scaffold(&["x"], 0)),
            Define("etc/app/sub/z", File("ours\n")),
            FillDisk("fdatasync", 1),
            Delete("etc/app/sub/z"),
            Define("etc/app/sub/z", Nothing),
            Apply,
        ],
    ),
    (
        "what a scaffold has purged before a full disk is declared while the scaffold is refused",
        &[
            Fill("etc/app", Purging(&["y", "sub/z"], 0)),
            FillDisk("fsync", 4),
            Define("etc/app/sub/z", Directory),
            Define("etc/app/x", Access("other\n[life]\nkey = 3\n")),
            Apply,
        ],
    ),
];
