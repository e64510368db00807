//! Tests below a root: systemctl really enables and masks units, but starting is only printed.

use holo_testing::require::Need;
use holo_testing::{ScratchRoot, trial_of};
use libtest_mimic::Trial;

const UNIT: &str = "[Service]\nExecStart=true\n[Install]\nWantedBy=multi-user.target\n";
const WANTS: &str = "etc/systemd/system/multi-user.target.wants";

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [(&str, fn()); 8] = [
        ("units are enabled below the root, once, and disabled when nothing wants that", enables),
        ("while the system is not running, units are enabled and masked, and starts are deferred", not_running),
        ("units are masked and unmasked below the root", masks),
        ("one that cannot be enabled keeps no other from being", one_by_one),
        ("a unit that fails at every apply and is as before refreshes nothing", fails_again),
        ("without systemctl everything is printed", without_systemctl),
        ("the name of a unit makes no difference", names),
        ("units of all users are enabled below the root, and what concerns one user is printed", users),
    ];
    cases.map(|(name, case)| trial_of(name, &[Need::Program("systemctl")], case)).into()
}

fn root(definitions: &str) -> ScratchRoot {
    ScratchRoot::new()
        .file("etc/os-release", "ID=unittest\n")
        .plugin("services")
        .file("usr/lib/systemd/system/a.service", UNIT)
        .file("usr/lib/systemd/system/t@.service", UNIT)
        .file("usr/lib/systemd/system/static.service", "[Service]\nExecStart=true\n")
        .resource("services/01.toml", definitions)
}

/// Applies everything, and returns the exit status and the output.
fn apply(root: &ScratchRoot) -> (Option<i32>, String) {
    let run = root.holo(&["apply"]);
    (run.status, run.stdout_lossy().into_owned() + &run.stderr_lossy())
}

fn enables() {
    let root = root("[[service]]\nname = 'a'\nenable = true\n[[service]]\nname = 't@x'\nenable = true\n");
    let (status, said) = apply(&root);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("MOCK: systemctl start a.service\n") && !said.contains("systemctl enable"), "{said}");
    assert!(root.exists(format!("{WANTS}/a.service")) && root.exists(format!("{WANTS}/t@x.service")));
    assert_eq!(apply(&root), (Some(0), String::new()));
    assert!(root.holo(&["check"]).success());
    root.write("usr/share/holo/services/01.toml", "");
    let (status, said) = apply(&root);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("MOCK: systemctl stop a.service\n"), "{said}");
    assert!(!root.exists(format!("{WANTS}/a.service")) && !root.exists(format!("{WANTS}/t@x.service")));
    assert_eq!(apply(&root), (Some(0), String::new()));
    assert!(root.records("services").is_empty());
}

fn not_running() {
    let definitions =
        "[[service]]\nname = 'a'\nenable = true\n[[service]]\nname = 't@x'\nensure = 'stopped'\nmask = true\n";
    let root = root(definitions).env("HOLO_OFFLINE", "1");
    for changes in ["enabled a.service\n", ""] {
        let run = root.holo(&["apply"]);
        let said = run.stdout_lossy();
        assert!(run.success() && run.stderr_lossy() == ">> deferred: the system is not running\n", "{run}");
        assert!(said.contains(changes) && !said.contains("MOCK") && root.exists(format!("{WANTS}/a.service")), "{run}");
        assert_eq!(said.contains("Working on service:t@x"), !changes.is_empty(), "{run}");
    }
    assert!(root.exists("etc/systemd/system/t@x.service"));
    let checked = root.holo(&["check"]);
    assert_eq!(checked.status, Some(3), "{checked}");
    assert!(checked.stdout_lossy().ends_with("would start a.service\n\n"), "{checked}");
    // The restored state of a unit is one that does not run.
    root.write("usr/share/holo/services/01.toml", "");
    assert_eq!(apply(&root).0, Some(0));
    assert!(!root.exists(format!("{WANTS}/a.service")) && root.records("services").is_empty());
    // At the first boot, nothing is left to do but the start.
    root.write("usr/share/holo/services/01.toml", definitions);
    assert_eq!(apply(&root).0, Some(0));
    let (status, said) = apply(&root.env("HOLO_OFFLINE", "0"));
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("MOCK: systemctl start a.service\n") && !said.contains("service:t@x"), "{said}");
}

fn masks() {
    let root = root("[[service]]\nname = 'a'\nmask = true\n[[service]]\nname = 'nowhere'\nmask = true\n");
    let (status, said) = apply(&root);
    assert_eq!(status, Some(0), "{said}");
    assert!(root.exists("etc/systemd/system/a.service"));
    assert!(said.contains("MOCK: systemctl mask nowhere.service\n"), "{said}");
    assert_eq!(apply(&root), (Some(0), String::new()));
    root.write("usr/share/holo/services/01.toml", "[[service]]\nname = 'a'\nmask = false\nenable = true\n");
    let (status, said) = apply(&root);
    assert_eq!(status, Some(0), "{said}");
    assert!(!root.exists("etc/systemd/system/a.service") && root.exists(format!("{WANTS}/a.service")));
    assert_eq!(apply(&root), (Some(0), String::new()));
}

