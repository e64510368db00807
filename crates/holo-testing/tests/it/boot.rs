//! Tests that a booted overlay runs this machine's systemd, isolated from the machine.

use holo_testing::overlay::{NEEDS_TO_BOOT, Overlay};
use holo_testing::trial_of;
use libtest_mimic::Trial;
use std::fs;
use std::path::Path;

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [(&str, fn()); 2] = [
        ("units run in it, and it keeps what is done to itself", keeps_to_itself),
        ("two do not meet, and nothing is left of them", two),
    ];
    cases.map(|(name, case)| trial_of(name, NEEDS_TO_BOOT, case)).into()
}

fn keeps_to_itself() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), "outside\n").unwrap();
    let system = Overlay::booted_with(&[outside.path()]);
    assert_eq!(system.must("cat /proc/1/comm"), "systemd\n");
    system.write("/etc/systemd/system/of-the-overlay.service", "[Service]\nExecStart=sleep 86400\n");
    system.must("systemctl start of-the-overlay && touch /run/of-the-overlay /var/of-the-overlay");
    assert_eq!(system.must("systemctl is-active of-the-overlay"), "active\n");
    assert_eq!(system.read(outside.path().join("file")), "outside\n");
    assert!(!system.sh(&format!("echo x >{}/file", outside.path().display())).success());
    assert!(system.must("journalctl --no-pager -u of-the-overlay").to_string().contains("Started"));
    for path in ["/etc/systemd/system/of-the-overlay.service", "/run/of-the-overlay", "/var/of-the-overlay"] {
        assert!(!Path::new(path).exists());
    }
    assert!(!fs::read_to_string("/proc/mounts").unwrap().contains("upperdir=upper"));
}

fn two() {
    let groups = || {
        let entries = ["", "systemd", "unified"].map(|name| fs::read_dir(Path::new("/sys/fs/cgroup").join(name)));
        let names = entries.into_iter().flatten().flatten().flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().starts_with("holo-test-")).collect::<std::collections::BTreeSet<_>>()
    };
    let before = groups();
    let (one, other) = (Overlay::booted(), Overlay::booted());
    let ours: Vec<_> = groups().difference(&before).cloned().collect();
    assert!(ours.len() >= 2, "{ours:?}");
    one.must("systemd-run --unit=there sleep 86400");
    assert!(one.sh("systemctl is-active there").success());
    assert!(!other.sh("systemctl is-active there").success());
    drop((one, other));
    assert!(ours.iter().all(|group| !groups().contains(group)));
}
