//! `holo-secret edit`: decrypts a value for an editor, and encrypts it again for the same keys.

mod ending;
mod private;
mod sealed;

use crate::cli::Edit;
use crate::keys::Keys;
use crate::{SecretError, recipients, words};
use ending::EndingSignals;
use holo_process::{Event, Interrupt, Program, Status};
use private::PrivateDirectory;
use sealed::Sealed;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

/// The default editor.
const EDITOR: &str = "vi";

/// Edits a value. The file is only written if the value has changed.
///
/// # Errors
/// If the value cannot be decrypted or encrypted, or the editor fails. The file is then unchanged.
pub(crate) fn edit(arguments: &Edit, root: &Path) -> Result<(), SecretError> {
    let shown = arguments.file.display().to_string();
    // A symlink is kept.
    let path = fs::canonicalize(&arguments.file).map_err(|error| words(&shown, &error))?;
    let text = fs::read_to_string(&path).map_err(|error| words(&shown, &error))?;
    let sealed = Sealed::find(&text, arguments.line).map_err(|problem| SecretError(format!("{shown}{problem}")))?;
    let content = Keys::read(root).decrypt(sealed.armored().as_bytes())?;
    let recipients = recipients::all(&arguments.recipients, root)?;
    // Fail before the user edits the value rather than afterwards.
    if recipients::stanzas(&recipients::encrypt(&recipients, b"")?)? != recipients::stanzas(&sealed.armored())? {
        let remedy = "name all of them with --recipient or --recipients-file";
        return Err(SecretError(format!(
            "{shown}: it is encrypted for other keys than those that are known; {remedy}"
        )));
    }
    let signals = EndingSignals::take().map_err(|error| words("signals", &error))?;
    let edited = edited(&path, &content, &signals);
    // The plaintext has been removed by now.
    if let Some(signal) = signals.signal() {
        holo_process::end_by(signal);
    }
    let edited = edited?;
    if edited == content {
        return Ok(());
    }
    let encrypted = sealed.replaced_by(&recipients::encrypt(&recipients, &edited)?);
    if fs::read_to_string(&path).map_err(|error| words(&shown, &error))? != text {
        return Err(SecretError(format!("{shown}: the file was changed in the meantime; edit it again")));
    }
    replace(&path, &encrypted).map_err(|error| words(&shown, &error))
}

/// Returns a content after editing.
fn edited(path: &Path, content: &[u8], signals: &EndingSignals) -> Result<Vec<u8>, SecretError> {
    let directory = PrivateDirectory::make().map_err(|error| words("a private directory", &error))?;
    let name = path.file_stem().filter(|_| path.extension().is_some_and(|kind| kind == "age")).or(path.file_name());
    let copy = directory.path().join(name.unwrap_or_default());
    let failed = |error: io::Error| words(&copy.display().to_string(), &error);
    directory.write(&copy, content).map_err(failed)?;
    run_editor(&copy, signals)?;
    let mut edited = fs::read(&copy).map_err(failed)?;
    // Editors add a final newline.
    if edited.ends_with(b"\n") && !content.ends_with(b"\n") {
        edited.pop();
    }
    Ok(edited)
}

fn run_editor(copy: &Path, signals: &EndingSignals) -> Result<(), SecretError> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let editor = variable("VISUAL").or_else(|| variable("EDITOR")).unwrap_or_else(|| EDITOR.into());
    // The variable may contain arguments, quoted as in a shell.
    let first = editor.as_encoded_bytes().split(u8::is_ascii_whitespace).next().unwrap_or_default();
    // With `exec`, a signal ends the editor rather than a shell that waits for it. The shell handles preceding
    // variables.
    let mut line = OsString::from(if first.contains(&b'=') { "" } else { "exec " });
    line.push(&editor);
    line.push(" \"$@\"");
    let mut program = Program::new("sh");
    program.args([OsString::from("-c"), line, editor.clone(), copy.into()]).in_our_group();
    let own = |stream: &dyn AsFd| stream.as_fd().try_clone_to_owned().map(File::from);
    let streams = || Ok::<_, io::Error>((own(&io::stdin())?, own(&io::stdout())?, own(&io::stderr())?));
    let (stdin, stdout, stderr) = streams().map_err(|error| words("the terminal", &error))?;
    program.stdin_file(stdin).stdout_file(stdout).stderr_file(stderr);
    let mut process = program.start().map_err(|error| SecretError(error.to_string()))?;
    let mut end: Option<Status> = None;
    while end.is_none() {
        let waited = process.wait(Some(signals), &mut |event| match event {
            Event::Ended(exit) => end = Some(exit.status),
            Event::Stopped(status) => end = Some(status),
            Event::Chunk(..) | Event::Waiting => {}
        });
        waited.map_err(|error| words("the editor", &error))?;
    }
    end.and_then(Status::failure).map_or(Ok(()), |failure| {
        Err(SecretError(format!("{} failed: {failure}; nothing has been changed", editor.display())))
    })
}

/// Replaces a file atomically, keeping its mode and owner.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let found = fs::metadata(path)?;
    let parent: PathBuf = path.parent().map(Path::to_owned).unwrap_or_default();
    let mut new = tempfile::Builder::new().prefix(".holo-secret-").tempfile_in(&parent)?;
    new.write_all(text.as_bytes())?;
    let made = new.as_file().metadata()?;
    if (made.uid(), made.gid()) != (found.uid(), found.gid()) {
        fchown(new.as_file(), Some(found.uid()), Some(found.gid()))?;
    }
    new.as_file().set_permissions(found.permissions())?;
    new.as_file().sync_all()?;
    new.persist(path).map_err(|error| error.error)?;
    File::open(parent)?.sync_all()
}
