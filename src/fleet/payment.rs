//! How a node is paid for.

use serde::{Deserialize, Serialize};

use dryrack_units::{Money, SimDuration};

/// How a node is paid for if its price is due whether or not the node is there. A node without this is paid for while
/// it exists (on demand and spot).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Payment {
    /// The owner committed to pay for this term. The electricity is part of the price.
    Commitment { term: SimDuration },
    /// The node was bought, and its price is spread evenly over this time. Its electricity costs extra.
    Purchase { over: SimDuration },
}

impl Payment {
    /// The part of an amount that falls on each hour if it is spread evenly over a time, to the nearest millionth.
    /// `None` if the time is zero or the part is too large.
    pub fn each_hour(amount: Money, over: SimDuration) -> Option<Money> {
        let (amount, over) = (u128::from(amount.get()) * NANOS_PER_HOUR, u128::from(over.as_nanos()));
        let part = (amount + over / 2).checked_div(over)?;
        u64::try_from(part).ok().map(Money::new)
    }

    pub fn is_purchase(self) -> bool {
        matches!(self, Payment::Purchase { .. })
    }
}

const NANOS_PER_HOUR: u128 = 3_600_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_spread_over_its_hours() {
        let years = |years: u64| SimDuration::from_secs(years * 365 * 86_400);
        // 175,200 over 4 years of 8,760 hours are 5 an hour; 1 over 3 hours is 0.333333.
        assert_eq!(Payment::each_hour(Money::new(175_200_000_000), years(4)), Some(Money::new(5_000_000)));
        assert_eq!(
            Payment::each_hour(Money::new(1_000_000), SimDuration::from_secs(10_800)),
            Some(Money::new(333_333))
        );
        assert_eq!(Payment::each_hour(Money::new(1), SimDuration::ZERO), None);
    }
}
