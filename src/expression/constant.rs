//! The value of an expression of which some comparisons never hold, if it then depends on no variable.

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, operators};

use super::check::{Checked, DIVIDE};
use super::comparisons::{ComparedText, Comparison, operands};
use super::eval::Value;

/// The value of a checked expression if it is the same whatever its variables are, given which texts can be met.
pub(super) fn constant(
    checked: &Checked,
    is_possible: &dyn Fn(&Comparison, &ComparedText) -> bool,
) -> Option<Value<'static>> {
    let never = |comparison: &&Comparison| {
        comparison.is_complete && !comparison.texts.iter().any(|text| is_possible(comparison, text))
    };
    let decided = checked.comparisons.iter().filter(never).map(|known| (known.call, known.is_negated)).collect();
    Folder { decided, locals: Vec::new() }.fold(&checked.program)
}

/// Computes the parts of an expression that depend on no variable.
struct Folder {
    /// The calls whose value is known.
    decided: Vec<(u64, bool)>,
    locals: Vec<(String, Option<Value<'static>>)>,
}

impl Folder {
    fn fold(&mut self, expr: &IdedExpr) -> Option<Value<'static>> {
        match &expr.expr {
            Expr::Literal(LiteralValue::Boolean(value)) => Some(Value::Bool(*value.inner())),
            Expr::Literal(LiteralValue::Double(value)) => Some(Value::Number(*value.inner())),
            Expr::Ident(name) => self.locals.iter().rev().find(|(local, _)| local == name)?.1.clone(),
            Expr::Call(call) => match self.decided.iter().find(|(id, _)| *id == expr.id) {
                Some((_, value)) => Some(Value::Bool(*value)),
                None => self.call(call),
            },
            Expr::Comprehension(each) => self.comprehension(each),
            _ => None,
        }
    }

    fn call(&mut self, call: &CallExpr) -> Option<Value<'static>> {
        use Value::{Bool, Number};
        let values: Vec<_> = operands(call).map(|part| self.fold(part)).collect();
        match (call.func_name.as_str(), values.as_slice()) {
            (operators::CONDITIONAL, [Some(Bool(true)), value, _] | [Some(Bool(false)), _, value]) => value.clone(),
            (operators::CONDITIONAL, [None, one, other]) if one == other => one.clone(),
            (operators::LOGICAL_AND, [Some(Bool(false)), _] | [_, Some(Bool(false))]) => Some(Bool(false)),
            (operators::LOGICAL_AND, [Some(Bool(true)), Some(Bool(true))]) => Some(Bool(true)),
            (operators::LOGICAL_OR, [Some(Bool(true)), _] | [_, Some(Bool(true))]) => Some(Bool(true)),
            (operators::LOGICAL_OR, [Some(Bool(false)), Some(Bool(false))]) => Some(Bool(false)),
            (operators::LOGICAL_NOT, [Some(Bool(value))]) => Some(Bool(!value)),
            (operators::EQUALS, [Some(one), Some(other)]) => Some(Bool(one == other)),
            (operators::NOT_EQUALS, [Some(one), Some(other)]) => Some(Bool(one != other)),
            // All variables are finite.
            (operators::MULTIPLY, [Some(Number(0.0)), _] | [_, Some(Number(0.0))]) => Some(Number(0.0)),
            (operators::NEGATE, [Some(Number(number))]) => Some(Number(-number)),
            (name, [Some(Number(one)), Some(Number(other))]) => of_numbers(name, *one, *other),
            _ => None,
        }
    }

    /// A loop whose step leaves its result as it is gives the same value for every list.
    fn comprehension(&mut self, each: &ComprehensionExpr) -> Option<Value<'static>> {
        let before = self.locals.len();
        let first = self.fold(&each.accu_init);
        self.locals.extend([(each.accu_var.clone(), first.clone()), (each.iter_var.clone(), None)]);
        let next = self.fold(&each.loop_step);
        self.locals.truncate(before + 1);
        let result = if next == first { self.fold(&each.result) } else { None };
        self.locals.truncate(before);
        result
    }
}

fn of_numbers(name: &str, one: f64, other: f64) -> Option<Value<'static>> {
    match name {
        operators::ADD => Some(Value::Number(one + other)),
        operators::SUBSTRACT => Some(Value::Number(one - other)),
        operators::MULTIPLY => Some(Value::Number(one * other)),
        DIVIDE => Some(Value::Number(if other == 0.0 { 0.0 } else { one / other })),
        operators::LESS => Some(Value::Bool(one < other)),
        operators::LESS_EQUALS => Some(Value::Bool(one <= other)),
        operators::GREATER => Some(Value::Bool(one > other)),
        operators::GREATER_EQUALS => Some(Value::Bool(one >= other)),
        _ => None,
    }
}
