//! Evaluates a checked expression.

use std::sync::{Arc, OnceLock};

use cel::common::types::{CelBool, CelDouble, CelString};
use cel::common::value::Val;
use cel::{Context, Env, ExecutionError};

use super::check::Checked;

/// A value of a variable or of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Bool(bool),
    Number(f64),
    Text(&'a str),
    Texts(Vec<&'a str>),
}

fn divide(one: &CelDouble, other: &CelDouble) -> CelDouble {
    CelDouble::from(if *other.inner() == 0.0 { 0.0 } else { one.inner() / other.inner() })
}

fn environment() -> Arc<Env> {
    static ENVIRONMENT: OnceLock<Arc<Env>> = OnceLock::new();
    let made = || {
        let mut env = Env::stdlib();
        cel::add_overload!(env, fn divide: (CelDouble, CelDouble) -> CelDouble, name = "$divide", id = "$divide_doubles")
            .expect("there is no other division of this name");
        Arc::new(env)
    };
    ENVIRONMENT.get_or_init(made).clone()
}

/// Evaluates an expression, and reads each variable once. Returns `None` if it compares with NaN, which CEL refuses.
pub(super) fn evaluate<'a>(
    checked: &Checked,
    value: impl Fn(&'static str, Option<&str>) -> Value<'a>,
) -> Option<Value<'static>> {
    let mut context = Context::with_env(environment());
    for slot in &checked.slots {
        let boxed: Box<dyn Val + 'a> = match value(slot.variable.path, slot.label.as_deref()) {
            Value::Bool(value) => Box::new(CelBool::from(value)),
            Value::Number(value) => Box::new(CelDouble::from(value)),
            Value::Text(value) => Box::new(CelString::from(value)),
            Value::Texts(values) => {
                context.add_variable_from_value(slot.name.as_str(), values);
                continue;
            }
        };
        context.add_variable_as_val(slot.name.as_str(), boxed);
    }
    match cel::Value::resolve(&checked.program, &context) {
        Ok(cel::Value::Bool(value)) => Some(Value::Bool(value)),
        Ok(cel::Value::Float(value)) => Some(Value::Number(value)),
        Err(ExecutionError::NoSuchOverload(_)) => None,
        other => panic!("a checked expression gave {other:?}"),
    }
}
