//! Random faults of a run: in its start, its analysis, and its acknowledgements.

use dryrack_rng::Stream;
use dryrack_units::{Permille, SimDuration};

/// Probabilities for each run of a job; nothing goes wrong by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RandomFaults {
    pub starts: Starts,
    pub analyses: Analyses,
    pub acks: Acks,
}

/// Probabilities for each attempt. A start that fails is not slow, so the probabilities add up to at most 100 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Starts {
    pub fail: Permille,
    pub slow: Permille,
    /// How much longer a slow one takes.
    pub slow_by: SimDuration,
}

/// Probabilities for each analysis; they add up to at most 100 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Analyses {
    pub fail: Permille,
    /// It never answers.
    pub hang: Permille,
    pub slow: Permille,
    pub slow_by: SimDuration,
}

/// Probabilities for each acknowledgement; they add up to at most 100 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acks {
    pub lost: Permille,
    pub late: Permille,
    /// It arrives on time and then once more.
    pub repeated: Permille,
    /// How much later the late ones and the repetitions arrive.
    pub late_by: SimDuration,
}

/// The result of a draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Well,
    Fails,
    /// For an analysis: it hangs. For an acknowledgement: it is lost.
    Never,
    SlowBy(SimDuration),
    /// On time, and again this much later.
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

/// A single draw decides, so that enabling one fault disturbs the others as little as possible.
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
