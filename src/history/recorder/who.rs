//! Identifies the user or trigger that started holo.

use crate::history::record::Who;
use crate::settings::Settings;
use holo_protocol::Text;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The login user ID of a process without a login session.
const NOBODY: u32 = u32::MAX;

pub(super) fn who(settings: &Settings) -> Who {
    let text = |text: &OsString| Text::from(text.clone().into_vec());
    let login_uid = fs::read_to_string("/proc/self/loginuid").ok();
    Who {
        uid: rustix::process::getuid().as_raw(),
        sudo_user: settings.sudo_user.as_ref().map(text),
        login_uid: login_uid.and_then(|uid| uid.trim().parse().ok()).filter(|&uid| uid != NOBODY),
        terminal: terminal().map(|path| path.into_os_string().into_vec().into()),
        trigger: settings.trigger.as_ref().map(text),
    }
}

/// Returns the terminal that a standard stream is connected to.
fn terminal() -> Option<PathBuf> {
    let mut streams = (0..3).filter_map(|stream| fs::read_link(format!("/proc/self/fd/{stream}")).ok());
    let names = [Path::new("/dev/pts"), Path::new("/dev/console")];
    let is_tty =
        |path: &Path| path.parent() == Some(Path::new("/dev")) && path.as_os_str().as_bytes().starts_with(b"/dev/tty");
    streams.find(|path| names.iter().any(|name| path.starts_with(name)) || is_tty(path))
}
