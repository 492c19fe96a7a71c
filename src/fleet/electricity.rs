//! The price of electricity and the carbon that its generation emits.

use serde::Serialize;

use dryrack_units::{Money, Permille, SimTime};

/// What a kilowatt-hour costs and emits. It applies to all nodes of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Electricity {
    pub price_per_kwh: Option<Money>,
    /// Power usage effectiveness: the energy of the whole site divided by that of its nodes.
    pub pue: Permille,
    /// The emissions in milligrams per kWh in each hour from the start of the run. After the last hour, the first one
    /// follows again. Empty if they are not known.
    pub carbon: Vec<u64>,
}

impl Electricity {
    /// Calls `tell` with the parts of a time in which the emissions are constant: from, to, and milligrams per kWh.
    pub fn pieces(&self, from: SimTime, to: SimTime, mut tell: impl FnMut(SimTime, SimTime, u64)) {
        match self.carbon.as_slice() {
            [] => {}
            [constant] if from < to => tell(from, to, *constant),
            [_] => {}
            curve => {
                let mut at = from;
                while at < to {
                    let hour = at.as_nanos() / NANOS_PER_HOUR;
                    let end = SimTime::from_nanos((hour + 1).saturating_mul(NANOS_PER_HOUR)).min(to);
                    tell(at, end, curve[(hour % curve.len() as u64) as usize]);
                    at = end;
                }
            }
        }
    }

    /// The emissions per kWh, summed over the nanoseconds of a time.
    pub fn emitted(&self, from: SimTime, to: SimTime) -> u128 {
        let mut sum = 0;
        self.pieces(from, to, |from, to, milligrams| {
            sum += u128::from(to.since(from).as_nanos()) * u128::from(milligrams);
        });
        sum
    }
}

const NANOS_PER_HOUR: u64 = 3_600_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_repeats_after_its_last_hour() {
        let curve =
            |carbon: &[u64]| Electricity { price_per_kwh: None, pue: Permille::new(1000), carbon: carbon.into() };
        let at = |minutes: u64| SimTime::from_secs(60 * minutes);
        let hour = u128::from(NANOS_PER_HOUR);
        // From 0:30 to 2:30 over the hours 100, 300, 100: half an hour, an hour, half an hour.
        assert_eq!(curve(&[100, 300]).emitted(at(30), at(150)), hour * (50 + 300 + 50));
        assert_eq!(curve(&[200]).emitted(at(30), at(150)), hour * 400);
        assert_eq!(curve(&[200]).emitted(at(30), at(30)), 0);
        assert_eq!(curve(&[]).emitted(at(30), at(150)), 0);
    }

    #[test]
    fn no_time_has_no_pieces_and_a_piece_ends_with_its_hour() {
        let pieces = |carbon: &[u64], from: u64, to: u64| {
            let of = Electricity { price_per_kwh: None, pue: Permille::new(1000), carbon: carbon.into() };
            let mut pieces = Vec::new();
            let minutes = |time: SimTime| time.as_nanos() / 60_000_000_000;
            of.pieces(SimTime::from_secs(60 * from), SimTime::from_secs(60 * to), |from, to, milligrams| {
                pieces.push((minutes(from), minutes(to), milligrams));
            });
            pieces
        };
        assert_eq!(pieces(&[200], 30, 150), [(30, 150, 200)]);
        assert_eq!(pieces(&[100, 300], 30, 150), [(30, 60, 100), (60, 120, 300), (120, 150, 100)]);
        assert_eq!(pieces(&[100, 300], 60, 120), [(60, 120, 300)]);
        for carbon in [[].as_slice(), &[200], &[100, 300]] {
            assert_eq!(pieces(carbon, 30, 30), []);
        }
    }
}
