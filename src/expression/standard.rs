//! The check of an expression of standard CEL, as far as its names go. Types are not checked.

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, SourceInfo};
use dryrack_nearest::nearest;

use super::fault::ExpressionError;
use super::syntax::{self, token_at};

/// Names that are no variables: types, and the prefixes of functions in the libraries of Kubernetes.
const BUILT_IN: [&str; 21] = [
    "base64",
    "bool",
    "bytes",
    "cel",
    "double",
    "dyn",
    "format",
    "google",
    "int",
    "list",
    "lists",
    "map",
    "math",
    "net",
    "null_type",
    "optional",
    "sets",
    "string",
    "strings",
    "type",
    "uint",
];

/// How many variables a macro names, for the macros that the parser leaves as calls: those of lists and of two variables.
fn variables_of(call: &str, arguments: usize) -> usize {
    match (call, arguments) {
        ("sortBy", 2) => 1,
        ("all" | "exists" | "existsOne" | "exists_one", 3) => 2,
        ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => 2,
        _ => 0,
    }
}

struct Names<'t> {
    text: &'t str,
    info: SourceInfo,
    /// The variables, and the fields of each.
    variables: &'t [(&'t str, &'t [&'t str])],
    /// The variables of macros around the current part.
    locals: Vec<String>,
}

type Checks = Result<(), ExpressionError>;

pub(super) fn check(text: &str, variables: &[(&str, &[&str])]) -> Checks {
    let (expr, info) = syntax::parse_standard(text)?;
    let is_never_bool = match &expr.expr {
        Expr::Literal(literal) => !matches!(literal, LiteralValue::Boolean(_)),
        Expr::List(_) | Expr::Map(_) => true,
        _ => false,
    };
    if is_never_bool {
        return Err(ExpressionError::new(super::check::trimmed(text), "the expression must be true or false"));
    }
    Names { text, info, variables, locals: Vec::new() }.part(&expr)
}

impl Names<'_> {
    fn part(&mut self, expr: &IdedExpr) -> Checks {
        match &expr.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.variable(expr, name),
            Expr::Select(select) => {
                self.part(&select.operand)?;
                match &select.operand.expr {
                    Expr::Ident(owner) => self.field(&select.operand, owner, &select.field),
                    _ => Ok(()),
                }
            }
            Expr::Call(call) => {
                call.target.iter().try_for_each(|target| self.part(target))?;
                let before = self.locals.len();
                let variables = call.args.iter().take(variables_of(&call.func_name, call.args.len()));
                let names = variables.map_while(|variable| match &variable.expr {
                    Expr::Ident(name) => Some(name.clone()),
                    _ => None,
                });
                self.locals.extend(names);
                call.args.iter().try_for_each(|part| self.part(part))?;
                self.locals.truncate(before);
                Ok(())
            }
            Expr::List(list) => list.elements.iter().try_for_each(|element| self.part(element)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| self.entry(&entry.expr)),
            Expr::Struct(made) => made.entries.iter().try_for_each(|entry| self.entry(&entry.expr)),
            Expr::Comprehension(each) => {
                self.part(&each.iter_range)?;
                let before = self.locals.len();
                self.locals.extend([each.iter_var.clone(), each.accu_var.clone()]);
                self.locals.extend(each.iter_var2.clone());
                let parts = [&each.accu_init, &each.loop_cond, &each.loop_step, &each.result];
                parts.into_iter().try_for_each(|part| self.part(part))?;
                self.locals.truncate(before);
                Ok(())
            }
        }
    }

    fn entry(&mut self, entry: &EntryExpr) -> Checks {
        match entry {
            EntryExpr::StructField(field) => self.part(&field.value),
            EntryExpr::MapEntry(entry) => {
                self.part(&entry.key)?;
                self.part(&entry.value)
            }
        }
    }

    fn variable(&self, expr: &IdedExpr, name: &str) -> Checks {
        let is_known = self.variables.iter().any(|(known, _)| *known == name)
            || BUILT_IN.contains(&name)
            || self.locals.iter().any(|local| local == name)
            || !name.starts_with(|first: char| first.is_ascii_alphabetic());
        if is_known {
            return Ok(());
        }
        let names = self.variables.iter().map(|(known, _)| *known);
        Err(self.unknown(expr, 0, format!("`{name}` is unknown"), name, names))
    }

    fn field(&self, owner: &IdedExpr, name: &str, field: &str) -> Checks {
        let of_owner = self.variables.iter().find(|(known, _)| *known == name).map(|(_, fields)| *fields);
        let is_local = self.locals.iter().any(|local| local == name);
        match of_owner.filter(|fields| !is_local && !fields.contains(&field)) {
            Some(fields) => {
                let message = format!("`{name}` has no field `{field}`");
                Err(self.unknown(owner, name.len() + 1, message, field, fields.iter().copied()))
            }
            None => Ok(()),
        }
    }

    /// An error at the token that begins this number of bytes behind the beginning of a part.
    fn unknown<'n>(
        &self,
        expr: &IdedExpr,
        behind: usize,
        message: String,
        typed: &str,
        names: impl Iterator<Item = &'n str> + Clone,
    ) -> ExpressionError {
        let start = self.info.offset_for(expr.id).map_or(0, |(start, _)| start as usize + behind);
        let is_there = self.text.get(start..).is_some_and(|rest| rest.starts_with(typed));
        let at = if is_there { token_at(self.text, start) } else { super::check::trimmed(self.text) };
        let fault = ExpressionError::new(at, message);
        match nearest(typed, names.clone()) {
            Some(near) => fault.help(format!("did you mean `{near}`?")),
            None => fault.help(format!("known are {}", names.collect::<Vec<_>>().join(", "))),
        }
    }
}
