//! Money: `currency:`, `electricity:`, and the `commitment:` and `purchase:` of a node.

use std::path::Path;
use std::sync::Arc;

use super::world::World;
use dryrack_fleet::{Electricity, NodeShape, Payment};
use dryrack_units::{Money, Permille, SimDuration, UnitError};
use dryrack_yaml::{Fields, Node, Report, Tree, Value, read_text, text, value};

/// The keys of a node that say how it is paid for. At most one of them is allowed.
pub(super) const PRICES: [&str; 3] = ["price_per_hour", "commitment", "purchase"];

const YEAR: u64 = 365 * 86_400;

/// A length of time that may also be written in years of 365 days: `3y`.
struct Term(SimDuration);

impl Value for Term {
    const EXPECTED: &'static str = "a length of time such as 3y or 90d";
    fn parse(text: &str) -> Result<Term, UnitError> {
        let wrong = || UnitError::Malformed { text: text.to_string(), expected: Self::EXPECTED };
        let length = match text.trim().strip_suffix('y') {
            Some(years) => {
                let years: u64 = years.trim().parse().map_err(|_| wrong())?;
                SimDuration::saturating_from_secs(years.saturating_mul(YEAR))
            }
            None => text.parse().map_err(|_| wrong())?,
        };
        if length.is_zero() { Err(wrong()) } else { Ok(Term(length)) }
    }
}

/// Power usage effectiveness, in thousandths.
struct Pue(Permille);

impl Value for Pue {
    const EXPECTED: &'static str = "a power usage effectiveness such as 1.35";
    fn parse(text: &str) -> Result<Pue, UnitError> {
        let wrong = || UnitError::Malformed { text: text.to_string(), expected: Self::EXPECTED };
        let millionths = text.parse::<Money>().map_err(|_| wrong())?.get();
        let thousandths = u32::try_from(millionths / 1000).map_err(|_| wrong())?;
        match thousandths {
            1000..=10_000 if millionths % 1000 == 0 => Ok(Pue(Permille::new(thousandths))),
            _ => Err(wrong()),
        }
    }
}

/// Emissions in milligrams per kWh.
struct Intensity(u64);

/// The largest intensity: more than ten times that of lignite.
const MAX_GRAMS: u64 = 20_000;

impl Value for Intensity {
    const EXPECTED: &'static str = "the grams of CO2 per kWh, such as 380";
    fn parse(text: &str) -> Result<Intensity, UnitError> {
        let wrong = || UnitError::Malformed { text: text.to_string(), expected: Self::EXPECTED };
        let number = text.trim().strip_suffix('g').unwrap_or(text.trim());
        let milligrams = number.parse::<Money>().map_err(|_| wrong())?.get() / 1000;
        if milligrams > MAX_GRAMS * 1000 {
            Err(UnitError::TooLarge { text: text.to_string() })
        } else {
            Ok(Intensity(milligrams))
        }
    }
}

/// Reads `currency: EUR`: a name for all prices of the file, which are never converted.
pub(super) fn currency(file: &Fields<'_>, report: &mut Report) -> Option<Arc<str>> {
    let tree = file.get("currency")?;
    let typed = text(tree, "the name of a currency such as EUR", report)?;
    let is_name =
        typed.chars().count() <= 8 && !typed.chars().any(|letter| letter.is_whitespace() || letter.is_ascii_digit());
    if !is_name || typed.is_empty() {
        let message = format!("`{typed}` is not the name of a currency");
        report.error_with_help(tree.span, message, "write a name such as `EUR`; it is printed after each amount");
        return None;
    }
    Some(Arc::from(typed))
}

/// Reads `commitment:` and `purchase:` into the shape. A node has one kind of price, which replaces that of its machine.
pub(super) fn payment(fields: &Fields<'_>, shape: &mut NodeShape, report: &mut Report) {
    let stated: Vec<&str> = PRICES.into_iter().filter(|key| fields.has(key)).collect();
    if let [first, second, ..] = stated[..] {
        let message = format!("`{first}` and `{second}` are two prices of one node");
        let help = "keep one of them; nodes that are paid for in different ways are different entries of `nodes`";
        report.error_with_help(fields.key_span(second), message, help);
        return;
    }
    if stated.is_empty() {
        return;
    }
    shape.payment = None;
    if let Some(price) = fields.value::<Money>("price_per_hour", report) {
        shape.price_per_hour = Some(price);
    }
    let found = match (fields.get("commitment"), fields.get("purchase")) {
        (Some(tree), _) => commitment(tree, report),
        (None, Some(tree)) => purchase(tree, report),
        (None, None) => return,
    };
    if let Some((payment, price)) = found {
        (shape.payment, shape.price_per_hour) = (Some(payment), Some(price));
    }
}

