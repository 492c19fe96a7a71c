//! Random faults of a run: faults of its start, its analysis and its acknowledgements.

use serde::Serialize;

use dryrack_rng::Stream;
use dryrack_units::{Permille, SimDuration};

/// The probabilities of faults for each run of a job. All are zero by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RandomFaults {
    pub starts: Starts,
    pub analyses: Analyses,
    pub acks: Acks,
}

/// Probabilities for the start of each attempt. A start either fails or is slow, so the two add up to at most 100 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Starts {
    pub fail: Permille,
    pub slow: Permille,
    /// The additional time of a slow start.
    pub slow_by: SimDuration,
}

/// Probabilities for each analysis. They add up to at most 100 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Analyses {
    pub fail: Permille,
    /// The probability that the analysis never answers.
    pub hang: Permille,
    pub slow: Permille,
    pub slow_by: SimDuration,
}

/// Probabilities for each acknowledgement. They add up to at most 100 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Acks {
    pub lost: Permille,
    pub late: Permille,
    /// The probability that the acknowledgement arrives on time and then once more.
    pub repeated: Permille,
    /// The additional delay of a late or repeated acknowledgement.
    pub late_by: SimDuration,
}

/// The result of a draw of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Well,
    Fails,
    /// An analysis hangs, or an acknowledgement is lost.
    Never,
    SlowBy(SimDuration),
    /// An acknowledgement arrives on time, and once more after this time.
    AgainAfter(SimDuration),
}

impl Starts {
    pub fn draw(&self, stream: &mut Stream) -> Fate {
        draw(stream, [(self.fail, Fate::Fails), (self.slow, Fate::SlowBy(self.slow_by))])
    }
}

impl Analyses {
    pub fn draw(&self, stream: &mut Stream) -> Fate {
        let rows = [(self.fail, Fate::Fails), (self.hang, Fate::Never), (self.slow, Fate::SlowBy(self.slow_by))];
        draw(stream, rows)
    }
}

impl Acks {
    pub fn draw(&self, stream: &mut Stream) -> Fate {
        let (late, again) = (Fate::SlowBy(self.late_by), Fate::AgainAfter(self.late_by));
        draw(stream, [(self.lost, Fate::Never), (self.late, late), (self.repeated, again)])
    }
}

/// Draws one of several faults. It takes only one draw, so that enabling one fault changes the others as little as
/// possible.
fn draw<const N: usize>(stream: &mut Stream, rows: [(Permille, Fate); N]) -> Fate {
    let drawn = stream.between(0, 999);
    let mut below = 0;
    for (chance, fate) in rows {
        below += u64::from(chance.get());
        if drawn < below {
            return fate;
        }
    }
    Fate::Well
}
