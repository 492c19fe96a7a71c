//! The server under clients of all kinds.

mod client;
mod crowd;
mod hostile;
