//! Files that are written completely or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::exit::Failure;
use dryrack_plan::open_locked;

/// A file that is written under a temporary name beside its destination, and renamed once it is complete. A device or a
/// pipe is written in place, because a rename would replace it.
///
/// The partial file is locked until it is renamed or removed. So a second process that writes the same file is refused.
/// The lock of a killed process ends with the process.
pub struct WholeFile {
    /// The path as the user typed it.
    path: PathBuf,
    /// The partial file and its destination, with links followed; `None` if the destination is written in place, or if
    /// the partial file was renamed.
    replaced: Option<(PathBuf, PathBuf)>,
    /// Holds the lock, so it must stay open as long as the partial file exists.
    out: BufWriter<File>,
}

/// The folders that a command made for its files. Those that are still empty are removed, so that a command that fails
/// leaves none behind.
pub struct NewFolders(Vec<PathBuf>);

impl NewFolders {
    /// Makes a folder, and those in which it lies.
    pub fn make(folder: &Path) -> Result<NewFolders, Failure> {
        let is_named = |path: &&Path| !path.as_os_str().is_empty();
        let missing = folder.ancestors().filter(is_named).take_while(|path| !path.exists());
        let made = NewFolders(missing.map(Path::to_path_buf).collect());
        std::fs::create_dir_all(folder).map_err(|error| Failure::uncreated(folder, &error))?;
        Ok(made)
    }
}

impl Drop for NewFolders {
    fn drop(&mut self) {
        // The innermost is first. A folder with files in it stays.
        for folder in &self.0 {
            let _kept = std::fs::remove_dir(folder);
        }
    }
}

impl WholeFile {
    /// Fails if the file cannot be written. Commands call this before they run anything, to fail early.
    pub fn create(path: &Path) -> Result<WholeFile, Failure> {
        let name = path.file_name().ok_or_else(|| Failure::file(path, "is not the name of a file"))?;
        let link = std::fs::read_link(path).ok();
        let place = match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(Failure::file(path, "is a folder; name a file in it")),
            Ok(found) if !found.is_file() => None,
            Ok(_) if link.is_some() && is_opened(path) => None,
            Ok(_) if link.is_some() => Some(std::fs::canonicalize(path).map_err(|error| unwritten(path, &error))?),
            Ok(_) | Err(_) => Some(path.to_path_buf()),
        };
        let name = place.as_ref().and_then(|place| place.file_name()).unwrap_or(name);
        let beside = place.as_ref().map(|place| place.with_file_name(format!(".{}.partial", name.to_string_lossy())));
        let file = match &beside {
            Some(beside) => locked(beside, path)?,
            None => OpenOptions::new().append(true).open(path).map_err(|error| unwritten(path, &error))?,
        };
        Ok(WholeFile { path: path.to_path_buf(), replaced: beside.zip(place), out: BufWriter::new(file) })
    }

    pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
        let mut file = WholeFile::create(path)?;
        let written = Write::write_all(&mut file, bytes);
        file.keep(written)
    }

    /// Writes several files, and puts them in place in this order once all of them are complete.
    pub fn write_all(files: impl IntoIterator<Item = (PathBuf, Vec<u8>)>) -> Result<(), Failure> {
        WholeFile::write_all_with(Vec::new(), files)
    }

    /// Does so, with files that are written already.
    pub fn write_all_with(
        mut kept: Vec<(WholeFile, io::Result<()>)>,
        files: impl IntoIterator<Item = (PathBuf, Vec<u8>)>,
    ) -> Result<(), Failure> {
        for (path, bytes) in files {
            let mut file = WholeFile::create(&path)?;
            let written = Write::write_all(&mut file, &bytes);
            kept.push((file, written));
        }
        WholeFile::keep_all(kept)
    }

    /// Renames the file to its destination, unless writing it failed.
    pub fn keep(mut self, written: io::Result<()>) -> Result<(), Failure> {
        self.finish(written)?;
        self.settle()
    }

    /// Renames several files to their destinations once all of them are complete. So files of two runs never mix.
    pub fn keep_all(mut files: Vec<(WholeFile, io::Result<()>)>) -> Result<(), Failure> {
        for (file, written) in &mut files {
            file.finish(std::mem::replace(written, Ok(())))?;
        }
        files.into_iter().try_for_each(|(file, _)| file.settle())
    }

    /// Leaves the partial file, for a run that cannot be repeated. Returns its path, or that of what is written in place.
    pub fn leave(mut self) -> PathBuf {
        self.replaced.take().map_or_else(|| self.path.clone(), |(beside, _)| beside)
    }

    fn finish(&mut self, written: io::Result<()>) -> Result<(), Failure> {
        let finished = written.and_then(|()| self.out.flush()).and_then(|()| {
            // Otherwise the file could be empty after a power failure, because a rename may reach the disk before the
            // content does. Some file systems also report a full disk only here.
            if self.replaced.is_some() { self.out.get_ref().sync_all() } else { Ok(()) }
        });
        finished.map_err(|error| Failure::from(WriteError::at(&self.path, error)))
    }

    fn settle(mut self) -> Result<(), Failure> {
        if let Some((beside, place)) = &self.replaced {
            std::fs::rename(beside, place).map_err(|error| unwritten(&self.path, &error))?;
            // From now on, a file with the name of the partial file belongs to another process.
            self.replaced = None;
        }
        Ok(())
    }
}

/// Opens the partial file of `path`, locked and empty.
fn locked(beside: &Path, path: &Path) -> Result<File, Failure> {
    let opened = open_locked(beside).map_err(|error| unwritten(path, &error))?;
    let file = opened.ok_or_else(|| Failure::file(path, "is being written by another dryrack; name another file"))?;
    // A killed process may have left a partial file. Clear it.
    file.set_len(0).map_err(|error| unwritten(path, &error))?;
    Ok(file)
}

fn unwritten(path: &Path, error: &io::Error) -> Failure {
    Failure::file(path, format!("cannot be written: {error}"))
}

/// A write error with the path of the file. It is stored inside an `io::Error`. So code that writes through layers
/// (compression, CSV) need not know the file below them.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot be written: {source}", path.display())]
pub struct WriteError {
    path: PathBuf,
    source: io::Error,
}

impl WriteError {
    fn at(path: &Path, error: io::Error) -> io::Error {
        match error.get_ref().is_some_and(|inner| inner.is::<WriteError>()) {
            true => error,
            false => io::Error::new(error.kind(), WriteError { path: path.to_path_buf(), source: error }),
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).map_err(|error| WriteError::at(&self.path, error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|error| WriteError::at(&self.path, error))
    }
}

impl Drop for WholeFile {
    /// Removes the partial file if the file was not completed.
    fn drop(&mut self) {
        if let Some((beside, _)) = &self.replaced {
            let _gone = std::fs::remove_file(beside);
        }
    }
}

/// Whether this is `/dev/stdout` or a similar link, which leads to a file that some process has open.
fn is_opened(link: &Path) -> bool {
    ["/dev", "/proc"].iter().any(|folder| link.starts_with(folder))
}