/// Reads `{term: 1y, price_per_hour: 9.80, upfront: 10000}`.
fn commitment(tree: &Tree, report: &mut Report) -> Option<(Payment, Money)> {
    let fields = Fields::read(tree, "a commitment", &["term", "price_per_hour", "upfront"], report)?;
    let term = fields.require("term", "1y", report).and_then(|tree| value::<Term>(tree, report));
    let upfront = fields.value::<Money>("upfront", report);
    if fields.lacks_all(&["price_per_hour", "upfront"]) {
        let help = "add `price_per_hour: 9.80`, `upfront: 60000` or both";
        report.error_with_help(tree.span, "the price of this commitment is missing", help);
        return None;
    }
    let each = fields.value::<Money>("price_per_hour", report).unwrap_or_default();
    let Term(term) = term?;
    let price = spread(upfront.unwrap_or_default(), term, each, tree, report)?;
    Some((Payment::Commitment { term }, price))
}

/// Reads `{price: 180000, over: 4y, resale: 20000, upkeep_per_hour: 0.40}`.
fn purchase(tree: &Tree, report: &mut Report) -> Option<(Payment, Money)> {
    let fields = Fields::read(tree, "a purchase", &["price", "over", "resale", "upkeep_per_hour"], report)?;
    let price = fields.require("price", "180000", report).and_then(|tree| value::<Money>(tree, report));
    let over = fields.require("over", "4y", report).and_then(|tree| value::<Term>(tree, report));
    let resale = fields.value::<Money>("resale", report).unwrap_or_default();
    let upkeep = fields.value::<Money>("upkeep_per_hour", report).unwrap_or_default();
    let (price, Term(over)) = (price?, over?);
    let Some(loss) = price.checked_sub(resale) else {
        let message = format!("the resale value {resale} is more than the price {price}");
        report.error_with_help(
            fields.key_span("resale"),
            message,
            "write the price for which the node can be sold later",
        );
        return None;
    };
    Some((Payment::Purchase { over }, spread(loss, over, upkeep, tree, report)?))
}

/// The price per hour of an amount that is spread over a time, plus an amount for each hour.
fn spread(amount: Money, over: SimDuration, each: Money, tree: &Tree, report: &mut Report) -> Option<Money> {
    let price = Payment::each_hour(amount, over).and_then(|part| part.checked_add(each));
    if price.is_none() {
        report.error_with_help(tree.span, "this price is too large", "check the amounts and the time");
    }
    price
}

/// Refuses other prices than `price_per_hour` for an instance that a cloud creates on demand.
pub(super) fn check_offer(fields: &Fields<'_>, shape: &NodeShape, report: &mut Report) {
    if shape.payment.is_none() {
        return;
    }
    let span = ["commitment", "purchase"].iter().find(|key| fields.has(key)).map(|key| fields.key_span(key));
    report.error_with_help(
        span.unwrap_or(fields.place()),
        "an instance that is created on demand is paid for by the hour",
        "write `price_per_hour` here, and list committed or bought nodes in `nodes`",
    );
}

/// Says which nodes the cost and the energy leave out, if other nodes have a price or state their power.
fn note_unstated(world: &mut World) {
    type IsStated = fn(&NodeShape) -> bool;
    let rows: [(&str, IsStated, &str); 2] = [
        ("cost", |shape| shape.price_per_hour.is_some(), "no price"),
        ("energy", |shape| shape.power.is_some(), "no stated power"),
    ];
    for (figure, is_stated, lacks) in rows {
        let (stated, unstated): (Vec<_>, Vec<_>) = world.nodes.iter().partition(|node| is_stated(&node.spec.shape));
        if let Some(first) = unstated.first().filter(|_| !stated.is_empty()) {
            let name = &first.spec.name;
            world.assumed.insert(format!("The {figure} leaves out the nodes with {lacks}, such as `{name}`"));
        }
    }
}

