//! Tracing the origins of the lines of a text through all of its transformations.

mod template;

pub use template::TemplateText;

use crate::diff::Comparison;
use crate::{Origin, Span};
use std::path::Path;

/// A text with the origin of each line.
#[derive(Clone, Debug)]
pub struct Traced {
    text: Vec<u8>,
    origins: Vec<Origin>,
}

impl Traced {
    /// Creates the text of a resource file, whose lines originate from that file.
    #[must_use]
    pub fn resource(text: Vec<u8>, path: &Path) -> Traced {
        Traced::new(text, |index, _| Origin::Resource { path: path.to_owned(), line: index + 1 })
    }

    /// Creates a text whose lines have the same origin.
    #[must_use]
    pub fn uniform(text: Vec<u8>, origin: &Origin) -> Traced {
        Traced::new(text, |_, _| origin.clone())
    }

    /// Creates a text; `origin` receives the index and the content of each line.
    pub fn new(text: Vec<u8>, mut origin: impl FnMut(usize, &[u8]) -> Origin) -> Traced {
        let origins = lines(&text).enumerate().map(|(index, line)| origin(index, line)).collect();
        Traced { text, origins }
    }

    /// Returns the result of transforming this text into another. Unchanged lines keep their origins; `origin` returns
    /// those of the other lines.
    #[must_use]
    pub fn become_text(&self, text: Vec<u8>, mut origin: impl FnMut(usize, &[u8]) -> Origin) -> Traced {
        let comparison = Comparison::new(&self.text, &text);
        let kept = comparison.kept().into_iter().zip(&comparison.new).enumerate();
        let origins = kept.map(|(index, (kept, line))| {
            kept.and_then(|kept| self.origins.get(kept).cloned()).unwrap_or_else(|| origin(index, line))
        });
        let origins = origins.collect();
        Traced { text, origins }
    }

    /// Returns the origins as spans.
    #[must_use]
    pub fn into_spans(self) -> Vec<Span> {
        Span::join(self.origins)
    }

    /// Returns the origin of a line.
    #[must_use]
    pub fn origin(&self, index: usize) -> Option<&Origin> {
        self.origins.get(index)
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    bstr::ByteSlice::lines_with_terminator(text)
}
