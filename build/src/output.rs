//! Writing a package file.

use crate::format::Format;
use crate::package::Package;
use crate::sign::{SignError, sign};
use crate::{debian, pacman, rpm};
use holo_process::streams;
use holo_process::words::reason;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// The package cannot be built or written.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file cannot be written.
    #[error("write {}: {}", path.display(), reason(source))]
    Io {
        /// The package file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The package file exists already.
    #[error("{} exists already; --force overwrites it", .0.display())]
    Exists(PathBuf),
    /// The package cannot be signed.
    #[error("sign the package: {0}")]
    Sign(String),
    /// The format has no signatures in package files.
    #[error("packages for Debian are not signed; sign the index of their repository instead")]
    Unsigned,
    /// The signature is a second file.
    #[error("the signature of a package for pacman is a second file; name the first one with --output")]
    NoFileToSign,
}

/// The destination of a package.
#[derive(Debug)]
pub(crate) enum Destination {
    Stdout,
    File(PathBuf),
}

impl Destination {
    /// Returns the destination for the value of `--output`.
    pub(crate) fn new(output: Option<&Path>, package: &Package) -> Destination {
        match output {
            Some(path) if path == Path::new("-") => Destination::Stdout,
            Some(path) if path.is_dir() => Destination::File(path.join(package.file_name())),
            Some(path) => Destination::File(path.to_owned()),
            None => Destination::File(package.file_name().into()),
        }
    }
}

impl Package {
    /// Returns the recommended name of the package file.
    #[must_use]
    pub fn file_name(&self) -> String {
        self.format.file_name(&self.name, &self.version, self.architecture)
    }

    /// Writes the package. The same description always gives the same bytes, unless it is signed with a key of gpg.
    ///
    /// # Errors
    /// If it cannot be written or signed. Only packages for RPM contain a signature.
    pub fn write(&self, sign_key: Option<&OsStr>, to: &mut dyn Write) -> Result<(), BuildError> {
        let failed = |source| BuildError::Io { path: self.file_name().into(), source };
        match self.format {
            Format::Debian => debian::write(self, to).map_err(failed),
            Format::Pacman => pacman::write(self, to).map_err(failed),
            Format::Rpm => {
                let signer = sign_key.map(|key| move |text: &[u8]| sign(key, text));
                let signer = signer.as_ref().map(|sign| sign as rpm::Sign<'_>);
                rpm::write(self, signer, to).map_err(|error| match error {
                    rpm::RpmError::Io(source) => failed(source),
                    rpm::RpmError::Sign(error) => unsigned(&error),
                })
            }
        }
    }

    /// Writes the package to its destination, which has no incomplete file at any time.
    pub(crate) fn save(
        &self,
        destination: &Destination,
        is_forced: bool,
        sign_key: Option<&OsStr>,
    ) -> Result<(), BuildError> {
        match (self.format, sign_key, destination) {
            (Format::Debian, Some(_), _) => return Err(BuildError::Unsigned),
            (Format::Pacman, Some(_), Destination::Stdout) => return Err(BuildError::NoFileToSign),
            _ => {}
        }
        match destination {
            Destination::Stdout => {
                let failed = |source| BuildError::Io { path: "standard output".into(), source };
                let mut file = tempfile::tempfile().map_err(failed)?;
                self.write(sign_key, &mut BufWriter::new(&mut file))?;
                let mut stdout = streams::stdout();
                file.rewind().and_then(|()| io::copy(&mut file, &mut stdout)).map_err(failed)?;
                stdout.flush().map_err(failed)
            }
            Destination::File(path) => self.save_file(path, is_forced, sign_key),
        }
    }

    fn save_file(&self, path: &Path, is_forced: bool, sign_key: Option<&OsStr>) -> Result<(), BuildError> {
        // Both are checked before anything is built, although another process could still be faster.
        let signature = sign_key.filter(|_| self.format == Format::Pacman).map(|key| (key, signature_path(path)));
        for path in [Some(path), signature.as_ref().map(|(_, path)| path.as_path())].into_iter().flatten() {
            if !is_forced && path.symlink_metadata().is_ok() {
                return Err(BuildError::Exists(path.to_owned()));
            }
        }
        if signature.is_some() && path.metadata().is_ok_and(|existing| !existing.is_file()) {
            return Err(BuildError::NoFileToSign);
        }
        let write = |path: &Path, write: &mut dyn FnMut(&mut File) -> Result<(), BuildError>| {
            let failed = |source| BuildError::Io { path: path.to_owned(), source };
            // A FIFO, a device or the target of a symlink is not replaced.
            if path.symlink_metadata().is_ok_and(|existing| !existing.is_file()) {
                return write(&mut File::create(path).map_err(failed)?);
            }
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            // As for any file that a program creates, the umask applies.
            let mode = Permissions::from_mode(0o666);
            let mut file = tempfile::Builder::new().permissions(mode).tempfile_in(directory).map_err(failed)?;
            write(file.as_file_mut())?;
            persist(file, path, is_forced)
        };
        write(path, &mut |file| {
            let mut writer = BufWriter::new(file);
            self.write(sign_key.filter(|_| signature.is_none()), &mut writer)?;
            writer.flush().map_err(|source| BuildError::Io { path: path.to_owned(), source })
        })?;
        if let Some((key, signature)) = signature {
            let failed = |path: &Path| {
                let path = path.to_owned();
                |source| BuildError::Io { path, source }
            };
            let package = std::fs::read(path).map_err(failed(path))?;
            let packet = sign(key, &package).map_err(|error| unsigned(&error))?;
            write(&signature, &mut |file| file.write_all(&packet).map_err(failed(&signature)))?;
        }
        Ok(())
    }
}

fn persist(file: NamedTempFile, path: &Path, is_forced: bool) -> Result<(), BuildError> {
    let persisted = if is_forced { file.persist(path) } else { file.persist_noclobber(path) };
    persisted.map(drop).map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => BuildError::Exists(path.to_owned()),
        _ => BuildError::Io { path: path.to_owned(), source: error.error },
    })
}

fn unsigned(error: &SignError) -> BuildError {
    BuildError::Sign(error.to_string())
}

fn signature_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".sig");
    name.into()
}
