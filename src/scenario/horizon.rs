//! `horizon: {months: 24, growth: 5%/month, from: 2026-11}` of a plan: how long each alternative stays enough.

use super::growth::Growth;
use dryrack_units::UnitError;
use dryrack_yaml::{Fields, Report, Span, Tree, Value};

/// The months for which the load of a plan grows.
#[derive(Clone, Debug, PartialEq)]
pub struct Horizon {
    /// The number of months after the first one, which has the load of the scenario.
    pub months: u32,
    growth: Growth,
    /// The growth as the user typed it.
    pub typed: String,
    /// The year and the month, from 1, of the first month.
    from: Option<(u32, u32)>,
    pub place: Span,
}

const MAX_MONTHS: u32 = 120;

/// A month of a calendar: `2026-11`.
struct Month(u32, u32);

impl Value for Month {
    const EXPECTED: &'static str = "a month such as 2026-11";
    fn parse(text: &str) -> Result<Month, UnitError> {
        let parts = text.split_once('-').filter(|(year, month)| year.len() == 4 && month.len() == 2);
        let parts = parts.and_then(|(year, month)| Some((year.parse().ok()?, month.parse().ok()?)));
        match parts {
            Some((year, month @ 1..=12)) => Ok(Month(year, month)),
            _ => Err(UnitError::Malformed { text: text.to_string(), expected: Self::EXPECTED }),
        }
    }
}

pub(super) fn read(tree: &Tree, report: &mut Report) -> Option<Horizon> {
    let fields = Fields::read(tree, "a horizon", &["months", "growth", "from"], report)?;
    let months = fields.require("months", "24", report).and_then(|_| fields.value::<u32>("months", report));
    let growth = fields.require("growth", "5%/month", report).and_then(|_| fields.value::<Growth>("growth", report));
    let from = fields.value::<Month>("from", report).map(|Month(year, month)| (year, month));
    let (months, growth) = (months?, growth?);
    if !(1..=MAX_MONTHS).contains(&months) {
        let message = format!("a horizon of {months} months");
        report.error_with_help(fields.key_span("months"), message, format!("write 1 to {MAX_MONTHS} months"));
        return None;
    }
    let typed = fields.get("growth").and_then(Tree::scalar).unwrap_or_default().to_string();
    let horizon = Horizon { months, growth, typed, from, place: tree.span };
    if horizon.factor(months) > 1000.0 {
        let help = "write fewer months, or less growth";
        report.error_with_help(tree.span, "the load grows to more than 1000 times that of the scenario", help);
        return None;
    }
    Some(horizon)
}

impl Horizon {
    /// The load of a month in proportion to that of the scenario.
    pub fn factor(&self, month: u32) -> f64 {
        self.growth.after_months(month)
    }

    /// Whether the load changes at all.
    pub fn grows(&self) -> bool {
        self.set(self.months, 1.0) != self.set(0, 1.0)
    }

    /// The load of a month, in the form of `--set`. `now` is the load that the scenario states. The result is rounded to a
    /// tenth of a percent, which is the precision of loads in files.
    pub fn set(&self, month: u32, now: f64) -> String {
        let tenths = (now * 1000.0 * self.factor(month)).round().max(1.0);
        format!("load={:.1}%", tenths / 10.0)
    }

    /// The load of a month compared with that of the first one, such as `with 9.3% more load`; `None` if they are the same.
    pub fn compared(&self, month: u32) -> Option<String> {
        let permille = ((self.factor(month) - 1.0) * 1000.0).round();
        let percent = |permille: f64| format!("{}%", permille / 10.0);
        match permille {
            0.0 => None,
            less if less < 0.0 => Some(format!("with {} less load", percent(-less))),
            more if more < 1000.0 => Some(format!("with {} more load", percent(more))),
            _ => Some(format!("with {:.1} times the load", self.factor(month))),
        }
    }

    /// The name of a month and its load, such as `month 3 (2027-02), with 9.3% more load`.
    pub fn name_and_load(&self, month: u32) -> String {
        let load = self.compared(month).map_or(String::new(), |load| format!(", {load}"));
        self.name(month) + &load
    }

    /// The name of a month: `month 7`, or `month 7 (2027-06)`.
    pub fn name(&self, month: u32) -> String {
        match self.from {
            None => format!("month {month}"),
            Some((year, first)) => {
                let months = first - 1 + month;
                format!("month {month} ({:04}-{:02})", year + months / 12, months % 12 + 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn horizon(growth: &str) -> Horizon {
        let growth = Growth::parse(growth).expect("growth");
        Horizon { months: 24, growth, typed: String::new(), from: Some((2026, 11)), place: Span::default() }
    }

    #[test]
    fn months_have_names_and_loads() {
        let of = horizon("5%/month");
        assert_eq!(
            [0, 1, 2, 14].map(|month| of.name(month)).join(", "),
            "month 0 (2026-11), month 1 (2026-12), month 2 (2027-01), month 14 (2028-01)"
        );
        // 1.05^7 = 1.40710; a year of 50 % is 1.5 after twelve months.
        assert_eq!(of.set(7, 1.0), "load=140.7%");
        assert_eq!(of.set(7, 0.5), "load=70.4%");
        assert_eq!(horizon("50%/year").set(12, 1.0), "load=150.0%");
    }

    /// 1.03^3 is 1.0927, 1.2^4 is 2.0736.
    #[test]
    fn the_load_of_a_month_is_compared_with_that_of_the_first() {
        let of = |growth: &str, month| horizon(growth).name_and_load(month);
        assert_eq!(of("3%/month", 3), "month 3 (2027-02), with 9.3% more load");
        assert_eq!(of("20%/month", 1), "month 1 (2026-12), with 20% more load");
        assert_eq!(of("-5%/month", 1), "month 1 (2026-12), with 5% less load");
        assert_eq!(of("20%/month", 4), "month 4 (2027-03), with 2.1 times the load");
        assert_eq!(of("3%/month", 0), "month 0 (2026-11)");
    }
}
