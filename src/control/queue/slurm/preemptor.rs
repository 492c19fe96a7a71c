//! What decides which running jobs a waiting job may preempt.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preemptor {
    /// The partition in which it is tried, by its number.
    Partition(usize),
    /// Its QOS, by its number.
    Qos(usize),
}
