//! Tests of the examples in the manual.

use super::Case;
use super::host::Host;
use std::fs;

pub(crate) const ALL: &[Case] = &[("the examples of the manual work", examples)];

/// Returns the examples.
fn texts() -> Vec<String> {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../man/holo-services.8")).unwrap();
    let examples = page.split(".Sh EXAMPLES").nth(1).and_then(|rest| rest.split(".Sh").next()).unwrap_or_default();
    let blocks = examples.split(".Bd -literal -offset indent\n").skip(1);
    blocks.map(|block| block.split(".Ed").next().unwrap_or_default().to_owned()).collect()
}

fn examples(host: &Host) {
    let texts = texts();
    assert_eq!(texts.len(), 5);
    for unit in ["nginx.service", "exim4.service", "serial-getty@.service", "getty@.service"] {
        let unit = format!("/run/systemd/system/{unit}");
        host.system
            .write(unit, "[Service]\nExecStart=sleep 86400\nExecReload=true\n[Install]\nWantedBy=basic.target\n");
    }
    let timer = "[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n";
    host.system.write("/run/systemd/system/logrotate.timer", timer);
    host.system.write("/run/systemd/system/logrotate.service", "[Service]\nType=oneshot\nExecStart=true\n");
    host.system.must("systemctl daemon-reload; systemctl enable --now getty@tty2");
    // Another plugin would install the package.
    let web_server = texts[0].lines().filter(|line| !line.starts_with("requires"));
    host.system.write("/etc/nginx/nginx.conf", "stock\n");
    host.system.write("/usr/share/holo/files/10-site/etc/nginx/nginx.conf", "ours\n");
    host.declare(&web_server.map(|line| format!("{line}\n")).collect::<String>());
    host.apply();
    assert!(host.is_active("nginx") && host.enablement("nginx") == "enabled");
    host.system.write("/usr/share/holo/files/10-site/etc/nginx/nginx.conf", "ours, changed\n");
    let said = host.apply();
    assert!(said.contains("reloaded nginx.service"), "{said}");
    host.nothing_to_do();
    host.declare(&texts[1]);
    host.apply();
    assert!(host.is_active("logrotate.timer") && host.is_active("serial-getty@ttyS0"));
    assert_eq!(host.enablement("serial-getty@ttyS0"), "enabled");
    assert!(!host.is_active("getty@tty2") && host.enablement("getty@tty2") == "disabled");
    assert!(!host.is_active("nginx"), "it was not defined any more");
    host.nothing_to_do();
    host.system.write("/run/systemd/system/backup.timer", timer);
    host.system.must("systemctl daemon-reload");
    host.declare(&texts[2]);
    host.apply();
    assert!(!host.is_active("backup.timer") && host.enablement("apt-daily-upgrade.timer") == "enabled");
    host.nothing_to_do();
    host.system.write(
        "/usr/lib/systemd/user/syncthing.service",
        "[Service]\nExecStart=true\n[Install]\nWantedBy=default.target\n",
    );
    host.system.write("/usr/lib/systemd/user/gpg-agent-browser.socket", "[Socket]\nListenStream=%t/x\n");
    host.system.must("useradd --create-home alice; chmod 666 /run/calls");
    host.declare(&texts[3]);
    host.apply();
    assert!(host.system.exists("/home/alice/.config/systemd/user/default.target.wants/syncthing.service"));
    assert!(host.system.must("readlink /etc/systemd/user/gpg-agent-browser.socket").to_string().contains("/dev/null"));
    host.declare("[[service]]\nname = \"exim4\"\nmask = true\n");
    host.apply();
    assert_eq!(host.enablement("exim4"), "masked");
    assert!(!host.system.sh("systemctl start exim4").success());
    host.nothing_to_do();
    host.declare_nothing();
    host.apply();
    assert!(!host.system.exists("/etc/systemd/system/exim4.service"));
    let daemon = "[Service]\nExecStart=sleep 86400\n[Install]\nWantedBy=multi-user.target\n";
    host.system.write("/usr/lib/systemd/system/exim4.service", daemon);
    host.system.must("systemctl daemon-reload; systemctl enable --now exim4");
    host.declare(&texts[4]);
    host.apply();
    assert!(!host.is_active("exim4") && host.enablement("exim4") == "disabled");
    host.nothing_to_do();
    host.declare_nothing();
    host.apply();
    assert!(host.is_active("exim4") && host.enablement("exim4") == "enabled");
    host.system.must("systemctl disable --now exim4; rm /usr/lib/systemd/system/exim4.service");
    host.system.must("userdel --remove alice 2>/dev/null || true; rm /usr/lib/systemd/user/syncthing.service");
}
