//! Copies of what an apply replaces, for the record of the run.

use crate::{FilePair, Host, Output, Shown};
use bstr::ByteSlice;
use std::path::Path;

/// The number of files of a run that copies are made of: whoever changes more is not going to read all differences.
const MOST: usize = 500;
/// The size up to which files are copied.
pub const MAX_REPLACED: u64 = 64 << 10;

impl Host {
    /// Returns true if a record is kept of the run, which has the differences that changes make.
    #[must_use]
    pub fn keeps_changes(&self) -> bool {
        self.replaced.is_some()
    }

    /// Keeps the two files that show what an entity is, and what it is about to become, as its [preview](crate::Entity::preview) has them: the
    /// dispatcher then has the difference for the record of the run, if it keeps one. This is for what is no file; both are in the cache.
    pub fn keep_change(&self, pair: impl FnOnce() -> Option<FilePair>, output: &mut Output<'_>) {
        if self.replaced.as_ref().and_then(|replaced| replaced.next(MOST)).is_none() {
            return;
        }
        let Some(FilePair { from, to, from_label: Some(label), .. }) = pair() else { return };
        // The three are told apart at the tabs.
        let fields =
            [from.as_os_str().as_encoded_bytes(), to.as_os_str().as_encoded_bytes(), label.as_bstr().as_bytes()];
        if fields.iter().any(|field| field.find_byteset(b"\t\n").is_some()) {
            return;
        }
        if let Ok(text) = std::str::from_utf8(&fields.join(&b'\t')) {
            output.replaced_text(text);
        }
    }

    /// Keeps what is at a path, which is absolute below the root and about to be replaced: the dispatcher then has the difference for the
    /// record of the run, if it keeps one. `before` is asked for if it is needed; nothing means that nothing was there, and an error that there is
    /// no difference. What is sensitive must not be handed over.
    ///
    /// Only some hundred files of a run are kept, and none that is large. What goes wrong does not count.
    pub fn keep_replaced<E>(
        &self,
        path: &Path,
        before: impl FnOnce() -> Result<Option<Shown>, E>,
        output: &mut Output<'_>,
    ) {
        let Some(replaced) = &self.replaced else { return };
        let Some(text) = path.to_str().filter(|path| !path.contains('\n')) else { return };
        let Some(number) = replaced.next(MOST) else { return };
        match before() {
            Ok(None) => output.replaced_text(&format!("/dev/null {text}")),
            Err(_) => {}
            Ok(Some(Shown::File { content, .. })) if content.len() as u64 > MAX_REPLACED => {}
            Ok(Some(shown)) => {
                let folder = self.cache_dir().join("replaced");
                let copy = match &shown {
                    Shown::File { content, mode } if mode & 0o100 == 0 => replaced.add(content, &folder),
                    shown => {
                        let copy = folder.join(number.to_string());
                        shown.write(&copy).map(|()| copy)
                    }
                };
                // The two are told apart at the first blank.
                if let Ok(copy) = copy
                    && let Some(copied) = copy.to_str().filter(|copy| !copy.contains([' ', '\n']))
                {
                    output.replaced_text(&format!("{copied} {text}"));
                }
            }
        }
    }
}
