//! Hints for people: remedies for errors whose text, which is version 3's, does not contain one.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The number of bytes that are read from a program to find its interpreter.
const FIRST_LINE: u64 = 256;

/// Returns the remedy for a program that could not be started, given a message such as `execution of X failed:
/// fork/exec X: permission denied`.
pub(super) fn for_error(text: &str) -> Option<String> {
    let (program, reason) = text.split_once("fork/exec ")?.1.rsplit_once(": ")?;
    let path = Path::new(program);
    let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    match reason {
        "permission denied" if metadata.permissions().mode() & 0o111 == 0 => {
            Some(format!("to make it executable: chmod +x {program}"))
        }
        "no such file or directory" => missing_interpreter(path),
        _ => None,
    }
}

fn missing_interpreter(program: &Path) -> Option<String> {
    let mut start = Vec::new();
    File::open(program).ok()?.take(FIRST_LINE).read_to_end(&mut start).ok()?;
    let line = String::from_utf8_lossy(start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?).into_owned();
    let program = program.display();
    if line.ends_with('\r') {
        return Some(format!("the lines of {program} have Windows line endings: remove the carriage returns"));
    }
    let interpreter = line.split_whitespace().next()?;
    (!Path::new(interpreter).exists()).then(|| format!("{program} requires {interpreter}, which does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unstartable_programs_have_remedies() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let (plain, lost, windows) =
            (make("plain", "x"), make("lost", "#!/no/such/sh -e\n"), make("windows", "#!/bin/sh\r\n"));
        let hint = |program: &str, reason: &str| for_error(&format!("it failed: fork/exec {program}: {reason}"));
        assert_eq!(hint(&plain, "permission denied"), Some(format!("to make it executable: chmod +x {plain}")));
        let missing = "no such file or directory";
        let expected = format!("{lost} requires /no/such/sh, which does not exist");
        assert_eq!(hint(&lost, missing), Some(expected));
        assert!(hint(&windows, missing).unwrap().contains("carriage returns"));
        assert_eq!(hint(&plain, missing), None);
        assert_eq!(hint("/no/such/program", missing), None);
        assert_eq!(hint("/bin/sh", "permission denied"), None);
        assert_eq!(for_error("exit status 1"), None);
    }
}
