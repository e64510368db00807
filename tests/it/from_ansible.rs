//! A converted playbook gives the same result as the original: the files are those in `examples/from-ansible/`.

use crate::examples::Example;
use bstr::ByteSlice;
use holo_testing::overlay::NEEDS_TO_BOOT;
use holo_testing::require::ANSIBLE;
use holo_testing::{Need, Overlay, binaries, trial_of};
use libtest_mimic::Trial;
use std::time::Duration;

const EXAMPLE: Example = Example("from-ansible");
const GUIDE: &str = "docs/from-ansible.md";
/// The timeout for a playbook, with a margin for a busy machine.
const LIMIT: Duration = Duration::from_secs(600);
const PLAYBOOK: &str =
    "cd /srv/playbook && LC_ALL=C.UTF-8 ansible-playbook --connection local --inventory localhost, playbook.yml";

/// Lists the results of both on the machine.
const INVENTORY: &str = "find /srv/site /etc/site.conf /etc/systemd/system/site.service -printf '%p %M %u %g\\n' | sort; \
    cat /srv/site/index.html /etc/site.conf /etc/systemd/system/site.service; getent passwd site; \
    systemctl is-active site; systemctl is-enabled site";

pub(crate) fn trials() -> Vec<Trial> {
    let programs = ["ansible-playbook", "python3", "useradd"].map(Need::Program);
    let needs = [NEEDS_TO_BOOT, &[ANSIBLE], &programs].concat();
    vec![trial_of("a playbook and its definitions have the same result", &needs, same_result)]
}

fn same_result() {
    for file in [
        "playbook.yml",
        "holo/ansible/10-site.toml",
        "holo/ansible/20-folders.toml.jinja",
        "holo/services/10-site.toml",
        "data/common.toml",
    ] {
        EXAMPLE.is_shown(file, GUIDE);
    }
    for file in ["defaults/main.yml", "tasks/main.yml"] {
        EXAMPLE.is_shown(&format!("roles/site/{file}"), GUIDE);
    }

    let theirs = Overlay::booted().time_limit(LIMIT);
    EXAMPLE.install(".", "/srv/playbook", &theirs);
    theirs.must(PLAYBOOK);
    let expected = theirs.must(INVENTORY);
    assert!(expected.contains_str("/srv/site/uploads drwx------ site root\n"), "{expected}");
    assert!(expected.ends_with(b"active\nenabled\n"), "{expected}");
    drop(theirs);

    let ours = Overlay::booted().time_limit(LIMIT);
    let holorc =
        ["ansible", "services"].map(|id| format!("plugin {id}={}\n", binaries::built(&format!("holo-{id}")).display()));
    ours.must("rm -rf /etc/holorc.d; mkdir -p /usr/share/holo/ansible /usr/share/holo/services");
    ours.write("/etc/holorc", holorc.concat());
    EXAMPLE.install("holo", "/usr/share/holo", &ours);
    EXAMPLE.install("files", "/usr/share/holo/ansible/files", &ours);
    EXAMPLE.install("data", "/etc/holo/data", &ours);
    let check = ours.holo(&["check"]);
    assert_eq!(check.status, Some(3), "{check}");
    assert!(!ours.exists("/srv/site") && !ours.exists("/etc/site.conf"), "{check}");
    let run = ours.holo(&["apply"]);
    assert!(run.success(), "{run}");
    assert_eq!(ours.must(INVENTORY), expected, "{run}");
    let (again, check) = (ours.holo(&["apply"]), ours.holo(&["check"]));
    assert!(
        again.success() && again.stdout.is_empty() && again.stderr.is_empty() && check.success(),
        "{again}\n{check}"
    );

    // The handler has become a subscription.
    let process = || ours.must("systemctl show --property MainPID site");
    let before = process();
    ours.must("sed -i s/port=8080/port=8081/ /usr/share/holo/ansible/10-site.toml");
    let run = ours.holo(&["apply"]);
    assert!(run.success() && process() != before, "{run}");
    ours.must("systemctl --quiet is-active site && grep -qx port=8081 /etc/site.conf");
}
