//! Waiting that ends early when a child process changes, or when a person or the system asks the program to end.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

use super::process::lost_keeper;
use dryrack_units::SimDuration;

/// The longest single wait. A lost notification therefore delays the program by no more than this.
const LONGEST_WAIT: SimDuration = SimDuration::from_millis(500);

pub struct Signals {
    children: UnixStream,
    ends: UnixStream,
    registered: Vec<signal_hook::SigId>,
}

/// The notifications since the last wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notifications {
    pub child: bool,
    /// The number of SIGINT, SIGTERM and SIGHUP signals.
    pub ends: usize,
}

impl Signals {
    pub fn new() -> io::Result<Signals> {
        let (children, to_children) = UnixStream::pair()?;
        let (ends, to_ends) = UnixStream::pair()?;
        for stream in [&children, &to_children, &ends, &to_ends] {
            stream.set_nonblocking(true)?;
        }
        let mut registered = vec![pipe::register(SIGCHLD, to_children)?];
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            registered.push(pipe::register(signal, to_ends.try_clone()?)?);
        }
        if lost_keeper() {
            (&to_ends).write_all(&[1])?;
        }
        Ok(Signals { children, ends, registered })
    }

    /// Waits for at most this long, or until a notification.
    pub fn wait(&mut self, length: SimDuration) -> io::Result<Notifications> {
        let nanos = length.min(LONGEST_WAIT).as_nanos();
        let timeout = Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
        let mut fds = [PollFd::new(&self.children, PollFlags::IN), PollFd::new(&self.ends, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Notifications { child: taken(&mut self.children)? > 0, ends: taken(&mut self.ends)? })
    }
}

/// Reads all available bytes, and returns their number.
fn taken(stream: &mut UnixStream) -> io::Result<usize> {
    let (mut bytes, mut count) = ([0; 64], 0);
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(count),
            Ok(read) => count += read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.registered.drain(..) {
            unregister(id);
        }
    }
}
