//! Cases of many units at once.

use super::Case;
use super::host::Host;

pub(crate) const ALL: &[Case] = &[("two hundred units are a matter of a few calls", two_hundred)];

fn two_hundred(host: &Host) {
    let mut declared = String::new();
    for number in 0..200 {
        declared += &format!("[[service]]\nname = 'many-{number}'\nenable = true\n");
    }
    let unit = r"[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=true\n[Install]\nWantedBy=basic.target\n";
    let folder = "/run/systemd/system";
    host.system.must(&format!("for n in $(seq 0 199); do printf '{unit}' >{folder}/many-$n.service; done"));
    host.declare(&declared);
    host.apply();
    assert_eq!(host.verbs(), ["daemon-reload", "show", "enable", "start", "show"]);
    host.nothing_to_do();
    assert_eq!(host.verbs(), ["show", "show"]);
    // One that cannot be enabled keeps no other from being.
    host.system.must("systemctl disable many-7 many-8; rm /run/systemd/system/many-9.service");
    host.system.must("systemctl daemon-reload");
    host.calls();
    let said = host.apply_fails();
    assert!(said.contains("!! many-9.service"), "{said}");
    assert_eq!((host.enablement("many-7"), host.enablement("many-8")), ("enabled".to_owned(), "enabled".to_owned()));
    host.declare_nothing();
    host.apply();
    assert!(!host.is_active("many-3"));
}
