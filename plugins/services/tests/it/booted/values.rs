//! The process of a unit as others receive it.

use super::Case;
use super::host::Host;

pub(crate) const ALL: &[Case] = &[("a unit sends the ID of its process", sends)];

fn sends(host: &Host) {
    host.daemon("pid.service");
    host.service("pid", "subscribes = ['file:/etc/refresh.conf']");
    host.system.write("/etc/refresh.conf", "stock\n");
    host.system.write("/usr/share/holo/files/10-case/etc/refresh.conf", "ours\n");
    let receiver = "[[file]]\npath = '/etc/pid'\nreceive = { content = 'service:pid#pid' }\n";
    host.system.write("/usr/share/holo/files/10-case.toml", receiver);
    let check = host.check();
    assert!(check.stderr_lossy().contains("receives content from service:pid, which has not sent pid yet"), "{check}");
    host.apply();
    let first = host.property("pid", "MainPID");
    assert_eq!(host.system.read("/etc/pid"), first);
    host.nothing_to_do();
    host.system.write("/usr/share/holo/files/10-case/etc/refresh.conf", "ours by now\n");
    host.apply();
    let second = host.property("pid", "MainPID");
    assert_ne!(first, second);
    assert_eq!(host.system.read("/etc/pid"), second);
    // Whoever receives nothing from it costs nothing.
    host.system.must("rm /usr/share/holo/files/10-case.toml");
    host.apply();
    host.calls();
    host.nothing_to_do();
    assert!(!host.calls().iter().any(|call| call.contains("MainPID")));
}
