//! Bundles on the server.

use crate::bundle::{Bundle, MAX_SIZE};
use crate::error::FleetError;
use crate::names::BundleId;
use crate::names::Label;
use crate::store::{BUNDLES, Store, last_of};
use async_nats::jetstream::object_store::{ObjectInfo, ObjectMetadata};
use holo_change::hex;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::fmt::Display;

/// The minimum length of the beginning of a digest.
const MIN_DIGEST: usize = 8;

/// The size of the chunks of a bundle in bytes. On a link with 10 kB/s, one arrives before its request times out.
const CHUNK: usize = 64 << 10;

/// A bundle on the server.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) id: BundleId,
    pub(crate) size: u64,
    pub(crate) time: Timestamp,
    pub(crate) signature: Option<String>,
}

/// The part of a bundle that was fetched.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    /// The ID of the object in the store.
    object: String,
    chunks: usize,
    /// The sequence number of the last chunk.
    sequence: u64,
    content: Vec<u8>,
}

impl Published {
    /// Returns the bundle of an object; `None` if it is something else.
    fn of(info: &ObjectInfo) -> Option<Published> {
        let text = |key: &str| info.metadata.get(key).cloned();
        let id = BundleId { name: text("name")?.parse().ok()?, version: text("version")?, digest: info.name.clone() };
        let time =
            info.modified.map(|time| Timestamp::from_nanosecond(time.unix_timestamp_nanos()).unwrap_or_default());
        Some(Published { id, size: info.size as u64, time: time.unwrap_or_default(), signature: text("signature") })
    }
}

impl Store {
    /// Returns all bundles: by name, and the last published ones first.
    pub(crate) async fn published(&self) -> Result<Vec<Published>, FleetError> {
        let name = format!("OBJ_{BUNDLES}");
        let stream = self.context.get_stream(&name).await.map_err(|error| self.not_here(BUNDLES, &error))?;
        let messages = last_of(&stream, &format!("$O.{BUNDLES}.M.>")).await;
        let messages = messages.map_err(|error| FleetError::about("the list of bundles", error))?;
        let objects = messages.iter().filter_map(|message| serde_json::from_slice::<ObjectInfo>(&message.payload).ok());
        let present = objects.filter(|object| !object.deleted);
        let mut found: Vec<Published> = present.filter_map(|object| Published::of(&object)).collect();
        found.sort_by(|one, other| (&one.id.name, other.time).cmp(&(&other.id.name, one.time)));
        Ok(found)
    }

    /// Returns the bundle that a text names: `NAME@VERSION`, `NAME` for the last published one, or the beginning of a digest.
    pub(crate) async fn find_bundle(&self, text: &str) -> Result<Published, FleetError> {
        let published = self.published().await?;
        let found: Vec<&Published> = match text.split_once('@') {
            Some((name, version)) => published
                .iter()
                .filter(|bundle| bundle.id.name.as_str() == name && bundle.id.version == version)
                .collect(),
            None => {
                let newest = published.iter().find(|bundle| bundle.id.name.as_str() == text);
                let by_digest =
                    published.iter().filter(|bundle| text.len() >= MIN_DIGEST && bundle.id.digest.starts_with(text));
                newest.map_or_else(|| by_digest.collect(), |newest| vec![newest])
            }
        };
        match found[..] {
            [bundle] => Ok(bundle.clone()),
            [] => {
                Err(FleetError(format!("there is no bundle {text:?} on the server; look at: holo-fleet bundle list")))
            }
            _ => Err(FleetError(format!(
                "several bundles are called {text:?}; give a digest, from: holo-fleet bundle list"
            ))),
        }
    }

    /// Publishes a bundle with its signature. Returns false if it is there already.
    pub(crate) async fn publish(&self, bundle: &Bundle) -> Result<bool, FleetError> {
        let (id, signature) = (bundle.id(), bundle.signature());
        let published = self.published().await?;
        let same_name = published.iter().find(|bundle| bundle.id.name == id.name && bundle.id.version == id.version);
        match same_name {
            Some(other) if other.id.digest != id.digest => {
                return Err(FleetError(format!(
                    "another bundle {id} was published on {}, with the digest {:.12}; give this one another version",
                    other.time, other.id.digest
                )));
            }
            Some(other) if other.signature.as_deref() == signature || signature.is_none() => return Ok(false),
            _ => {}
        }
        let texts = [("name", Some(id.name.as_str())), ("version", Some(&id.version)), ("signature", signature)];
        let metadata = texts.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text?.to_owned()))).collect();
        let (name, chunk_size) = (id.digest.clone(), Some(CHUNK));
        let meta = ObjectMetadata { name, metadata, chunk_size, ..ObjectMetadata::default() };
        self.bundles().await?.put(meta, &mut bundle.bytes()).await.map_err(|error| FleetError::about(&id, error))?;
        Ok(true)
    }

    /// Fetches a bundle and its signature. What is not complete or not what was published is an error.
    ///
    /// Each chunk is requested by itself. A consumer would need a permission with which the server could be made to write
    /// to any subject. After a lost connection, the next call continues with `so_far`.
    pub(crate) async fn fetch(
        &self,
        digest: &str,
        so_far: &mut Fetched,
    ) -> Result<(Vec<u8>, Option<String>), FleetError> {
        let about = |error: &dyn Display| FleetError::about(format!("bundle {digest:.12}"), error);
        let info = self.bundles().await?.info(digest).await.map_err(|error| about(&error))?;
        if info.deleted {
            return Err(about(&"it was deleted from the server"));
        }
        let signature = Published::of(&info).and_then(|bundle| bundle.signature);
        let stream = self.context.get_stream_no_info(format!("OBJ_{BUNDLES}")).await.map_err(|error| about(&error))?;
        let subject = format!("$O.{BUNDLES}.C.{}", info.nuid);
        if so_far.object != info.nuid {
            *so_far = Fetched { object: info.nuid.clone(), ..Fetched::default() };
        }
        while so_far.chunks < info.chunks {
            let chunk = stream.direct_get_next_for_subject(&subject, Some(so_far.sequence + 1)).await;
            let chunk = chunk.map_err(|error| about(&format!("the server has not all of it: {error}")))?;
            so_far.sequence = chunk.sequence;
            so_far.chunks += 1;
            so_far.content.extend_from_slice(&chunk.payload);
            if so_far.content.len() as u64 > MAX_SIZE {
                return Err(about(&"it is larger than a bundle can be"));
            }
        }
        let content = std::mem::take(so_far).content;
        if hex(&Sha256::digest(&content)) != digest {
            return Err(about(&"what the server has is not what was published"));
        }
        Ok((content, signature))
    }

    /// Removes a bundle.
    pub(crate) async fn unpublish(&self, id: &BundleId) -> Result<(), FleetError> {
        self.bundles().await?.delete(&id.digest).await.map_err(|error| FleetError::about(id, error))
    }

    /// Returns the bundles that channels use, with the names of the channels.
    pub(crate) async fn used_bundles(&self) -> Result<Vec<(BundleId, Label)>, FleetError> {
        let mut used = Vec::new();
        for channel in self.channels().await? {
            let record = channel.record;
            used.extend(
                [Some(record.bundle), record.previous].into_iter().flatten().map(|id| (id, record.channel.clone())),
            );
        }
        Ok(used)
    }
}