fn one_by_one() {
    let unit = "[Service]\nExecStart=true\n[Install]\nWantedBy=not//a-unit\n";
    let root = root("[[service]]\nname = 'a'\nenable = true\n[[service]]\nname = 'odd'\nenable = true\n[[service]]\nname = 'static'\nenable = true\n")
        .file("usr/lib/systemd/system/odd.service", unit);
    let (status, said) = apply(&root);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("!! cannot enable odd.service: "), "{said}");
    assert!(said.contains("!! static.service is static: "), "{said}");
    assert!(root.exists(format!("{WANTS}/a.service")), "{said}");
}

fn fails_again() {
    let odd = "[[service]]\nname = 'odd'\nensure = 'stopped'\nenable = true\n";
    let listens = "[[service]]\nname = 'a'\nsubscribes = ['service:odd']\n";
    let root = root(&format!("{odd}{listens}"))
        .file("usr/lib/systemd/system/odd.service", UNIT.replace("multi-user.target", "not//a-unit"));
    for first in [true, false, false] {
        let (status, said) = apply(&root);
        assert!(status == Some(1) && said.contains("!! cannot enable odd.service: "), "{said}");
        assert_eq!(said.contains("MOCK: systemctl start a.service\n"), first, "{said}");
        assert!(!said.contains("restart") && root.refreshes().is_empty(), "{said}");
    }
}

fn without_systemctl() {
    let root = root("[[service]]\nname = 'a'\nenable = true\n").env("PATH", "/nowhere");
    let (status, said) = apply(&root);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("MOCK: systemctl enable a.service\nMOCK: systemctl start a.service\n"), "{said}");
    assert!(!root.exists(WANTS));
    assert_eq!(apply(&root), (Some(0), String::new()));
}

fn names() {
    // The target of an alias is resolved below the root.
    let alias = "usr/lib/systemd/system/alias.service";
    let root = root("[[service]]\nname = 'a'\nenable = true\n").symlink(alias, "/usr/lib/systemd/system/a.service");
    let base = |root: &ScratchRoot| root.records("services");
    assert_eq!(apply(&root).0, Some(0));
    for (before, after) in
        [("a", "a.service"), ("a.service", "alias"), ("alias", "alias.service"), ("alias.service", "a")]
    {
        root.write("usr/share/holo/services/01.toml", format!("[[service]]\nname = '{after}'\nenable = true\n"));
        assert!(root.holo(&["check"]).success(), "{after}");
        let (status, said) = apply(&root);
        assert_eq!(status, Some(0), "{said}");
        assert!(said.contains(&format!(">> service:{after} takes over from service:{before}\n")), "{said}");
        assert!(!said.contains("MOCK") && !said.contains("Scrubbing"), "{said}");
        assert_eq!(base(&root), [format!("service:{after}")]);
        assert_eq!(apply(&root), (Some(0), String::new()));
    }
    root.write(
        "usr/share/holo/services/01.toml",
        "[[service]]\nname = 'a'\n[[service]]\nname = 'alias'\nensure = 'stopped'\n",
    );
    let (status, said) = apply(&root);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("!! unit a.service is owned by service:a in ") && !said.contains("MOCK"), "{said}");
    root.write("usr/share/holo/services/01.toml", "");
    let (status, said) = apply(&root);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("MOCK: systemctl stop a.service\n"), "{said}");
    assert!(!root.exists(format!("{WANTS}/a.service")) && base(&root).is_empty());
}

fn users() {
    let table = |lines: &str| format!("[[service]]\nname = 'u'\nscope = 'user'\nenable = true\n{lines}");
    let root = root(&[table(""), table("user = 'alice'\n")].concat()).file("usr/lib/systemd/user/u.service", UNIT);
    let (status, said) = apply(&root);
    assert_eq!(status, Some(0), "{said}");
    for step in ["enable", "start"] {
        assert!(said.contains(&format!("MOCK: systemctl --user --machine=alice@ {step} u.service\n")), "{said}");
    }
    assert!(said.contains("enabled u.service of all users") && !said.contains("--global"), "{said}");
    let link = "etc/systemd/user/multi-user.target.wants/u.service";
    assert!(root.exists(link));
    assert_eq!(apply(&root), (Some(0), String::new()));
    root.write("usr/share/holo/services/01.toml", "");
    let (status, said) = apply(&root);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("MOCK: systemctl --user --machine=alice@ stop u.service\n"), "{said}");
    assert!(!root.exists(link) && root.records("services").is_empty());
    assert_eq!(apply(&root), (Some(0), String::new()));
}
