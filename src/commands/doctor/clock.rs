//! Clocks and file systems that make unchanged files hard to detect.

use super::{Check, Findings, Scene, shown};
use rustix::fs::statfs;
use std::time::{Duration, SystemTime};
use walkdir::WalkDir;

pub(super) const CHECK: Check =
    Check { name: "clock", fine: "file timestamps reliably show changes", needs_plugins: false, look };

/// Tolerated difference between the clocks of machines that share a file system.
const TOLERATED: Duration = Duration::from_secs(60);
const REMEDY: &str = "the records of unchanged files may be wrong: apply with --verify to read everything";

/// File systems with coarse timestamps, or timestamps set by other machines, by the magic numbers in statfs(2).
const UNRELIABLE: [(u64, &str); 9] = [
    (0x4d44, "FAT"),
    (0x2011_bab0, "exFAT"),
    (0x6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x0102_1997, "9P"),
    (0x786f_4256, "vboxsf"),
    (0x00c3_6400, "Ceph"),
];

fn look(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    let now = SystemTime::now();
    let states = scene.root.states();
    let looked_at = [states.clone(), scene.root.holorc(), scene.root.resources()];
    let entries = looked_at.iter().flat_map(|path| WalkDir::new(path).max_depth(2)).filter_map(Result::ok);
    let times = entries.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.into_path())));
    if let Some((time, path)) = times.max()
        && time.duration_since(now).is_ok_and(|ahead| ahead > TOLERATED)
    {
        let (path, time) = (path.display(), shown(time));
        let title = format!("{path} is from the future, {time}: this clock, or the one that was used then, is wrong");
        findings.warn(title, format!("set the clock; {REMEDY}"));
    }
    for path in [scene.root.join("etc"), states] {
        let Ok(found) = statfs(&path) else { continue };
        // The type of the number differs between architectures.
        let number = found.f_type as u64 & 0xffff_ffff;
        if let Some((_, name)) = UNRELIABLE.iter().find(|(known, _)| *known == number) {
            findings
                .warn(format!("{} is on {name}, whose timestamps do not show every change", path.display()), REMEDY);
        }
    }
}
