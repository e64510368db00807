//! `holo help VERB` on a terminal: the manual page of the verb.

use holo_process::Program;
use std::time::Duration;

/// The timeout for finding a page.
const LIMIT: Duration = Duration::from_secs(5);

/// Replaces this process by man(1) with a page, given its file name. Returns if there is no such program or page.
pub(crate) fn open(page: &str) {
    let Some((name, section)) = page.rsplit_once('.') else { return };
    // Without the page, man would report an error instead of showing the usage.
    let mut search = Program::new("man");
    search.args(["-w", section, name]).in_our_group().timeout(LIMIT);
    if search.output().is_ok_and(|output| output.ended.failure().is_none()) {
        let _failed = holo_process::become_program("man", &[section, name]);
    }
}