/// Reads `electricity: {price_per_kwh: 0.24, pue: 1.35, carbon: 380}`, and says what the cost and the energy leave out. The nodes
/// must have been read.
pub(super) fn electricity(
    file: &Fields<'_>,
    folder: &Path,
    world: &mut World,
    report: &mut Report,
) -> Option<Arc<Electricity>> {
    let read = file.get("electricity").and_then(|tree| {
        let fields = Fields::read(tree, "electricity", &["price_per_kwh", "pue", "carbon"], report)?;
        if fields.lacks_all(&["price_per_kwh", "carbon"]) {
            let help = "write `{price_per_kwh: 0.24}`, `{carbon: 380}` or both";
            report.error_with_help(tree.span, "neither the price nor the emissions of electricity are stated", help);
        }
        let Pue(pue) = fields.value("pue", report).unwrap_or(Pue(Permille::new(1000)));
        let carbon = fields.get("carbon").and_then(|tree| carbon(tree, folder, report)).unwrap_or_default();
        if !world.has_power && !world.nodes.is_empty() {
            let help = "add `power: {idle: 350W, busy: 6.5kW}` to the nodes";
            report.warning(tree.span, "`electricity` has no effect, because no node states its power", help);
        }
        Some(Electricity { price_per_kwh: fields.value("price_per_kwh", report), pue, carbon })
    });
    let has_price = read.as_ref().is_some_and(|electricity| electricity.price_per_kwh.is_some());
    let is_unpaid =
        |shape: &NodeShape| shape.payment.is_some_and(Payment::is_purchase) && (!has_price || shape.power.is_none());
    let mut unpaid = world.nodes.iter().filter(|node| is_unpaid(&node.spec.shape));
    if let Some(first) = unpaid.next() {
        let name = &first.spec.name;
        let (bought, theirs) = match 1 + unpaid.count() {
            1 => (format!("`{name}`, which was bought,"), "its"),
            count => (format!("{count} nodes that were bought, such as `{name}`,"), "their"),
        };
        let lacks = match has_price {
            true => format!("{theirs} `power` is not stated"),
            false => "the price of electricity (`price_per_kwh`) is not stated".to_string(),
        };
        world.assumed.insert(format!("The cost of {bought} is without electricity, because {lacks}"));
    }
    note_unstated(world);
    read.map(Arc::new)
}

/// Reads `380`, or `{file: grid.csv}` with the columns `hour` and `g_per_kWh`.
fn carbon(tree: &Tree, folder: &Path, report: &mut Report) -> Option<Vec<u64>> {
    let Node::Map(_) = tree.node else {
        return value::<Intensity>(tree, report).map(|Intensity(milligrams)| vec![milligrams]);
    };
    let fields = Fields::read(tree, "emissions", &["file"], report)?;
    let named = fields.require("file", "grid.csv", report)?;
    let typed = text(named, "the path of a CSV file", report)?;
    let (_, curve) = read_text(&folder.join(typed), Some(named.span), report)?;
    match read_curve(&curve) {
        Ok(curve) => Some(curve),
        Err((line, message, help)) => {
            report.error_with_help(named.span, format!("`{typed}`, line {line}: {message}"), help);
            None
        }
    }
}

/// The curve of a CSV text, in milligrams per kWh for each hour. An error has its line.
fn read_curve(text: &str) -> Result<Vec<u64>, (usize, String, &'static str)> {
    const HEADER: &str = "the first line must be `hour,g_per_kWh`";
    const ROW: &str = "write a row such as `0,380`; the hours count from 0 without a gap";
    let mut lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
    let header = lines.next().map_or("", |(_, line)| line.trim_start_matches('\u{feff}'));
    let columns: Vec<&str> = header.split(',').map(str::trim).collect();
    if !matches!(columns[..], ["hour", "g_per_kWh"]) {
        return Err((1, format!("found `{header}`"), HEADER));
    }
    let mut curve = Vec::new();
    for (number, line) in lines {
        let wrong = || (number + 1, format!("`{line}` is not the row of hour {}", curve.len()), ROW);
        let (hour, grams) = line.split_once(',').ok_or_else(wrong)?;
        if hour.trim().parse() != Ok(curve.len()) {
            return Err(wrong());
        }
        let Intensity(milligrams) = Intensity::parse(grams).map_err(|_| wrong())?;
        curve.push(milligrams);
    }
    if curve.is_empty() { Err((1, "the file has no hours".to_string(), ROW)) } else { Ok(curve) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_has_a_row_for_each_hour() {
        assert_eq!(read_curve("hour,g_per_kWh\n0,380\n1,12.5\n"), Ok(vec![380_000, 12_500]));
        for (wrong, line) in [
            ("hour,kg\n0,380\n", 1),
            ("hour,g_per_kWh\n", 1),
            ("hour,g_per_kWh\n0,380\n2,380\n", 3),
            ("hour,g_per_kWh\n0,-1\n", 2),
            ("hour,g_per_kWh\n0,380,7\n", 2),
            ("hour,g_per_kWh\n0,20001\n", 2),
        ] {
            assert_eq!(read_curve(wrong).map_err(|(line, ..)| line), Err(line), "{wrong}");
        }
    }

    #[test]
    fn terms_may_be_years() {
        assert_eq!(Term::parse("3y").map(|term| term.0), Ok(SimDuration::from_secs(3 * YEAR)));
        assert_eq!(Term::parse("90d").map(|term| term.0), Ok(SimDuration::from_secs(90 * 86_400)));
        for wrong in ["0y", "y", "3", "-1y", "1.5y"] {
            assert!(Term::parse(wrong).is_err(), "{wrong}");
        }
    }
}
