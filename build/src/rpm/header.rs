//! The header structure of RPM: values by numeric tags.

use std::collections::BTreeMap;
use std::io;

/// The size of an index entry, and of the region trailer, which looks like one.
const ENTRY: usize = 16;
/// The size of the values that rpm reads at most.
const DATA_MAX: usize = 0x0fff_ffff;
/// The type of binary data.
const BINARY: u32 = 7;

/// A value of a header.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Int16(Vec<u16>),
    Int32(Vec<u32>),
    Text(String),
    Binary(Vec<u8>),
    Texts(Vec<String>),
    /// A text that could be translated.
    Translated(String),
}

impl Value {
    fn kind(&self) -> u32 {
        match self {
            Value::Int16(_) => 3,
            Value::Int32(_) => 4,
            Value::Text(_) => 6,
            Value::Binary(_) => BINARY,
            Value::Texts(_) => 8,
            Value::Translated(_) => 9,
        }
    }

    fn alignment(&self) -> usize {
        match self {
            Value::Int16(_) => 2,
            Value::Int32(_) => 4,
            _ => 1,
        }
    }

    fn count(&self) -> usize {
        match self {
            Value::Int16(numbers) => numbers.len(),
            Value::Int32(numbers) => numbers.len(),
            Value::Text(_) | Value::Translated(_) => 1,
            Value::Binary(bytes) => bytes.len(),
            Value::Texts(texts) => texts.len(),
        }
    }

    fn write(&self, to: &mut Vec<u8>) {
        let mut text = |text: &String| to.extend([text.as_bytes(), b"\0"].concat());
        match self {
            Value::Int16(numbers) => to.extend(numbers.iter().flat_map(|number| number.to_be_bytes())),
            Value::Int32(numbers) => to.extend(numbers.iter().flat_map(|number| number.to_be_bytes())),
            Value::Text(one) | Value::Translated(one) => text(one),
            Value::Binary(bytes) => to.extend(bytes),
            Value::Texts(texts) => texts.iter().for_each(text),
        }
    }
}

/// A header that is being filled.
#[derive(Debug, Default)]
pub(super) struct Header {
    values: BTreeMap<u32, Value>,
}

impl Header {
    /// Sets the value of a tag. Empty lists are left out, as rpm does not accept them.
    pub(super) fn set(&mut self, tag: u32, value: Value) {
        if value.count() > 0 {
            self.values.insert(tag, value);
        }
    }

    /// Returns the header as bytes, in a single region with this tag.
    pub(super) fn to_bytes(&self, region: u32) -> io::Result<Vec<u8>> {
        let (mut index, mut data) = (Vec::new(), Vec::new());
        for (tag, value) in &self.values {
            data.resize(data.len().next_multiple_of(value.alignment()), 0);
            index.extend(entry(*tag, value.kind(), number(data.len())?, number(value.count())?));
            value.write(&mut data);
        }
        let entries = number(self.values.len() + 1)?;
        let size = number(entries as usize * ENTRY)?;
        let first = entry(region, BINARY, number(data.len())?, number(ENTRY)?);
        // Its offset is that of the first entry, counted backwards.
        data.extend(entry(region, BINARY, size.wrapping_neg(), number(ENTRY)?));
        check_size(data.len())?;
        let mut bytes = vec![0x8e, 0xad, 0xe8, 0x01, 0, 0, 0, 0];
        bytes.extend(entries.to_be_bytes());
        bytes.extend(number(data.len())?.to_be_bytes());
        bytes.extend(first);
        bytes.extend(index);
        bytes.extend(data);
        Ok(bytes)
    }
}

fn entry(tag: u32, kind: u32, offset: u32, count: u32) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    let bytes = [tag, kind, offset, count].into_iter().flat_map(u32::to_be_bytes);
    entry.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    entry
}

/// Checks the size of all values.
fn check_size(size: usize) -> io::Result<()> {
    if size > DATA_MAX {
        return Err(io::Error::other("the format has no room for attributes and file names of 256 MiB"));
    }
    Ok(())
}

/// Returns a size as the format has it.
pub(super) fn number(size: impl TryInto<u32>) -> io::Result<u32> {
    size.try_into().map_err(|_| io::Error::other("the format has no room for packages of 4 GB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_sorted_and_aligned() {
        let mut header = Header::default();
        header.set(1001, Value::Int32(vec![7]));
        header.set(1000, Value::Text("x".into()));
        header.set(1002, Value::Texts(Vec::new()));
        let bytes = header.to_bytes(63).unwrap();
        let expected = [
            &[0x8e, 0xad, 0xe8, 1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 24][..],
            &[0, 0, 0, 63, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0, 0, 16],
            &[0, 0, 3, 232, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 1],
            &[0, 0, 3, 233, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 1],
            b"x\0\0\0\0\0\0\x07",
            &[0, 0, 0, 63, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xd0, 0, 0, 0, 16],
        ];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn headers_that_rpm_does_not_read_are_errors() {
        assert!(check_size(DATA_MAX).is_ok());
        assert!(check_size(DATA_MAX + 1).is_err());
    }
}
