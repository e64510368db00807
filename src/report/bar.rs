//! The status line of an entity whose plugin says how far it has come.

use bstr::{BStr, ByteSlice};
use holo_protocol::Progress;

const WIDTH: u64 = 20;

/// The line, with a bar if it is known how much there is to do.
pub(super) fn line(id: &BStr, progress: &Progress<'_>) -> String {
    let mut line = id.to_str_lossy().into_owned();
    if let Some((done, total)) = progress.done_of {
        let (done, total) = (u128::from(done.min(total)), u128::from(total.max(1)));
        let of = |parts: u64| usize::try_from(done * u128::from(parts) / total).unwrap_or_default();
        let (full, percent) = (of(WIDTH), of(100));
        let width = usize::try_from(WIDTH).unwrap_or_default();
        line = format!("[{:<width$}] {percent:>3}% {line}", "#".repeat(full));
    }
    if progress.text.is_empty() { line } else { format!("{line}: {}", progress.text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills() {
        let line = |said| line(BStr::new("archive:/x"), &Progress::parse(said));
        assert_eq!(line("unpacking"), "archive:/x: unpacking");
        assert_eq!(line("0/8"), "[                    ]   0% archive:/x");
        assert_eq!(line("1/3 unpacking"), "[######              ]  33% archive:/x: unpacking");
        for said in ["8/8", "9/8", "18446744073709551615/18446744073709551615"] {
            assert_eq!(line(said), "[####################] 100% archive:/x");
        }
    }
}
