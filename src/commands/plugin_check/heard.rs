//! The output of a plugin, as it is kept and shown.

use bstr::ByteSlice;

/// The number of bytes kept of a plugin's output, so that endless output does no harm.
pub(super) const MAX_KEPT: usize = 64 << 20;
/// The number of bytes of a text that are shown.
const MAX_SHOWN: usize = 80;

/// The result of a call, or, in a session, of a request for an entity.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    /// The bytes from file descriptor 3.
    pub(super) messages: Vec<u8>,
    pub(super) error: Option<CallError>,
}

/// The reason for a missing answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallError {
    /// The plugin failed: `exit status 1`.
    Failed(String),
    /// A finding has reported it.
    Told,
}

impl Heard {
    /// Returns whether it succeeded, or `None` if a finding has reported the reason.
    pub(super) fn ended_well(&self) -> Option<bool> {
        match self.error {
            None => Some(true),
            Some(CallError::Failed(_)) => Some(false),
            Some(CallError::Told) => None,
        }
    }

    /// Returns the failure, with the first line of output about it.
    pub(super) fn failure(&self) -> String {
        let Some(CallError::Failed(how)) = &self.error else { return String::new() };
        let said = [&self.stderr, &self.stdout].into_iter().find_map(|text| text.lines().find(|line| !line.is_empty()));
        said.map_or_else(|| how.clone(), |line| format!("{how}, after {}", quoted(line)))
    }
}

/// Appends output, up to a maximum size.
pub(super) fn keep(text: &mut Vec<u8>, bytes: &[u8], max: usize) {
    let room = max.saturating_sub(text.len()).min(bytes.len());
    text.extend_from_slice(bytes.get(..room).unwrap_or_default());
}

/// Quotes and escapes a piece of the plugin's output, and truncates it.
pub(super) fn quoted(text: &[u8]) -> String {
    match text.get(..MAX_SHOWN) {
        Some(beginning) if text.len() > MAX_SHOWN => format!("{:?}… ({} bytes)", beginning.as_bstr(), text.len()),
        _ => format!("{:?}", text.as_bstr()),
    }
}

/// Returns a name, escaped if necessary, but without quotes.
pub(super) fn plain(name: &[u8]) -> String {
    let shown = quoted(name);
    let inner = shown.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.map_or_else(|| shown.clone(), str::to_owned)
}

/// Lists some names, and the number of remaining ones.
pub(super) fn listed(names: &[String]) -> String {
    const LISTED: usize = 3;
    match names.get(..LISTED) {
        Some(first) if names.len() > LISTED => format!("{} and {} more", first.join(", "), names.len() - LISTED),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arbitrary_bytes_are_quoted() {
        assert_eq!(quoted(b"a\0\xff"), r#""a\0\xff""#);
        assert_eq!(quoted(&[b'x'; 81]), format!("\"{}\"… (81 bytes)", "x".repeat(80)));
        assert_eq!(plain(b"file:/etc/motd"), "file:/etc/motd");
        let names: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
        assert_eq!(listed(&names), "a, b, c and 2 more");
        assert_eq!(listed(&names[..3]), "a, b, c");
    }
}
