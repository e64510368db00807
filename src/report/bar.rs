//! The status line of an entity whose plugin reports progress.

use bstr::{BStr, ByteSlice};
use holo_protocol::Progress;
use std::time::Duration;

const WIDTH: u64 = 20;

/// Returns the line, with a bar if the total amount of work is known.
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

/// Returns the line with the elapsed time.
pub(super) fn with_time(line: &str, time: Duration) -> String {
    match time.saturating_add(Duration::from_millis(500)).as_secs() {
        seconds @ 0..60 => format!("{line} ({seconds} s)"),
        seconds => format!("{line} ({}:{:02} min)", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes() {
        let line = |seconds| with_time("exec:x", Duration::from_secs(seconds));
        assert_eq!(
            [line(4), line(59), line(60), line(3605)].join(" "),
            "exec:x (4 s) exec:x (59 s) exec:x (1:00 min) exec:x (60:05 min)"
        );
    }

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
