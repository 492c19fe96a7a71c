//! Selectors of devices: expressions in CEL over a device's driver, attributes and capacity.
//!
//! Each expression is parsed once, and evaluated once for each device.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use cel::common::ast::IdedExpr;
use cel::common::traits::Indexer;
use cel::common::types::{CelBool, CelDouble, CelInt, CelList, CelMap, CelString, MAP_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{Context, Env, ExecutionError};
use foldhash::fast::FixedState;
use regex::Regex;

use super::Known;
use crate::object::{Attribute, Quantity};

/// All expressions that were evaluated so far.
#[derive(Debug, Default)]
pub struct Selectors(HashMap<Arc<str>, Selector, FixedState>);

#[derive(Debug)]
struct Selector {
    program: Result<IdedExpr, String>,
    /// The result for each device by its index, once the expression was evaluated for it.
    answers: Vec<Option<Result<bool, String>>>,
}

impl Selectors {
    /// Whether the expression holds for a device, or why it has no value.
    pub fn holds(&mut self, expression: &Arc<str>, device: usize, known: &Known) -> Result<bool, String> {
        let selector = self.0.entry(Arc::clone(expression)).or_insert_with(|| Selector {
            program: dryrack_expression::parse_standard(expression)
                .map_err(|fault| format!("CEL compile error: {fault}")),
            answers: Vec::new(),
        });
        if selector.answers.len() <= device {
            selector.answers.resize(device + 1, None);
        }
        let program = &selector.program;
        let answer = selector.answers[device].get_or_insert_with(|| match program {
            Ok(program) => evaluate(program, known).map_err(|fault| format!("CEL runtime error: {fault}")),
            Err(fault) => Err(fault.clone()),
        });
        answer.clone()
    }
}

fn evaluate(program: &IdedExpr, known: &Known) -> Result<bool, String> {
    let mut context = Context::with_env(environment());
    context.add_variable_as_val("device", Box::new(device_value(known)));
    match cel::Value::resolve(program, &context) {
        Ok(cel::Value::Bool(holds)) => Ok(holds),
        Ok(other) => Err(format!("the expression is {other:?}, not true or false")),
        Err(ExecutionError::NoSuchKey(key)) => Err(format!("no such key: {key}")),
        Err(fault) => Err(fault.to_string()),
    }
}

fn text(text: &str) -> CelString<'static> {
    CelString::from(text.to_string())
}

type Entry = (String, Box<dyn Val>);

fn map_of(entries: impl IntoIterator<Item = Entry>) -> CelMap<'static> {
    let by_key: HashMap<_, _> = entries.into_iter().map(|(key, value)| (key.into(), value)).collect();
    CelMap::from(by_key)
}

fn device_value(known: &Known) -> CelMap<'static> {
    let attribute = |attribute: &Attribute| -> Box<dyn Val> {
        match attribute {
            Attribute::Int(value) => Box::new(CelInt::from(*value)),
            Attribute::Bool(value) => Box::new(CelBool::from(*value)),
            Attribute::String(value) => Box::new(text(value)),
            Attribute::Version(value) => match semver::Version::parse(value) {
                Ok(version) => Box::new(Version(version)),
                Err(_) => Box::new(text(value)),
            },
        }
    };
    let driver = &known.id.driver;
    let attributes = known.device.attributes.iter().map(|(name, value)| (name, attribute(value)));
    let capacity = |quantity: Quantity| -> Box<dyn Val> { Box::new(Amount(quantity)) };
    let capacities = known.device.capacity.iter().map(|(name, stated)| (name, capacity(stated.value)));
    map_of([
        ("driver".to_string(), Box::new(text(driver)) as Box<dyn Val>),
        ("attributes".to_string(), Box::new(by_domain(driver, attributes)) as Box<dyn Val>),
        ("capacity".to_string(), Box::new(by_domain(driver, capacities)) as Box<dyn Val>),
    ])
}

/// Groups values by the domain of their names. A name without a domain is in the domain of the driver.
fn by_domain<'n>(driver: &str, values: impl Iterator<Item = (&'n Arc<str>, Box<dyn Val>)>) -> Domains {
    let mut domains: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    for (name, value) in values {
        let (domain, id) = name.split_once('/').unwrap_or((driver, name));
        domains.entry(domain.to_string()).or_default().push((id.to_string(), value));
    }
    Domains(map_of(domains.into_iter().map(|(domain, values)| (domain, Box::new(map_of(values)) as Box<dyn Val>))))
}

