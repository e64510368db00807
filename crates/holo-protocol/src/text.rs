//! Bytes in JSON: a string if they are UTF-8, otherwise an array of numbers.

use bstr::{BStr, BString, ByteSlice};
use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use std::fmt;

/// A name or a piece of output in a session.
///
/// File names, and therefore entity IDs and output, need not be UTF-8, but JSON strings must be. Nearly all of them are
/// UTF-8 and become strings; the others become arrays of byte values, so that no bytes are lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text(pub BString);

impl Text {
    /// Returns the bytes.
    #[must_use]
    pub fn as_bstr(&self) -> &BStr {
        self.0.as_bstr()
    }

    /// Serializes bytes like a [`Text`], without allocating one.
    ///
    /// # Errors
    /// If the serializer fails.
    pub fn serialize_bytes<S: Serializer>(bytes: &BStr, serializer: S) -> Result<S::Ok, S::Error> {
        match bytes.to_str() {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_seq(bytes.iter()),
        }
    }
}

impl<T: Into<BString>> From<T> for Text {
    fn from(bytes: T) -> Self {
        Text(bytes.into())
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Text::serialize_bytes(self.as_bstr(), serializer)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or an array of byte values")
    }

    fn visit_str<E>(self, text: &str) -> Result<Text, E> {
        Ok(Text::from(text))
    }

    fn visit_string<E>(self, text: String) -> Result<Text, E> {
        Ok(Text::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Text, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = elements.next_element::<u8>()? {
            bytes.push(byte);
        }
        Ok(Text::from(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives_json() {
        for bytes in [&b""[..], b"file:/etc/motd", "f\u{fc}r \"alle\"\n".as_bytes(), b"caf\xe9", b"\xff\x00"] {
            let json = serde_json::to_string(&Text::from(bytes)).unwrap();
            assert_eq!(serde_json::from_str::<Text>(&json).unwrap(), Text::from(bytes), "{json}");
        }
        assert_eq!(serde_json::to_string(&Text::from("a")).unwrap(), "\"a\"");
        assert_eq!(serde_json::to_string(&Text::from(&b"\xff"[..])).unwrap(), "[255]");
    }

    #[test]
    fn other_json_is_refused() {
        for json in ["1", "[256]", "[\"a\"]", "null", "{}"] {
            assert!(serde_json::from_str::<Text>(json).is_err(), "{json}");
        }
    }
}
