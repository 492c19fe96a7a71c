//! Finds the texts with which an expression compares variables.

use std::ops::Range;

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};

use super::variable::Slot;

/// A comparison of a variable with texts that the expression contains, such as `node.labels.pool == "prod"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The variable. If it is a list, its elements are compared.
    pub path: &'static str,
    /// The key of the label, if the variable holds labels.
    pub label: Option<String>,
    pub relation: Relation,
    /// The texts. There are several in `job.queue in ["a", "b"]`.
    pub texts: Vec<ComparedText>,
    /// Whether the comparison is `!=`.
    pub is_negated: bool,
    /// Whether the variable is compared with nothing but these texts.
    pub(super) is_complete: bool,
    /// The number of the call in the checked program.
    pub(super) call: u64,
}

/// A text in a comparison, and its byte range in the expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedText {
    pub text: String,
    pub at: Range<usize>,
}

/// How a value is compared with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Equals,
    StartsWith,
    EndsWith,
    Contains,
}

impl Relation {
    pub fn holds(self, value: &str, text: &str) -> bool {
        match self {
            Relation::Equals => value == text,
            Relation::StartsWith => value.starts_with(text),
            Relation::EndsWith => value.ends_with(text),
            Relation::Contains => value.contains(text),
        }
    }

    fn of_call(name: &str) -> Option<Relation> {
        match name {
            operators::EQUALS | operators::NOT_EQUALS | operators::IN => Some(Relation::Equals),
            "startsWith" => Some(Relation::StartsWith),
            "endsWith" => Some(Relation::EndsWith),
            "contains" => Some(Relation::Contains),
            _ => None,
        }
    }
}

/// The comparisons of a checked expression, in order of their places. `span` returns the byte range of a part.
pub(super) fn comparisons(
    program: &IdedExpr,
    slots: &[Slot],
    span: &dyn Fn(&IdedExpr) -> Range<usize>,
) -> Vec<Comparison> {
    let mut finder = Finder { slots, span, locals: Vec::new(), found: Vec::new() };
    finder.visit(program);
    finder.found
}

struct Finder<'c> {
    slots: &'c [Slot],
    span: &'c dyn Fn(&IdedExpr) -> Range<usize>,
    /// The loop variables around the current part, each with the slot of the list whose elements it takes.
    locals: Vec<(String, Option<usize>)>,
    found: Vec<Comparison>,
}

impl Finder<'_> {
    fn visit(&mut self, expr: &IdedExpr) {
        match &expr.expr {
            Expr::Call(call) => {
                self.found.extend(self.comparison(expr.id, call));
                operands(call).for_each(|part| self.visit(part));
            }
            Expr::List(list) => list.elements.iter().for_each(|element| self.visit(element)),
            Expr::Comprehension(each) => {
                self.visit(&each.iter_range);
                let before = self.locals.len();
                self.locals.push((each.accu_var.clone(), None));
                self.locals.push((each.iter_var.clone(), self.slot(&each.iter_range)));
                [&each.loop_cond, &each.loop_step, &each.result].into_iter().for_each(|part| self.visit(part));
                self.locals.truncate(before);
            }
            Expr::Select(select) => self.visit(&select.operand),
            Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Map(_) | Expr::Struct(_) => {}
        }
    }

    fn comparison(&self, id: u64, call: &CallExpr) -> Option<Comparison> {
        let relation = Relation::of_call(&call.func_name)?;
        let parts: Vec<&IdedExpr> = operands(call).collect();
        let [one, other] = parts[..] else { return None };
        // `"a".startsWith(node.rack)` compares the other way round.
        let is_symmetric = relation == Relation::Equals;
        let (slot, compared) = match (self.slot(one), self.slot(other)) {
            (Some(slot), None) => (slot, other),
            (None, Some(slot)) if is_symmetric => (slot, one),
            _ => return None,
        };
        let mut texts = Vec::new();
        let is_complete = self.texts(compared, &mut texts);
        if texts.is_empty() {
            return None;
        }
        let Slot { variable, label, .. } = &self.slots[slot];
        let (path, label, is_negated) = (variable.path, label.clone(), call.func_name == operators::NOT_EQUALS);
        Some(Comparison { path, label, relation, texts, is_negated, is_complete, call: id })
    }

    /// The slot that a part reads, or whose elements it reads.
    fn slot(&self, expr: &IdedExpr) -> Option<usize> {
        let Expr::Ident(name) = &expr.expr else { return None };
        match self.locals.iter().rev().find(|(local, _)| local == name) {
            Some((_, slot)) => *slot,
            None => self.slots.iter().position(|slot| slot.name == *name),
        }
    }

    /// Adds the texts that are the possible values, or the elements, of a part. Returns whether these are all.
    fn texts(&self, expr: &IdedExpr, texts: &mut Vec<ComparedText>) -> bool {
        match &expr.expr {
            Expr::Literal(LiteralValue::String(text)) => {
                texts.push(ComparedText { text: text.inner().to_string(), at: (self.span)(expr) });
                true
            }
            Expr::List(list) => self.all_texts(&list.elements, texts),
            Expr::Call(CallExpr { func_name, args, .. }) if func_name == operators::CONDITIONAL => {
                self.all_texts(&args[1..], texts)
            }
            _ => false,
        }
    }

    fn all_texts(&self, parts: &[IdedExpr], texts: &mut Vec<ComparedText>) -> bool {
        let mut are_all = true;
        for part in parts {
            are_all &= self.texts(part, texts);
        }
        are_all
    }
}

pub(super) fn operands(call: &CallExpr) -> impl Iterator<Item = &IdedExpr> {
    call.target.iter().map(|target| &**target).chain(&call.args)
}
