//! Files that one process at a time may write.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

/// Opens or creates a file for reading and writing, and locks it; `None` if another process holds the lock. The lock
/// ends when the file is closed, so a killed process leaves none.
///
/// A file system without locks, such as Lustre without `flock`, gives the file without one.
pub fn open_locked(path: &Path) -> io::Result<Option<File>> {
    loop {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Ok(None);
        }
        // Between the opening and the lock, the holder may have renamed, replaced or removed the file.
        if is_at(&file, path)? {
            return Ok(Some(file));
        }
    }
}

/// Whether the open file is the one that has this path now.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let open = file.metadata()?;
    match std::fs::metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}
