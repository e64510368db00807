//! Signed records: what operators say, so that hosts need not trust the server.

use crate::error::FleetError;
use crate::signing::{Namespace, Signers, sign};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A record with its signature. What is signed is the text of the record, byte for byte.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Signed {
    record: String,
    signature: String,
}

impl Signed {
    /// Signs a record, and returns it as it is stored.
    pub(crate) fn seal(record: &impl Serialize, namespace: Namespace, key: &Path) -> Result<Vec<u8>, FleetError> {
        let text = |error: serde_json::Error| FleetError::about("the record", error);
        let record = serde_json::to_string(record).map_err(text)?;
        let signature = sign(key, namespace, record.as_bytes())?;
        serde_json::to_vec(&Signed { record, signature }).map_err(text)
    }

    /// Reads a stored record without verifying its signature, to show it.
    pub(crate) fn read<T: DeserializeOwned>(stored: &[u8]) -> Result<T, FleetError> {
        Signed::parse(stored)?.content()
    }

    /// Reads a stored record, and verifies its signature.
    pub(crate) fn open<T: DeserializeOwned>(
        stored: &[u8],
        namespace: Namespace,
        signers: &Signers,
    ) -> Result<T, FleetError> {
        let signed = Signed::parse(stored)?;
        signers.verify(namespace, signed.record.as_bytes(), &signed.signature)?;
        signed.content()
    }

    fn parse(stored: &[u8]) -> Result<Signed, FleetError> {
        serde_json::from_slice(stored).map_err(|error| FleetError::about("not a signed record", error))
    }

    fn content<T: DeserializeOwned>(&self) -> Result<T, FleetError> {
        serde_json::from_str(&self.record).map_err(|error| FleetError::about("not a record of this version", error))
    }
}

/// Returns the serial of a record that replaces another one. It is the time if that is higher, which it also is if the server
/// has lost the records that hosts know.
pub(crate) fn next_serial(current: Option<u64>) -> u64 {
    current.map_or(0, |serial| serial.saturating_add(1)).max(Timestamp::now().as_millisecond().unsigned_abs())
}

/// The data of a layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LayerRecord {
    /// The key of the layer: `common`, `role.NAME` or `host.NAME`.
    pub(crate) layer: String,
    /// Higher than that of all earlier records of the layer.
    pub(crate) serial: u64,
    /// A TOML document.
    pub(crate) document: String,
    /// The name of the operator.
    pub(crate) operator: String,
    pub(crate) time: Timestamp,
}
