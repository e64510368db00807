//! Who a name stands for: below the root, and not on the machine that we happen to run on.

use crate::made::Owner;
use holo_plugin::process::Program;
use holo_plugin::{Host, Tree};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Looks up an owner and a group.
///
/// # Errors
/// If there is no such user or group.
pub(crate) fn resolve(
    host: &Host,
    root: &Arc<Tree>,
    owner: Option<&str>,
    group: Option<&str>,
) -> Result<Owner, String> {
    let lookup = |database, what, name: &str| match name.parse() {
        Ok(id) => Ok(id),
        Err(_) => find(host, root, database, name).ok_or_else(|| format!("there is no {what} {name}")),
    };
    Ok(Owner {
        uid: owner.map(|name| lookup("passwd", "user", name)).transpose()?,
        gid: group.map(|name| lookup("group", "group", name)).transpose()?,
    })
}

fn find(host: &Host, root: &Arc<Tree>, database: &str, name: &str) -> Option<u32> {
    let place = root.place(&Path::new("etc").join(database));
    let mut text = Vec::new();
    if let Ok(mut file) = place.followed().and_then(|place| place.open()) {
        file.read_to_end(&mut text).ok()?;
    }
    in_text(&text, name).or_else(|| if host.test_mode() { None } else { ask(database, name) })
}

/// The ID in a line of passwd(5) or group(5).
fn in_text(text: &[u8], name: &str) -> Option<u32> {
    text.split(|&byte| byte == b'\n').find_map(|line| {
        let mut fields = line.split(|&byte| byte == b':');
        (fields.next()? == name.as_bytes()).then_some(())?;
        std::str::from_utf8(fields.nth(1)?).ok()?.parse().ok()
    })
}

/// Asks the system, which may know users from a directory service.
fn ask(database: &str, name: &str) -> Option<u32> {
    let mut getent = Program::new("getent");
    getent.args([database, "--", name]).timeout(Duration::from_secs(30));
    let mut said = Vec::new();
    let ended = getent.run(|stream, bytes| {
        if stream == holo_plugin::process::Stream::Stdout {
            said.extend_from_slice(bytes);
        }
    });
    ended.ok().filter(|ended| ended.failure().is_none())?;
    in_text(&said, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_in_lines() {
        let text = b"root:x:0:0:root:/root:/bin/sh\nfred:x:1234:100::/:\nbroken\nfr:x:no:\n";
        assert_eq!(in_text(text, "fred"), Some(1234));
        assert_eq!(in_text(text, "root"), Some(0));
        for missing in ["fre", "broken", "fr", ""] {
            assert_eq!(in_text(text, missing), None, "{missing}");
        }
    }
}
