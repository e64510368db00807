//! Copying large files efficiently: by sharing blocks if the file system supports it, and with holes preserved.

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Seek};

/// Copies a complete file to a new one. If possible, both share their blocks; otherwise the kernel copies the data, and
/// holes are preserved.
///
/// # Errors
/// If a file cannot be read or written.
pub(crate) fn copy_whole(from: &mut File, to: &mut File) -> io::Result<()> {
    if rustix::fs::ioctl_ficlone(&*to, &*from).is_ok() {
        return Ok(());
    }
    let mut position = 0;
    loop {
        let start = match rustix::fs::seek(&*from, SeekFrom::Data(position)) {
            Ok(start) => start,
            // Only a hole is left, or the end of the file.
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::NOTSUP) => {
                from.seek(io::SeekFrom::Start(position))?;
                to.seek(io::SeekFrom::Start(position))?;
                return io::copy(from, to).map(drop);
            }
            Err(errno) => return Err(errno.into()),
        };
        let end = rustix::fs::seek(&*from, SeekFrom::Hole(start))?;
        from.seek(io::SeekFrom::Start(start))?;
        to.seek(io::SeekFrom::Start(start))?;
        let copied = io::copy(&mut (&*from).take(end - start), to)?;
        if copied < end - start {
            // The file was truncated in the meantime.
            break;
        }
        position = end;
    }
    let length = from.seek(io::SeekFrom::End(0))?;
    to.set_len(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn holes_stay_holes() {
        const HOLE: u64 = 32 << 20;
        for (name, data) in [
            ("first", vec![0]),
            ("last", vec![HOLE]),
            ("both", vec![0, HOLE]),
            ("between", vec![HOLE / 2]),
            ("none", vec![]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let (from, to) = (folder.path().join("from"), folder.path().join("to"));
            let mut file = File::options().create_new(true).read(true).write(true).open(&from).unwrap();
            for position in data {
                file.seek(io::SeekFrom::Start(position)).unwrap();
                file.write_all(name.repeat(1000).as_bytes()).unwrap();
            }
            if file.metadata().unwrap().len() < HOLE {
                file.set_len(HOLE).unwrap();
            }
            copy_whole(&mut file, &mut File::create_new(&to).unwrap()).unwrap();
            assert!(std::fs::read(&from).unwrap() == std::fs::read(&to).unwrap(), "{name}");
            let blocks = |path| std::fs::metadata(path).unwrap().blocks();
            assert!(blocks(&to) <= blocks(&from) + 64, "{name}: {} blocks of {}", blocks(&to), blocks(&from));
        }
    }
}
