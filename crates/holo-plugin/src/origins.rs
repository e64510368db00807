//! The origins of the lines of a text, followed through everything that has been done to it.

mod template;

pub use template::TemplateText;

use crate::diff::Comparison;
use crate::{Origin, Span};
use std::path::Path;

/// A text, with the origin of each of its lines.
#[derive(Clone, Debug)]
pub struct Traced {
    text: Vec<u8>,
    origins: Vec<Origin>,
}

impl Traced {
    /// Returns the text of a resource file: each of its lines is where it stands.
    #[must_use]
    pub fn resource(text: Vec<u8>, path: &Path) -> Traced {
        Traced::new(text, |index, _| Origin::Resource { path: path.to_owned(), line: index + 1 })
    }

    /// Returns a text whose lines all have the same origin.
    #[must_use]
    pub fn uniform(text: Vec<u8>, origin: &Origin) -> Traced {
        Traced::new(text, |_, _| origin.clone())
    }

    /// Returns a text with origins by the indexes of lines.
    pub fn new(text: Vec<u8>, mut origin: impl FnMut(usize, &[u8]) -> Origin) -> Traced {
        let origins = lines(&text).enumerate().map(|(index, line)| origin(index, line)).collect();
        Traced { text, origins }
    }

    /// Returns the text that this one has become. Lines that stay keep their origins, and the others get theirs by what they are.
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

    /// Returns the origins as an answer.
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