/// A map of domains in which an unknown domain is an empty map, not an error.
#[derive(Clone, Debug)]
struct Domains(CelMap<'static>);

impl Val for Domains {
    fn get_type(&self) -> &Type {
        &MAP_TYPE
    }

    fn cel_type() -> &'static Type {
        &MAP_TYPE
    }

    fn as_indexer<'b, 'w>(&'b self) -> Option<&'b (dyn Indexer + 'w)>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn as_container(&self) -> Option<&dyn cel::common::traits::Container> {
        self.0.as_container()
    }

    fn as_sizer(&self) -> Option<&dyn cel::common::traits::Sizer> {
        self.0.as_sizer()
    }

    fn clone_as_boxed<'w>(&self) -> Box<dyn Val + 'w>
    where
        Self: 'w,
    {
        Box::new(self.clone())
    }
}

impl Indexer for Domains {
    fn get<'b, 'w>(&'b self, key: &dyn Val) -> Result<CowVal<'b, 'w>, ExecutionError>
    where
        Self: 'w,
    {
        match self.0.get(key) {
            Err(ExecutionError::NoSuchKey(_)) => Ok(CowVal::owned(CelMap::default())),
            found => found,
        }
    }

    fn steal<'w>(self: Box<Self>, key: &dyn Val) -> Result<Box<dyn Val + 'w>, ExecutionError>
    where
        Self: 'w,
    {
        self.get(key).map(CowVal::into_owned)
    }
}

static QUANTITY_TYPE: Type = Type::new_unspecified_type("kubernetes.Quantity");
static VERSION_TYPE: Type = Type::new_unspecified_type("kubernetes.Semver");

/// Defines a type of values that can only be compared.
macro_rules! comparable {
    ($name:ident($inner:ty), $type:ident) => {
        #[derive(Clone, Debug)]
        struct $name($inner);

        impl Val for $name {
            fn get_type(&self) -> &Type {
                &$type
            }

            fn cel_type() -> &'static Type {
                &$type
            }

            fn equals(&self, other: &dyn Val) -> bool {
                other.downcast_ref::<$name>().is_some_and(|other| other.0 == self.0)
            }

            fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
                Box::new(self.clone())
            }

            fn as_any(&self) -> Option<&dyn std::any::Any> {
                Some(self)
            }
        }

        impl StaticVal for $name {}

        impl $name {
            fn compare_to(&self, other: &$name) -> CelInt {
                CelInt::from(match self.0.cmp(&other.0) {
                    Ordering::Less => -1,
                    Ordering::Equal => 0,
                    Ordering::Greater => 1,
                })
            }

            fn is_greater(&self, other: &$name) -> CelBool {
                CelBool::from(self.0 > other.0)
            }

            fn is_less(&self, other: &$name) -> CelBool {
                CelBool::from(self.0 < other.0)
            }
        }
    };
}

comparable!(Amount(Quantity), QUANTITY_TYPE);
comparable!(Version(semver::Version), VERSION_TYPE);

fn quantity(stated: &CelString<'_>) -> Result<Amount, ExecutionError> {
    let parsed: Result<Quantity, _> = stated.inner().parse();
    parsed.map(Amount).map_err(|fault| ExecutionError::function_error("quantity", fault))
}

fn is_quantity(stated: &CelString<'_>) -> CelBool {
    CelBool::from(stated.inner().parse::<Quantity>().is_ok())
}

fn is_integer(amount: &Amount) -> CelBool {
    CelBool::from(amount.0.is_whole())
}

fn as_integer(amount: &Amount) -> Result<CelInt, ExecutionError> {
    match amount.0.is_whole() {
        true => Ok(CelInt::from(amount.0.value())),
        false => Err(ExecutionError::function_error("asInteger", "cannot convert value to integer")),
    }
}

fn as_approximate_float(amount: &Amount) -> CelDouble {
    CelDouble::from(amount.0.as_f64())
}

fn sign(amount: &Amount) -> CelInt {
    CelInt::from(match amount.0.cmp(&Quantity::default()) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    })
}

fn semver(stated: &CelString<'_>) -> Result<Version, ExecutionError> {
    let parsed = semver::Version::parse(stated.inner());
    parsed.map(Version).map_err(|fault| ExecutionError::function_error("semver", fault))
}

/// With `is_normalized`, as Kubernetes reads versions that are no semantic versions: without the `v` at the beginning,
/// without leading zeros, and with `.0` for missing numbers.
fn semver_normalized(stated: &CelString<'_>, is_normalized: &CelBool) -> Result<Version, ExecutionError> {
    match *is_normalized.inner() {
        true => semver(&text(&normalized(stated.inner()))),
        false => semver(stated),
    }
}

fn normalized(version: &str) -> String {
    let version = version.strip_prefix('v').unwrap_or(version);
    let end = version.find(['-', '+']).unwrap_or(version.len());
    let (numbers, rest) = version.split_at(end);
    let without_zeros = |number: &str| match number.trim_start_matches('0') {
        "" if !number.is_empty() => "0".to_string(),
        number => number.to_string(),
    };
    let mut numbers: Vec<String> = numbers.split('.').map(without_zeros).collect();
    while numbers.len() < 3 {
        numbers.push("0".to_string());
    }
    numbers.join(".") + rest
}

fn is_semver(stated: &CelString<'_>) -> CelBool {
    CelBool::from(semver::Version::parse(stated.inner()).is_ok())
}

fn is_semver_normalized(stated: &CelString<'_>, is_normalized: &CelBool) -> CelBool {
    CelBool::from(semver_normalized(stated, is_normalized).is_ok())
}

fn number(number: u64) -> CelInt {
    CelInt::from(i64::try_from(number).unwrap_or(i64::MAX))
}

fn major(version: &Version) -> CelInt {
    number(version.0.major)
}

