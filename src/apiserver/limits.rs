//! What a client may use up.

use std::time::Duration;

/// The limits of one server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the body of a request. Kubernetes has the same limit.
    pub body: usize,
    /// Open connections. Each watch needs one.
    pub connections: usize,
    /// How long a client may take to send the head of a request.
    pub head: Duration,
    /// How long a client may take to send the body of a request.
    pub request: Duration,
    /// How long a client may leave an event of a watch unread. Then the watch ends; a new one continues at its version.
    pub unread: Duration,
    /// Versions of each kind of object that a watch can still start from.
    pub versions: usize,
    /// Objects of each kind that clients may create. Of events, the newest remain.
    pub created: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body: 3 << 20,
            connections: 15_000,
            head: Duration::from_secs(10),
            request: Duration::from_secs(10),
            unread: Duration::from_secs(30),
            versions: 100_000,
            created: 10_000,
        }
    }
}
