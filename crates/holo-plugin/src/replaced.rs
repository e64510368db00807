//! Copies of what an apply replaces, for the record of the run.

use crate::{Host, Output, Shown};
use std::path::Path;
use std::sync::atomic::Ordering;

/// The number of files of a run that copies are made of: whoever changes more is not going to read all differences.
const MOST: usize = 500;
/// The size up to which files are copied.
pub const MAX_REPLACED: u64 = 64 << 10;

impl Host {
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
        let number = replaced.fetch_add(1, Ordering::Relaxed);
        if number >= MOST {
            return;
        }
        match before() {
            Ok(None) => output.replaced_text(&format!("/dev/null {text}")),
            Err(_) => {}
            Ok(Some(Shown::File { content, .. })) if content.len() as u64 > MAX_REPLACED => {}
            Ok(Some(shown)) => {
                let copy = self.cache_dir().join("replaced").join(number.to_string());
                // The two are told apart at the first blank.
                if let Some(copied) = copy.to_str().filter(|copy| !copy.contains([' ', '\n']))
                    && shown.write(&copy).is_ok()
                {
                    output.replaced_text(&format!("{copied} {text}"));
                }
            }
        }
    }
}
