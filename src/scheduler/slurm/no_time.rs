//! Whether a duration is left out of a file.

use dryrack_units::SimDuration;

pub(super) fn is_no_time(duration: &SimDuration) -> bool {
    duration.is_zero()
}
