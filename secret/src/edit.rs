//! `holo-secret edit`: decrypts a value for an editor, and encrypts it again for the same keys.

use crate::keys::Keys;
use crate::{Edit, SecretError, recipients, words};
use holo_process::{Event, Interrupt, Program, Status};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::{flag, low_level};
use std::ffi::OsString;
use std::fmt::{self, Display};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

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

/// Signals that request termination.
#[derive(Debug)]
struct EndingSignals {
    /// The number of the last one; 0 if there was none.
    received: Arc<AtomicUsize>,
    /// Readable from the first one on.
    readable: UnixStream,
}

impl EndingSignals {
    /// Handles signals from now on. Those that a terminal sends for its keys are meant for the editor and ignored.
    fn take() -> io::Result<EndingSignals> {
        let (readable, writable) = UnixStream::pair()?;
        let received = Arc::new(AtomicUsize::new(0));
        for signal in [SIGTERM, SIGHUP] {
            flag::register_usize(signal, Arc::clone(&received), usize::try_from(signal).unwrap_or_default())?;
            low_level::pipe::register(signal, writable.try_clone()?)?;
        }
        for signal in [SIGINT, SIGQUIT] {
            flag::register(signal, Arc::default())?;
        }
        Ok(EndingSignals { received, readable })
    }
}

impl AsFd for EndingSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }
}

impl Interrupt for EndingSignals {
    fn signal(&self) -> Option<i32> {
        i32::try_from(self.received.load(Ordering::Acquire)).ok().filter(|signal| *signal != 0)
    }
}

const PREFIX: &str = "holo-secret-";
/// Locked while the directory is in use.
const LOCK: &str = ".lock";

/// A directory that is removed when it is dropped.
///
/// If the process is killed, the next directory created at the same place removes it.
#[derive(Debug)]
struct PrivateDirectory {
    directory: TempDir,
    _lock: File,
}

impl PrivateDirectory {
    fn make() -> io::Result<PrivateDirectory> {
        let mut made = Err(io::ErrorKind::NotFound.into());
        for place in places() {
            remove_leftovers(&place);
            let mode = Permissions::from_mode(0o700);
            made = tempfile::Builder::new().prefix(PREFIX).permissions(mode).tempdir_in(&place);
            if made.is_ok() {
                break;
            }
        }
        let directory = made?;
        let lock = new_file(&directory.path().join(LOCK))?;
        lock.lock()?;
        Ok(PrivateDirectory { directory, _lock: lock })
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Creates a file that other users cannot read.
    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        new_file(path)?.write_all(content)
    }
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Returns possible locations, best first: those in memory never reach a disk.
fn places() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    // It may be that of another user, as after su.
    let is_own = |place: &PathBuf| {
        place.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == user && found.mode() & 0o077 == 0)
    };
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|own| own.is_absolute() && is_own(own));
    own.into_iter().chain(["/dev/shm".into(), std::env::temp_dir()]).filter(|place| place.is_dir()).collect()
}

/// Removes this user's directories that are no longer in use.
fn remove_leftovers(place: &Path) {
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user);
        // A directory that is just being created has no lock yet.
        let lock = File::open(entry.path().join(LOCK)).ok().filter(|_| is_ours);
        if lock.is_some_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

const BEGINNING: &str = "-----BEGIN AGE ENCRYPTED FILE-----";
const END: &str = "-----END AGE ENCRYPTED FILE-----";

/// The reason why no value can be edited, worded to follow the name of the file.
#[derive(Debug, PartialEq, Eq)]
enum SealedError {
    None,
    NotAt(usize),
    Several(Vec<usize>),
}

impl Display for SealedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str(": it contains no encrypted values; create one with holo-secret encrypt"),
            Self::NotAt(line) => write!(f, ":{line}: there is no encrypted value"),
            Self::Several(lines) => {
                let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
                write!(f, ": several values are encrypted in it; name one with --line: {}", lines.join(", "))
            }
        }
    }
}

