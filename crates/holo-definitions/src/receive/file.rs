//! The file with the values sent so far, which the dispatcher maintains during a run.

use super::{Received, ReceivedValue};
use holo_protocol::sent::Sending;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The values in the file of a run. The file is read when a value is first needed.
#[derive(Debug, Default)]
pub struct ReceivedFile {
    path: Option<PathBuf>,
    known: Mutex<Option<Values>>,
}

type Values = HashMap<(Vec<u8>, Vec<u8>), ReceivedValue>;

impl ReceivedFile {
    /// Creates a source for the file at `path`, which may not exist.
    #[must_use]
    pub fn at(path: Option<PathBuf>) -> ReceivedFile {
        ReceivedFile { path, known: Mutex::default() }
    }

    /// Discards the values, so that the file is read again.
    pub fn forget(&self) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Received for ReceivedFile {
    fn value(&self, sender: &str, name: &str) -> Option<ReceivedValue> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_with(|| self.path.as_deref().map(read).unwrap_or_default());
        known.get(&(sender.into(), name.into())).cloned()
    }
}

fn read(path: &Path) -> Values {
    let sendings = Sending::read_all(&fs::read(path).unwrap_or_default());
    let value = |Sending { entity, sent }: Sending| {
        let value = ReceivedValue { bytes: sent.value.0.into(), is_sensitive: sent.sensitive };
        ((entity.0.into(), sent.name.0.into()), value)
    };
    sendings.into_iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_file_is_read_once_until_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let values = ReceivedFile::at(Some(folder.path().join("values")));
        assert_eq!(values.value("a:b", "x"), None);
        let text =
            "{\"entity\":\"a:b\",\"sent\":{\"name\":\"x\",\"value\":\"1\\n2\",\"sensitive\":true}}\n{\"entity\":";
        fs::write(folder.path().join("values"), text).unwrap();
        assert_eq!(values.value("a:b", "x"), None);
        values.forget();
        let expected = ReceivedValue { bytes: b"1\n2".to_vec(), is_sensitive: true };
        assert_eq!((values.value("a:b", "x"), values.value("a:b", "y")), (Some(expected), None));
        assert_eq!(ReceivedFile::default().value("a:b", "x"), None);
    }
}