fn minor(version: &Version) -> CelInt {
    number(version.0.minor)
}

fn patch(version: &Version) -> CelInt {
    number(version.0.patch)
}

fn amount_compare(one: &Amount, other: &Amount) -> CelInt {
    one.compare_to(other)
}

fn amount_greater(one: &Amount, other: &Amount) -> CelBool {
    one.is_greater(other)
}

fn amount_less(one: &Amount, other: &Amount) -> CelBool {
    one.is_less(other)
}

fn version_compare(one: &Version, other: &Version) -> CelInt {
    one.compare_to(other)
}

fn version_greater(one: &Version, other: &Version) -> CelBool {
    one.is_greater(other)
}

fn version_less(one: &Version, other: &Version) -> CelBool {
    one.is_less(other)
}

fn regex(stated: &CelString<'_>, function: &'static str) -> Result<Regex, ExecutionError> {
    Regex::new(stated.inner()).map_err(|fault| ExecutionError::function_error(function, fault))
}

/// The first match. An empty text without a match.
fn find(this: &CelString<'_>, pattern: &CelString<'_>) -> Result<CelString<'static>, ExecutionError> {
    let found = regex(pattern, "find")?.find(this.inner()).map_or("", |found| found.as_str());
    Ok(text(found))
}

fn find_all(this: &CelString<'_>, pattern: &CelString<'_>) -> Result<CelList<'static>, ExecutionError> {
    find_all_up_to(this, pattern, &CelInt::from(-1))
}

/// The first `most` matches. All of them if `most` is negative.
fn find_all_up_to(
    this: &CelString<'_>,
    pattern: &CelString<'_>,
    most: &CelInt,
) -> Result<CelList<'static>, ExecutionError> {
    let (regex, most) = (regex(pattern, "findAll")?, usize::try_from(*most.inner()).unwrap_or(usize::MAX));
    let found = regex.find_iter(this.inner()).take(most);
    let found: Vec<Box<dyn Val>> = found.map(|found| Box::new(text(found.as_str())) as Box<dyn Val>).collect();
    Ok(CelList::from(found))
}

/// The standard functions, those of the extension on texts, and the functions on regular expressions, quantities and
/// versions that Kubernetes adds (`k8s.io/apiserver/pkg/cel/library`).
fn environment() -> Arc<Env> {
    static ENVIRONMENT: OnceLock<Arc<Env>> = OnceLock::new();
    let made = || {
        let mut env = Env::stdlib();
        cel::extensions::strings(&mut env).expect("the standard library has none of these functions");
        let added = [
            cel::add_overload!(env, fn quantity: (CelString) -> Result<Amount>, id = "string_to_quantity"),
            cel::add_overload!(env, fn is_quantity: (CelString) -> CelBool, id = "is_quantity_string"),
            cel::add_overload!(env, fn semver: (CelString) -> Result<Version>, id = "string_to_semver"),
            cel::add_overload!(env, fn is_semver: (CelString) -> CelBool, id = "is_semver_string"),
            cel::add_overload!(env, fn semver_normalized: (CelString, CelBool) -> Result<Version>, name = "semver"),
            cel::add_overload!(env, fn is_semver_normalized: (CelString, CelBool) -> CelBool, name = "isSemver"),
            cel::add_member_overload!(env, fn major: (Version) -> CelInt),
            cel::add_member_overload!(env, fn minor: (Version) -> CelInt),
            cel::add_member_overload!(env, fn patch: (Version) -> CelInt),
            cel::add_member_overload!(env, fn is_integer: (Amount) -> CelBool),
            cel::add_member_overload!(env, fn as_approximate_float: (Amount) -> CelDouble),
            cel::add_member_overload!(env, fn sign: (Amount) -> CelInt),
            cel::add_member_overload!(env, fn find: (CelString, CelString) -> Result<CelString>),
            cel::add_member_overload!(env, fn find_all: (CelString, CelString) -> Result<CelList>),
            cel::add_member_overload!(env, fn find_all_up_to: (CelString, CelString, CelInt) -> Result<CelList>, name = "findAll"),
            cel::add_member_overload!(env, fn as_integer: (Amount) -> Result<CelInt>, id = "quantity_as_integer"),
            cel::add_member_overload!(env, fn amount_compare: (Amount, Amount) -> CelInt, name = "compareTo"),
            cel::add_member_overload!(env, fn amount_greater: (Amount, Amount) -> CelBool, name = "isGreaterThan"),
            cel::add_member_overload!(env, fn amount_less: (Amount, Amount) -> CelBool, name = "isLessThan"),
            cel::add_member_overload!(env, fn version_compare: (Version, Version) -> CelInt, name = "compareTo"),
            cel::add_member_overload!(env, fn version_greater: (Version, Version) -> CelBool, name = "isGreaterThan"),
            cel::add_member_overload!(env, fn version_less: (Version, Version) -> CelBool, name = "isLessThan"),
        ];
        for declared in added {
            declared.expect("the standard library has no function of this name and these types");
        }
        Arc::new(env)
    };
    ENVIRONMENT.get_or_init(made).clone()
}
