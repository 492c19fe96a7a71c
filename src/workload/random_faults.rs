//! What may go wrong with a run by chance: its start, its analysis, and what is heard of it.

use dryrack_rng::Stream;
use dryrack_units::{Permille, SimDuration};

/// Chances for each run of a job; nothing goes wrong by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RandomFaults {
    pub starts: Starts,
    pub analyses: Analyses,
    pub acks: Acks,
}

/// Of each attempt. What fails is not slow, so the chances add up to at most the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Starts {
    pub fail: Permille,
    pub slow: Permille,
    /// How much longer a slow one takes.
    pub slow_by: SimDuration,
}

/// Of each analysis; the chances add up to at most the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Analyses {
    pub fail: Permille,
    /// It never answers.
    pub hang: Permille,
    pub slow: Permille,
    pub slow_by: SimDuration,
}

/// Of each acknowledgement; the chances add up to at most the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acks {
    pub lost: Permille,
    pub late: Permille,
    /// It comes in time and once more.
    pub repeated: Permille,
    /// How much later the late ones come, and the repetitions.
    pub late_by: SimDuration,
}

/// What was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Well,
    Fails,
    /// Of an analysis: it hangs. Of an acknowledgement: it is lost.
    Never,
    SlowBy(SimDuration),
    /// As it should, and again so much later.
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

/// One draw decides, so that switching one chance on leaves the others as they were as far as it can.
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
