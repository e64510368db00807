//! Bundles: files of resources with a manifest, as one archive, which is the same byte for byte whenever it is built
//! from the same files.

mod archive;
mod contents;
mod error;
mod installed;
mod manifest;
mod secrets;

pub(crate) use contents::{Contents, Options};
pub(crate) use error::BundleError;
pub(crate) use installed::{Installed, Record, install, lay_out, resume, rollback};
pub(crate) use manifest::{MAX_SIZE, Manifest, Member, Version};

use crate::names::BundleId;
use crate::names::Label;
use crate::signing::{Namespace, Signers, SigningError, sign};
use holo_change::hex;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A bundle whose signature and contents were verified.
#[derive(Debug)]
pub(crate) struct Bundle {
    bytes: Vec<u8>,
    digest: String,
    manifest: Manifest,
    signature: Option<String>,
    signed_by: Option<String>,
}

impl Bundle {
    /// Reads a bundle and the signature beside it. Nothing is unpacked before the signature was verified.
    ///
    /// Without a list of signers, `allow_unsigned` also accepts bundles whose signature cannot be verified.
    ///
    /// # Errors
    /// If it is not signed by one who may, or is damaged.
    pub(crate) fn open(file: &Path, signers: &Signers, allow_unsigned: bool) -> Result<Bundle, BundleError> {
        Bundle::verified(file, read(file)?, read_signature(file)?, signers, allow_unsigned)
    }

    /// Returns a bundle that was read from somewhere, like [`open`](Self::open).
    ///
    /// # Errors
    /// Those of `open`.
    pub(crate) fn verified(
        file: &Path,
        bytes: Vec<u8>,
        signature: Option<String>,
        signers: &Signers,
        allow_unsigned: bool,
    ) -> Result<Bundle, BundleError> {
        let signed_by = match &signature {
            None if allow_unsigned => None,
            None => return Err(BundleError::Unsigned(file.to_owned())),
            Some(_) if allow_unsigned && !signers.exist() => None,
            Some(signature) => {
                let verified = signers.verify(Namespace::Bundle, &bytes, signature);
                Some(verified.map_err(|reason| BundleError::Signature { file: file.to_owned(), reason })?)
            }
        };
        Bundle::parse(file, bytes, signature, signed_by)
    }

    /// Reads a bundle whose signature was verified when it was installed.
    fn reopen(file: &Path, of: &Installed) -> Result<Bundle, BundleError> {
        let bundle = Bundle::parse(file, read(file)?, read_signature(file)?, of.signed_by.clone())?;
        if bundle.digest != of.digest {
            return Err(BundleError::Damaged(file.to_owned()));
        }
        Ok(bundle)
    }

    /// Reads a bundle, whatever its signature.
    pub(crate) fn parse(
        file: &Path,
        bytes: Vec<u8>,
        signature: Option<String>,
        signed_by: Option<String>,
    ) -> Result<Bundle, BundleError> {
        let discard = |_: &str, _: &Member, content: &mut dyn Read| {
            io::copy(content, &mut io::sink()).map(drop).map_err(BundleError::reading(file))
        };
        let manifest = archive::read(file, &bytes, discard)?;
        let digest = hex(&Sha256::digest(&bytes));
        Ok(Bundle { bytes, digest, manifest, signature, signed_by })
    }

    /// Returns the signature of a key.
    pub(crate) fn sign(&self, key: &Path) -> Result<String, SigningError> {
        sign(key, Namespace::Bundle, &self.bytes)
    }

    /// Returns the name.
    pub(crate) fn name(&self) -> &Label {
        &self.manifest.name
    }

    /// Returns the version.
    pub(crate) fn version(&self) -> &Version {
        &self.manifest.version
    }

    /// Returns the SHA-256 of the archive.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns what names it on a server.
    pub(crate) fn id(&self) -> BundleId {
        let (name, version) = (self.name().clone(), self.version().to_string());
        BundleId { name, version, digest: self.digest.clone() }
    }

    /// Returns the archive.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the signature.
    pub(crate) fn signature(&self) -> Option<&str> {
        self.signature.as_deref()
    }

    /// Returns the manifest.
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Returns the principal whose key has signed it.
    pub(crate) fn signed_by(&self) -> Option<&str> {
        self.signed_by.as_deref()
    }

    /// Passes each member with its content, which must be read to its end, to a function.
    pub(crate) fn unpack(
        &self,
        visit: impl FnMut(&str, &Member, &mut dyn Read) -> Result<(), BundleError>,
    ) -> Result<(), BundleError> {
        archive::read(Path::new(&self.digest), &self.bytes, visit).map(drop)
    }
}

/// Returns the path of a bundle's signature.
pub(crate) fn signature_path(file: &Path) -> PathBuf {
    let mut path = OsString::from(file);
    path.push(".sig");
    path.into()
}

/// Reads a whole bundle, so that what is verified is what is unpacked.
pub(crate) fn read(file: &Path) -> Result<Vec<u8>, BundleError> {
    read_at_most(file, MAX_SIZE)
}

fn read_signature(file: &Path) -> Result<Option<String>, BundleError> {
    let path = signature_path(file);
    match read_at_most(&path, MAX_SIGNATURE) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| BundleError::Damaged(path)),
        Err(BundleError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The maximum length of a signature.
const MAX_SIGNATURE: u64 = 64 << 10;

fn read_at_most(file: &Path, limit: u64) -> Result<Vec<u8>, BundleError> {
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(BundleError::reading(file))?;
    opened.take(limit + 1).read_to_end(&mut bytes).map_err(BundleError::reading(file))?;
    if bytes.len() as u64 > limit {
        return Err(BundleError::TooLarge { path: file.to_owned(), limit });
    }
    Ok(bytes)
}
