//! The status line, which shows a waiting user the work in progress.

use super::Consumer;
use super::console::Console;
use super::event::Event;
use bstr::{BStr, BString, ByteSlice};
use holo_protocol::{Message, Progress};
use std::time::{Duration, Instant};

/// The time after which a silent run shows its status.
const STATUS_AFTER: Duration = Duration::from_secs(1);
/// The interval between updates of the status.
const STATUS_EVERY: Duration = Duration::from_millis(100);
/// Shorter waits are not shown.
const JUST_BEGUN: Duration = Duration::from_millis(900);

/// Shows the current entity, if the run takes long.
pub(super) struct Status {
    begun: Instant,
    shown_last: Option<Instant>,
    /// The ID of the current entity.
    at_work: BString,
    /// The progress that was shown last.
    progress: Option<String>,
}

impl Status {
    /// Returns an empty status.
    pub(super) fn new() -> Status {
        Status { begun: Instant::now(), shown_last: None, at_work: BString::default(), progress: None }
    }

    fn show(&mut self, line: &str, console: &mut Console) {
        let is_time = self.shown_last.map_or(self.begun.elapsed() > STATUS_AFTER, |last| last.elapsed() > STATUS_EVERY);
        if is_time && console.is_at_start_of_line() {
            self.shown_last = Some(Instant::now());
            console.status(line);
        }
    }
}

impl Consumer for Status {
    fn consume(&mut self, event: &Event<'_>, console: &mut Console) {
        match event {
            Event::Begin(entity) => {
                entity.id().clone_into(&mut self.at_work);
                self.progress = None;
                self.show(&entity.id().to_str_lossy(), console);
            }
            Event::Message(Message::Progress(said)) => {
                let line = line(self.at_work.as_bstr(), &Progress::parse(&said.to_str_lossy()));
                self.show(&line, console);
                self.progress = Some(line);
            }
            Event::Waiting(_, time) if *time < JUST_BEGUN => {}
            Event::Waiting(entity, time) => {
                let progress = self.progress.as_ref().filter(|_| entity.id() == self.at_work);
                let line = progress.cloned().unwrap_or_else(|| entity.id().to_string());
                self.show(&with_time(&line, *time), console);
            }
            _ => {}
        }
    }
}

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
mod bar_tests {
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