/// A value in a text.
#[derive(Debug)]
struct Sealed<'t> {
    text: &'t str,
    range: Range<usize>,
}

impl<'t> Sealed<'t> {
    /// Finds the only value of a text, or the one on a line.
    fn find(text: &'t str, line: Option<usize>) -> Result<Sealed<'t>, SealedError> {
        let mut ranges = ranges(text);
        let line_of = |at: usize| text[..at].matches('\n').count() + 1;
        if let Some(line) = line {
            ranges.retain(|range| (line_of(range.start)..=line_of(range.end)).contains(&line));
            let range = ranges.pop().ok_or(SealedError::NotAt(line))?;
            return Ok(Sealed { text, range });
        }
        let lines: Vec<usize> = ranges.iter().map(|range| line_of(range.start)).collect();
        match (ranges.pop(), lines.len()) {
            (Some(range), 1) => Ok(Sealed { text, range }),
            (Some(_), _) => Err(SealedError::Several(lines)),
            (None, _) => Err(SealedError::None),
        }
    }

    /// Returns only the value, in lines without indentation.
    fn armored(&self) -> String {
        let found = self.text[self.range.clone()].replace("\\n", "\n");
        found.lines().map(|line| format!("{}\n", line.trim())).collect()
    }

    /// Returns the text with this value replaced, in the same form.
    fn replaced_by(&self, armored: &str) -> String {
        let found = &self.text[self.range.clone()];
        let last = found.rfind('\n').map(|at| &found[at + 1..]);
        let newline = match last {
            Some(last) => format!("\n{}", &last[..last.len() - last.trim_start().len()]),
            // In JSON, the value is on a single line.
            None => "\\n".to_owned(),
        };
        let new: Vec<&str> = armored.lines().collect();
        [&self.text[..self.range.start], &new.join(&newline), &self.text[self.range.end..]].concat()
    }
}

fn ranges(text: &str) -> Vec<Range<usize>> {
    let begin = text.match_indices(BEGINNING).map(|(at, _)| at);
    begin.filter_map(|at| Some(at..at + text[at..].find(END)? + END.len())).collect()
}

#[cfg(test)]
mod sealed_tests {
    use super::*;

    #[test]
    fn a_value_keeps_its_form() {
        let armored = |letter: &str| format!("{BEGINNING}\n{letter}\n{END}\n");
        for (text, edited) in [
            (armored("a"), armored("b")),
            (
                format!("x = \"\"\"\n{}\"\"\"\ny = 1\n", armored("a")),
                format!("x = \"\"\"\n{}\"\"\"\ny = 1\n", armored("b")),
            ),
            (
                format!("x:\n  y: |\n    {BEGINNING}\n    a\n    {END}\n"),
                format!("x:\n  y: |\n    {BEGINNING}\n    b\n    {END}\n"),
            ),
            (format!(r#"{{"x": "{BEGINNING}\na\n{END}\n"}}"#), format!(r#"{{"x": "{BEGINNING}\nb\n{END}\n"}}"#)),
        ] {
            let sealed = Sealed::find(&text, None).unwrap();
            assert_eq!((sealed.armored(), sealed.replaced_by(&armored("b"))), (armored("a"), edited));
        }
    }

    #[test]
    fn of_several_values_one_has_to_be_named() {
        let text = format!("{BEGINNING}\na\n{END}\n\n{BEGINNING}\nb\n{END}\n");
        assert_eq!(Sealed::find(&text, None).unwrap_err(), SealedError::Several(vec![1, 5]));
        for (line, value) in [(1, "\na\n"), (3, "\na\n"), (6, "\nb\n")] {
            assert!(Sealed::find(&text, Some(line)).unwrap().armored().contains(value), "{line}");
        }
        assert_eq!(Sealed::find(&text, Some(4)).unwrap_err(), SealedError::NotAt(4));
        assert_eq!(Sealed::find("x", None).unwrap_err(), SealedError::None);
        assert_eq!(Sealed::find(BEGINNING, None).unwrap_err(), SealedError::None);
    }
}
