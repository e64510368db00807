//! Remarks: messages about a run, other than its results, and hints for people.

use super::Reporter;
use bstr::{BStr, ByteSlice};
use holo_protocol::session::Stream;
use std::borrow::Cow;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A remark about the run, or about the current entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark<'a> {
    /// The kind of the remark, which implies its author.
    pub kind: RemarkKind,
    /// The text of the remark.
    pub text: Cow<'a, BStr>,
}

/// The kind of a remark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemarkKind {
    /// Output of a plugin or its child processes, not necessarily in whole lines.
    Output(Stream),
    /// Output of a scanning plugin of version 4 on standard error. Each complete line follows as a [`Diagnostic`].
    ///
    /// [`Diagnostic`]: RemarkKind::Diagnostic
    UnsortedOutput,
    /// A complete line of a scanning plugin of version 4 on standard error, with the severity of its mark, if any.
    Diagnostic(Option<Severity>),
    /// A message of the dispatcher.
    Own(Severity),
    /// The dispatcher's explanation of the preceding errors.
    Explanation,
    /// The dispatcher's advice to a user about the preceding errors.
    Advice,
    /// The end of the remarks about a subject.
    ParagraphEnd,
}

/// The severity of a remark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// An error.
    Error,
    /// A warning.
    Warning,
}

impl Severity {
    /// Returns the prefix of a line with this severity.
    #[must_use]
    pub fn mark(self) -> &'static str {
        match self {
            Severity::Error => "!! ",
            Severity::Warning => ">> ",
        }
    }
}

impl<'a> Remark<'a> {
    /// Returns an error of the dispatcher.
    #[must_use]
    pub fn error(text: &'a str) -> Remark<'a> {
        Remark { kind: RemarkKind::Own(Severity::Error), text: Cow::Borrowed(text.as_bytes().as_bstr()) }
    }
}

impl Remark<'_> {
    /// Returns the text if it is an error: one of ours, or the last line of output that a plugin marks as one.
    #[must_use]
    pub fn error_text(&self) -> Option<&[u8]> {
        let is_error = self.kind == RemarkKind::Own(Severity::Error);
        let marked = || self.text.lines().filter_map(|line| line.strip_prefix(b"!! ")).next_back();
        let text = if is_error { Some(self.text.as_bytes()) } else { marked() };
        text.map(ByteSlice::trim)
    }

    /// Returns an owned copy of the remark.
    #[must_use]
    pub fn into_owned(self) -> Remark<'static> {
        Remark { kind: self.kind, text: Cow::Owned(self.text.into_owned()) }
    }
}

/// A consumer of remarks.
pub trait Remarks {
    /// Takes a remark.
    fn remark(&mut self, remark: Remark<'_>);

    /// Takes a remark of this kind.
    fn say(&mut self, kind: RemarkKind, text: impl AsRef<[u8]>) {
        self.remark(Remark { kind, text: Cow::Borrowed(text.as_ref().as_bstr()) });
    }

    /// Takes output of a plugin or its child processes.
    fn output(&mut self, stream: Stream, text: &[u8]) {
        self.say(RemarkKind::Output(stream), text);
    }

    /// Takes an error.
    fn error(&mut self, text: impl AsRef<[u8]>) {
        self.say(RemarkKind::Own(Severity::Error), text);
    }

    /// Takes a warning.
    fn warning(&mut self, text: impl AsRef<[u8]>) {
        self.say(RemarkKind::Own(Severity::Warning), text);
    }

    /// Takes an explanation of the preceding errors.
    fn explain(&mut self, text: impl AsRef<[u8]>) {
        self.say(RemarkKind::Explanation, text);
    }

    /// Takes advice about the preceding errors. It is not shown to scripts that parse version 3's output.
    fn advise(&mut self, text: impl AsRef<[u8]>) {
        self.say(RemarkKind::Advice, text);
    }

    /// Ends the remarks about a subject.
    fn end_paragraph(&mut self) {
        self.say(RemarkKind::ParagraphEnd, "");
    }
}

/// Forwards remarks or, after [`hold`](Provisional::hold), buffers them until it is known whether they matter.
pub struct Provisional<'a> {
    reporter: &'a mut dyn Reporter,
    held: Option<Vec<Remark<'static>>>,
}

