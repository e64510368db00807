//! The process of a unit, as received by other entities.

use super::Case;
use super::host::Host;

pub(crate) const ALL: &[Case] = &[
    ("a unit sends the ID of its process", sends),
    ("a value that a command prints comes to a unit by a file, and another one restarts it once", chain),
];

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
    // If no entity receives the value, there is no additional call.
    host.system.must("rm /usr/share/holo/files/10-case.toml");
    host.apply();
    host.calls();
    host.nothing_to_do();
    assert!(!host.calls().iter().any(|call| call.contains("MainPID")));
}

fn chain(host: &Host) {
    host.daemon("chain.service");
    host.service("chain", "subscribes = ['file:/etc/chain.conf']");
    let command = "[[exec]]\nname = 'token'\ncommand = ['cat', '/etc/token']\nlog_output = false\nunless_command = 'test -e /run/token-is-old'\n";
    host.system.write("/usr/share/holo/exec/10-case.toml", command);
    let file = "[[file]]\npath = '/etc/chain.conf'\nreceive = { content = 'exec:token#stdout' }\n";
    host.system.write("/usr/share/holo/files/10-case.toml", file);
    host.system.write("/etc/token", "first\n");
    host.apply();
    assert_eq!(host.system.read("/etc/chain.conf"), "first");
    assert!(host.is_active("chain"));
    // The same value causes no change, whether or not the command runs.
    let first = host.property("chain", "InvocationID");
    let said = host.apply();
    assert!(said.contains("exec:token") && !said.contains("chain"), "{said}");
    host.system.write("/run/token-is-old", "");
    host.nothing_to_do();
    assert_eq!(host.property("chain", "InvocationID"), first);
    host.system.must("rm /run/token-is-old; echo second >/etc/token");
    host.calls();
    let said = host.apply();
    assert_eq!(said.matches("restarted chain.service").count(), 1, "{said}");
    let calls = host.calls();
    assert_eq!(calls.iter().filter(|call| call.contains("restart -- chain.service")).count(), 1, "{calls:?}");
    assert_eq!(host.system.read("/etc/chain.conf"), "second");
    host.system.write("/run/token-is-old", "");
    host.nothing_to_do();
}
