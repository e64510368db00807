//! Copies of replaced files, for the record of the run.

use crate::{FilePair, Host, Output, Shown};
use bstr::ByteSlice;
use std::path::Path;

/// The maximum number of files that are copied in a run. The differences of larger changes are unlikely to be read.
const MOST: usize = 500;
/// The maximum size of files that are copied.
pub const MAX_REPLACED: u64 = 64 << 10;

impl Host {
    /// Returns true if the run is recorded, including the differences of its changes.
    #[must_use]
    pub fn keeps_changes(&self) -> bool {
        self.replaced.is_some()
    }

    /// Keeps the two files that show the current and the new state of an entity, like its
    /// [preview](crate::Entity::preview), for the record of the run, if it is recorded. This is for entities that are
    /// not files; both files are in the cache.
    pub fn keep_change(&self, pair: impl FnOnce() -> Option<FilePair>, output: &mut Output<'_>) {
        if self.replaced.as_ref().and_then(|replaced| replaced.next(MOST)).is_none() {
            return;
        }
        let Some(FilePair { from, to, from_label: Some(label), .. }) = pair() else { return };
        // The three fields are separated by tabs.
        let fields =
            [from.as_os_str().as_encoded_bytes(), to.as_os_str().as_encoded_bytes(), label.as_bstr().as_bytes()];
        if fields.iter().any(|field| field.find_byteset(b"\t\n").is_some()) {
            return;
        }
        if let Ok(text) = std::str::from_utf8(&fields.join(&b'\t')) {
            output.replaced_text(text);
        }
    }

    /// Keeps a copy of the file at a path, which is absolute below the root and about to be replaced, for the record of
    /// the run, if it is recorded. `before` is called if the old content is needed; `None` means that the file did not
    /// exist, and an error that no difference is recorded. Sensitive content must not be passed.
    ///
    /// Only some hundred files of a run are kept, and no large ones. Errors are ignored.
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
                // The two fields are separated by the first space.
                if let Ok(copy) = copy
                    && let Some(copied) = copy.to_str().filter(|copy| !copy.contains([' ', '\n']))
                {
                    output.replaced_text(&format!("{copied} {text}"));
                }
            }
        }
    }
}
