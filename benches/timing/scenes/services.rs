//! Starting services, compared with systemctl, on a booted system.

use super::{Scene, Step};
use crate::timing::limits::Least;
use crate::timing::site::{Site, Words, holo, words};
use anyhow::Result;
use holo_testing::{Overlay, overlay};

const DEFINITION: &str = "usr/share/holo/services/01-bench.toml";

pub(super) fn scene() -> Scene {
    Scene {
        name: "services",
        entities: "services",
        sizes: &[20, 100, 500],
        needs: &[overlay::NEEDS_TO_BOOT],
        system: Some(Overlay::booted),
        prepare,
        steps: vec![
            Step::new("first apply", |_| holo(&["apply"]))
                .at_least(Least::words(
                    "one job of systemd each, and 200 ms in total to detect failures of simple units",
                ))
                .checked(|site, _| are_active(site, "ours"))
                .takes_turns(),
            Step::new("`systemctl start`", |site| Ok(systemctl(site, "start")))
                .checked(|site, _| are_active(site, "theirs")),
            Step::new("apply, nothing to do", |_| holo(&["apply"]))
                .at_least(Least::calls(0.0, "one list of units for all"))
                .changes_nothing(),
            Step::new("`systemctl is-active`", |site| Ok(systemctl(site, "is-active"))),
            Step::new("check", |_| holo(&["check"])).at_least(Least::calls(0.0, "like an apply")).changes_nothing(),
            Step::new("scrub", |_| holo(&["apply"]))
                .at_least(Least::words("one job of systemd each"))
                .after(|site| site.remove(DEFINITION))
                .checked(|site, _| Ok(!are_active(site, "ours")?))
                .late(),
            Step::new("`systemctl stop`", |site| Ok(systemctl(site, "stop"))).late(),
        ],
        ratios: &[
            ("first apply", "`systemctl start`"),
            ("apply, nothing to do", "`systemctl is-active`"),
            ("scrub", "`systemctl stop`"),
        ],
        remarks: "systemd, which does most of the work, is not included in the processor time, but in the time of other \
            processes. A first apply waits 200 ms for services that fail. Services are asked for in each run, because \
            no file tells their state.",
    }
}

fn name(word: &str, number: usize) -> String {
    format!("{word}-{number:04}.service")
}

fn prepare(site: &Site) -> Result<()> {
    site.plugins(&["services"])?;
    let script = format!(
        "for word in ours theirs; do for number in $(seq -f %04g 0 {}); do\n\
         printf '[Service]\\nExecStart=/bin/sleep infinity\\n' >/etc/systemd/system/$word-$number.service\n\
         done; done\nsystemctl daemon-reload",
        site.size - 1
    );
    site.system()?.must(&script);
    let table = |number| format!("[[service]]\nname = \"{}\"\n", name("ours", number));
    site.write(DEFINITION, &(0..site.size).map(table).collect::<String>())
}

fn systemctl(site: &Site, verb: &str) -> Words {
    let mut words = words(&["systemctl", verb]);
    words.extend((0..site.size).map(|number| name("theirs", number).into()));
    words
}

fn are_active(site: &Site, word: &str) -> Result<bool> {
    let count = format!("systemctl list-units --no-legend --state=running '{word}-*.service' | wc -l");
    Ok(site.system()?.must(&count).to_string().trim() == site.size.to_string())
}
