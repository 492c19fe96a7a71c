//! The macro that Kubernetes adds to those of the crate `cel`: `cel.bind`.

use std::sync::OnceLock;

use cel::common::ast::{ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue};
use cel::parser::{Macro, MacroExprHelper, ParseError, Parser};
use cel::{DeclarationError, Env};

/// A parser that knows this macro, and optional fields such as `device.?driver`.
pub(super) fn parser() -> Parser {
    static ENVIRONMENT: OnceLock<Env> = OnceLock::new();
    let made = || with_bind(Env::stdlib()).expect("the standard library has no macro of this name");
    ENVIRONMENT.get_or_init(made).parser().enable_optional_syntax(true)
}

fn with_bind(mut env: Env) -> Result<Env, DeclarationError> {
    env.add_macro(Macro::receiver("bind", 3, |helper, target, args| match target {
        Some(IdedExpr { expr: Expr::Ident(name), .. }) if name == "cel" => bind(helper, std::mem::take(args)).map(Some),
        _ => Ok(None),
    }))?;
    Ok(env)
}

/// `cel.bind(name, value, body)`: a comprehension over nothing, whose accumulator has the name and the value.
fn bind(helper: &mut MacroExprHelper<'_>, args: Vec<IdedExpr>) -> Result<IdedExpr, ParseError> {
    let Ok([name, value, body]) = <[IdedExpr; 3]>::try_from(args) else { unreachable!("the macro takes three") };
    let Expr::Ident(name) = name.expr else {
        return Err(helper.new_error(name.id, "the first argument of `bind` is a name"));
    };
    let never = Expr::Literal(LiteralValue::Boolean(false.into()));
    let bound = ComprehensionExpr {
        iter_range: helper.next_expr(Expr::List(ListExpr { elements: Vec::new(), optional_indices: Vec::new() })),
        iter_var: "#unused".to_string(),
        iter_var2: None,
        accu_var: name.clone(),
        accu_init: value,
        loop_cond: helper.next_expr(never),
        loop_step: helper.next_expr(Expr::Ident(name)),
        result: body,
    };
    Ok(helper.next_expr(Expr::Comprehension(Box::new(bound))))
}