impl<'a> Provisional<'a> {
    /// Returns a buffer that forwards all remarks for now.
    pub fn new(reporter: &'a mut dyn Reporter) -> Provisional<'a> {
        Provisional { reporter, held: None }
    }

    /// Starts to buffer remarks, if it has not been done yet.
    pub fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Stops buffering. Returns the buffered remarks, or `None` if remarks were not buffered.
    pub fn take_held(&mut self) -> Option<Vec<Remark<'static>>> {
        self.held.take()
    }
}

impl Remarks for Provisional<'_> {
    fn remark(&mut self, remark: Remark<'_>) {
        match &mut self.held {
            Some(held) => held.push(remark.into_owned()),
            None => self.reporter.remark(remark),
        }
    }
}

/// The number of bytes that are read from a program to find its interpreter.
const FIRST_LINE: u64 = 256;

/// Returns the remedy for a program that could not be started, given a message such as `execution of X failed:
/// fork/exec X: permission denied`.
pub(super) fn for_error(text: &str) -> Option<String> {
    let (program, reason) = text.split_once("fork/exec ")?.1.rsplit_once(": ")?;
    let path = Path::new(program);
    let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    match reason {
        "permission denied" if metadata.permissions().mode() & 0o111 == 0 => {
            Some(format!("to make it executable: chmod +x {program}"))
        }
        "no such file or directory" => missing_interpreter(path),
        _ => None,
    }
}

fn missing_interpreter(program: &Path) -> Option<String> {
    let mut start = Vec::new();
    File::open(program).ok()?.take(FIRST_LINE).read_to_end(&mut start).ok()?;
    let line = String::from_utf8_lossy(start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?).into_owned();
    let program = program.display();
    if line.ends_with('\r') {
        return Some(format!("the lines of {program} have Windows line endings: remove the carriage returns"));
    }
    let interpreter = line.split_whitespace().next()?;
    (!Path::new(interpreter).exists()).then(|| format!("{program} requires {interpreter}, which does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Event;

    #[derive(Default)]
    struct Heard(Vec<String>);

    impl Reporter for Heard {
        fn event(&mut self, event: Event<'_>) {
            self.0.push(format!("{event:?}"));
        }
    }

    fn heard(say: impl FnOnce(&mut Provisional<'_>)) -> usize {
        let mut reporter = Heard::default();
        say(&mut Provisional::new(&mut reporter));
        reporter.0.len()
    }

    #[test]
    fn remarks_are_held_back_until_they_are_taken() {
        let direct = heard(|remarks| remarks.error("one"));
        assert_eq!(direct, 1);
        let dropped = heard(|remarks| {
            remarks.error("one");
            remarks.hold();
            remarks.warning("two");
            remarks.hold();
            remarks.output(Stream::Stdout, b"three");
            let held = remarks.take_held().unwrap();
            assert_eq!(held.iter().map(|remark| remark.text.to_string()).collect::<Vec<_>>(), ["two", "three"]);
        });
        assert_eq!(dropped, 1);
        let replayed = heard(|remarks| {
            assert_eq!(remarks.take_held(), None);
            remarks.hold();
            remarks.advise("two");
            let held = remarks.take_held().into_iter().flatten();
            remarks.warning("one");
            held.for_each(|remark| remarks.remark(remark));
        });
        assert_eq!(replayed, 2);
    }

    #[test]
    fn unstartable_programs_have_remedies() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let (plain, lost, windows) =
            (make("plain", "x"), make("lost", "#!/no/such/sh -e\n"), make("windows", "#!/bin/sh\r\n"));
        let hint = |program: &str, reason: &str| for_error(&format!("it failed: fork/exec {program}: {reason}"));
        assert_eq!(hint(&plain, "permission denied"), Some(format!("to make it executable: chmod +x {plain}")));
        let missing = "no such file or directory";
        let expected = format!("{lost} requires /no/such/sh, which does not exist");
        assert_eq!(hint(&lost, missing), Some(expected));
        assert!(hint(&windows, missing).unwrap().contains("carriage returns"));
        assert_eq!(hint(&plain, missing), None);
        assert_eq!(hint("/no/such/program", missing), None);
        assert_eq!(hint("/bin/sh", "permission denied"), None);
        assert_eq!(for_error("exit status 1"), None);
    }
}
