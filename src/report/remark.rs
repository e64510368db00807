//! Remarks: what is said about a run beside its results.

use super::Reporter;
use bstr::{BStr, ByteSlice};
use holo_protocol::session::Stream;
use std::borrow::Cow;

/// Something that is said about the run, or about the entity that is at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark<'a> {
    /// The kind of the remark, which says who says it.
    pub kind: RemarkKind,
    /// The text of the remark.
    pub text: Cow<'a, BStr>,
}

/// The kind of a remark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemarkKind {
    /// A plugin, or what it called, printed this: a piece of text, not necessarily whole lines.
    Output(Stream),
    /// A plugin of version 4 that scans printed this on standard error. When a line of it is whole, it follows as a [`Diagnostic`].
    ///
    /// [`Diagnostic`]: RemarkKind::Diagnostic
    UnsortedOutput,
    /// A plugin of version 4 that scans printed this whole line on standard error. Its mark, if it has one, is its severity.
    Diagnostic(Option<Severity>),
    /// The dispatcher says this itself.
    Own(Severity),
    /// The dispatcher says what the errors before mean.
    Explanation,
    /// The dispatcher says to a person what to do about the errors before.
    Advice,
    /// Nothing more is said about the subject of the remarks before.
    ParagraphEnd,
}

/// The severity of a remark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something went wrong.
    Error,
    /// Something should be looked into.
    Warning,
}

impl Severity {
    /// Returns the characters that a line of this severity begins with.
    #[must_use]
    pub fn mark(self) -> &'static str {
        match self {
            Severity::Error => "!! ",
            Severity::Warning => ">> ",
        }
    }
}

impl<'a> Remark<'a> {
    /// Returns the error that the dispatcher says itself.
    #[must_use]
    pub fn error(text: &'a str) -> Remark<'a> {
        Remark { kind: RemarkKind::Own(Severity::Error), text: Cow::Borrowed(text.as_bytes().as_bstr()) }
    }
}

impl Remark<'_> {
    /// Returns the same remark, to be kept.
    #[must_use]
    pub fn into_owned(self) -> Remark<'static> {
        Remark { kind: self.kind, text: Cow::Owned(self.text.into_owned()) }
    }
}

/// A listener to remarks.
pub trait Remarks {
    /// Takes a remark.
    fn remark(&mut self, remark: Remark<'_>);

    /// Takes a remark of this kind.
    fn say(&mut self, kind: RemarkKind, text: impl AsRef<[u8]>) {
        self.remark(Remark { kind, text: Cow::Borrowed(text.as_ref().as_bstr()) });
    }

    /// Takes output of a plugin, or of what it called.
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

    /// Takes the meaning of the errors before.
    fn explain(&mut self, text: impl AsRef<[u8]>) {
        self.say(RemarkKind::Explanation, text);
    }

    /// Takes what a person can do about the errors before. A script that reads version 3's words does not see it.
    fn advise(&mut self, text: impl AsRef<[u8]>) {
        self.say(RemarkKind::Advice, text);
    }

    /// Takes note that nothing more is said about the subject of the remarks before.
    fn end_paragraph(&mut self) {
        self.say(RemarkKind::ParagraphEnd, "");
    }
}

/// Hands on remarks or, once it is told so, holds them back until it is known if they count.
pub struct Provisional<'a> {
    reporter: &'a mut dyn Reporter,
    held: Option<Vec<Remark<'static>>>,
}

impl<'a> Provisional<'a> {
    /// Hands on all remarks for now.
    pub fn new(reporter: &'a mut dyn Reporter) -> Provisional<'a> {
        Provisional { reporter, held: None }
    }

    /// Holds back all remarks from now on, unless that is done already.
    pub fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Hands on remarks again. Returns those that were held back, if any were to be.
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
}
