//! Checks an expression: its variables, its types, and an upper bound on its number of steps. In the checked expression
//! each variable is a slot.

use std::ops::Range;

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, SourceInfo, operators};
use cel::common::types::CelDouble;
use dryrack_nearest::nearest;

use super::comparisons::{Comparison, comparisons};
use super::fault::ExpressionError;
use super::syntax::{self, token_at};
use super::variable::{ASSUMED_ELEMENTS, MOST_CHARACTERS, MOST_STEPS, Slot, Type, Variable};

/// A checked expression.
pub(super) struct Checked {
    pub program: IdedExpr,
    /// The values that the expression reads, each listed once.
    pub slots: Vec<Slot>,
    /// The texts with which it compares them.
    pub comparisons: Vec<Comparison>,
}

/// The type of a part of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Is(Type),
    Numbers,
    /// An empty list, which matches lists of any type.
    Nothings,
}

impl Kind {
    const BOOL: Kind = Kind::Is(Type::Bool);
    const NUMBER: Kind = Kind::Is(Type::Number);
    const TEXT: Kind = Kind::Is(Type::Text);

    fn name(self) -> &'static str {
        match self {
            Kind::Is(is) => is.name(),
            Kind::Numbers => "a list of numbers",
            Kind::Nothings => "an empty list",
        }
    }

    /// The type of an element, if this is a list.
    fn element(self) -> Option<Kind> {
        match self {
            Kind::Is(Type::Texts) => Some(Kind::TEXT),
            Kind::Numbers => Some(Kind::NUMBER),
            Kind::Nothings => Some(Kind::Nothings),
            Kind::Is(_) => None,
        }
    }

    /// The type of a list with elements of this type.
    fn list(self) -> Option<Kind> {
        match self {
            Kind::TEXT => Some(Kind::Is(Type::Texts)),
            Kind::NUMBER => Some(Kind::Numbers),
            _ => None,
        }
    }
}

/// A checked part of an expression: its rewritten form, its type, the largest number of steps that it takes and, for a
/// list, the largest number of elements.
struct Part {
    expr: IdedExpr,
    kind: Kind,
    steps: u64,
    elements: u64,
}

/// The loop variable of a macro, such as `gpu` in `gpus.types.exists(gpu, gpu == "a100")`.
struct Local {
    name: String,
    kind: Kind,
}

struct Checker<'t> {
    text: &'t str,
    info: SourceInfo,
    variables: &'static [Variable],
    slots: Vec<Slot>,
    locals: Vec<Local>,
}

type Checks<T> = Result<T, ExpressionError>;

pub(super) fn check(text: &str, variables: &'static [Variable], wanted: Type) -> Checks<Checked> {
    let (expr, info) = syntax::parse(text)?;
    let mut checker = Checker { text, info, variables, slots: Vec::new(), locals: Vec::new() };
    let whole = checker.span(&expr);
    let part = checker.part(expr)?;
    if part.kind != Kind::Is(wanted) {
        let message = format!("the expression is {}, but it must be {}", part.kind.name(), wanted.name());
        let fault = ExpressionError::new(trimmed(text), message);
        return Err(match (part.kind, wanted) {
            (Kind::BOOL, Type::Number) => fault.help("write `... ? 1 : 0`"),
            (Kind::NUMBER, Type::Bool) => fault.help("compare it: `... > 0`"),
            _ => fault,
        });
    }
    if depth(&part.expr) > DEEPEST_PROGRAM {
        let message = format!("the expression is more than {DEEPEST_PROGRAM} operations deep");
        return Err(ExpressionError::new(whole, message).help("put parentheses around the halves of a long sum"));
    }
    if part.steps > MOST_STEPS {
        let message = format!("the expression can take {} steps, but the limit is {MOST_STEPS}", part.steps);
        return Err(ExpressionError::new(whole, message).help("nest fewer macros, or use shorter lists"));
    }
    let comparisons = comparisons(&part.expr, &checker.slots, &|part| checker.span(part));
    Ok(Checked { program: part.expr, slots: checker.slots, comparisons })
}

/// The deepest nesting of operations. The limit keeps the stack small during evaluation.
const DEEPEST_PROGRAM: usize = 100;

fn depth(expr: &IdedExpr) -> usize {
    let deepest = |parts: &mut dyn Iterator<Item = &IdedExpr>| parts.map(depth).max().unwrap_or(0);
    1 + match &expr.expr {
        Expr::Call(call) => deepest(&mut call.target.iter().map(|target| &**target).chain(&call.args)),
        Expr::Select(select) => depth(&select.operand),
        Expr::List(list) => deepest(&mut list.elements.iter()),
        Expr::Comprehension(each) => {
            deepest(&mut [&each.iter_range, &each.loop_cond, &each.loop_step, &each.result].into_iter())
        }
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Map(_) | Expr::Struct(_) => 0,
    }
}

/// The byte range of a text without its surrounding blanks.
pub(super) fn trimmed(text: &str) -> Range<usize> {
    let start = text.len() - text.trim_start().len();
    start..(start + text.trim().len())
}

impl Checker<'_> {
    /// The byte range of a part, from the first to the last of its tokens with a known place.
    fn span(&self, expr: &IdedExpr) -> Range<usize> {
        let mut span: Option<Range<usize>> = None;
        self.widen(expr, &mut span);
        let span = span.unwrap_or_else(|| trimmed(self.text));
        let end = span.end.min(self.text.len());
        span.start.min(end)..end
    }

    fn widen(&self, expr: &IdedExpr, span: &mut Option<Range<usize>>) {
        if let Some((start, stop)) = self.info.offset_for(expr.id) {
            let own = start as usize..stop as usize + 1;
            *span = Some(match span.take() {
                Some(span) => span.start.min(own.start)..span.end.max(own.end),
                None => own,
            });
        }
        match &expr.expr {
            Expr::Call(call) => {
                call.target.iter().map(|target| &**target).chain(&call.args).for_each(|part| self.widen(part, span))
            }
            Expr::Select(select) => self.widen(&select.operand, span),
            Expr::List(list) => list.elements.iter().for_each(|part| self.widen(part, span)),
            Expr::Comprehension(each) => {
                self.widen(&each.iter_range, span);
                self.widen(&each.loop_step, span);
            }
            Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Map(_) | Expr::Struct(_) => {}
        }
        if let (Some(path), Some(known)) = (self.path_of(expr), span.as_mut()) {
            known.end = known.end.max(self.path_from(known.start, path.len()).end);
        }
    }

    /// The byte range of a call's operator, or of its function name.
    fn operator_or_name(&self, id: u64, at: &Range<usize>) -> Range<usize> {
        let Some((start, stop)) = self.info.offset_for(id) else { return at.clone() };
        let own = start as usize..stop as usize + 1;
        if !self.text[own.start..].starts_with('(') {
            return own;
        }
        let name = self.text[..own.start].trim_end();
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let begin = name.rfind(|letter| !is_word(letter)).map_or(0, |place| place + 1);
        if begin < name.len() { begin..name.len() } else { own }
    }

    /// The byte range of a path with this number of words, which begins at byte `start`.
    fn path_from(&self, start: usize, words: usize) -> Range<usize> {
        let mut end = token_at(self.text, start).end;
        for _ in 1..words {
            let rest = self.text[end..].trim_start();
            let next = self.text.len() - rest.len();
            end = match rest.chars().next() {
                Some('.') => {
                    let name = rest[1..].trim_start();
                    token_at(self.text, self.text.len() - name.len()).end
                }
                Some('[') => rest.find(']').map_or(self.text.len(), |close| next + close + 1),
                _ => end,
            };
        }
        start..end
    }

    fn part(&mut self, expr: IdedExpr) -> Checks<Part> {
        let at = self.span(&expr);
        let id = expr.id;
        if let Some(path) = self.path_of(&expr) {
            let at = self.path_from(at.start, path.len());
            return self.variable(id, &path, at);
        }
        match expr.expr {
            Expr::Literal(literal) => literal_part(id, literal, at),
            Expr::List(list) => self.list(id, list, at),
            Expr::Call(call) => self.call(id, call, at),
            Expr::Comprehension(each) => self.comprehension(id, *each, at),
            Expr::Select(select) if select.test => {
                Err(ExpressionError::new(self.operator_or_name(id, &at), "`has` is not available")
                    .help("a missing label reads as \"\": write `node.labels.name != \"\"`"))
            }
            Expr::Select(select) => {
                let operand = self.span(&select.operand);
                let part = self.part(*select.operand)?;
                let message = format!("{} has no part `{}`", part.kind.name(), select.field);
                Err(ExpressionError::new(operand, message))
            }
            Expr::Map(_) | Expr::Struct(_) => {
                Err(ExpressionError::new(at, "maps are not available").help("lists can: `[\"a\", \"b\"]`"))
            }
            Expr::Unspecified | Expr::Ident(_) => Err(ExpressionError::new(at, "a value is missing")),
        }
    }

    /// The words of a path such as `node.labels.zone`; `None` if the expression is not a path.
    fn path_of(&self, expr: &IdedExpr) -> Option<Vec<String>> {
        match &expr.expr {
            Expr::Ident(name) => Some(vec![name.clone()]),
            Expr::Select(select) if !select.test => {
                let mut path = self.path_of(&select.operand)?;
                path.push(select.field.clone());
                Some(path)
            }
            Expr::Call(CallExpr { func_name, args, .. }) if func_name == operators::INDEX => {
                let [labels, key] = args.as_slice() else { return None };
                let mut path = self.path_of(labels)?;
                let Expr::Literal(LiteralValue::String(key)) = &key.expr else { return None };
                let is_labels = |variable: &Variable| variable.is == Type::Labels && variable.path == path.join(".");
                if !self.variables.iter().any(is_labels) {
                    return None;
                }
                path.push(key.inner().to_string());
                Some(path)
            }
            _ => None,
        }
    }

    fn variable(&mut self, id: u64, path: &[String], at: Range<usize>) -> Checks<Part> {
        if let [name] = path
            && let Some(local) = self.locals.iter().rev().find(|local| local.name == *name)
        {
            let expr = IdedExpr { id, expr: Expr::Ident(name.clone()) };
            return Ok(Part { expr, kind: local.kind, steps: 1, elements: ASSUMED_ELEMENTS });
        }
        let written = path.join(".");
        let variables = self.variables;
        let exact = variables.iter().find(|variable| variable.path == written);
        let labels = path.split_last().and_then(|(label, owner)| {
            let owner = owner.join(".");
            let is_owner = |variable: &&Variable| variable.is == Type::Labels && variable.path == owner;
            Some((variables.iter().find(is_owner)?, label.clone()))
        });
        let (variable, label) = match (exact, labels) {
            (Some(variable), _) if variable.is == Type::Labels => {
                let message = format!("`{written}` is the map of all labels, but one label is needed");
                return Err(ExpressionError::new(at, message).help(format!("write `{written}.name`")));
            }
            (Some(variable), _) => (variable, None),
            (None, Some((variable, label))) => (variable, Some(label)),
            (None, None) => return Err(self.unknown(&written, at)),
        };
        let is_same = |slot: &Slot| std::ptr::eq(slot.variable, variable) && slot.label == label;
        let place = self.slots.iter().position(is_same).unwrap_or_else(|| {
            self.slots.push(Slot { name: format!("${}", self.slots.len()), variable, label, at });
            self.slots.len() - 1
        });
        let kind = match variable.is {
            Type::Labels => Kind::TEXT,
            is => Kind::Is(is),
        };
        let expr = IdedExpr { id, expr: Expr::Ident(self.slots[place].name.clone()) };
        Ok(Part { expr, kind, steps: 1, elements: ASSUMED_ELEMENTS })
    }

    fn unknown(&self, written: &str, at: Range<usize>) -> ExpressionError {
        let owner = written.split('.').next().unwrap_or(written);
        let of_owner = |path: &str| path.split('.').next() == Some(owner) && path != owner;
        let names: Vec<&'static str> = self.variables.iter().map(|variable| variable.path).collect();
        let parts: Vec<&'static str> = names.iter().copied().filter(|path| of_owner(path)).collect();
        let fault = ExpressionError::new(at, format!("`{written}` is unknown"));
        let is_label = |variable: &&Variable| {
            variable.is == Type::Labels && written.strip_prefix(variable.path).is_some_and(|rest| rest.starts_with('.'))
        };
        if let Some(labels) = self.variables.iter().find(is_label) {
            let name = &written[labels.path.len() + 1..];
            return fault.help(format!("put a name that contains dots in brackets: `{}[\"{name}\"]`", labels.path));
        }
        let among = if parts.is_empty() { &names } else { &parts };
        match nearest(written, among.iter().copied()) {
            Some(name) => fault.help(format!("did you mean `{name}`?")),
            None => fault.help(format!("known are {}", among.join(", "))),
        }
    }

    fn list(&mut self, id: u64, list: ListExpr, at: Range<usize>) -> Checks<Part> {
        let (mut kind, mut steps, mut elements) = (Kind::Nothings, 1u64, Vec::new());
        for element in list.elements {
            let at = self.span(&element);
            let part = self.part(element)?;
            let of = part.kind.list().ok_or_else(|| {
                ExpressionError::new(at.clone(), format!("a list contains numbers or texts, not {}", part.kind.name()))
            })?;
            if kind != Kind::Nothings && kind != of {
                let message = format!("this is {} in {}", part.kind.name(), kind.name());
                return Err(ExpressionError::new(at, message));
            }
            kind = of;
            steps = steps.saturating_add(part.steps);
            elements.push(part.expr);
        }
        if !list.optional_indices.is_empty() {
            return Err(ExpressionError::new(at, "optional elements are not available"));
        }
        let count = elements.len() as u64;
        Ok(Part { expr: IdedExpr { id, expr: Expr::List(ListExpr::new(elements)) }, kind, steps, elements: count })
    }

    /// Refuses `time.hour == 3`, which looks like an hour and is true for one instant.
    fn refuse_equal_hours(&self, name: &str, operands: &[Range<usize>]) -> Checks<()> {
        let is_equality = matches!(name, operators::EQUALS | operators::NOT_EQUALS | operators::IN);
        let hour = operands.iter().find(|span| self.text[(*span).clone()].trim() == HOUR).filter(|_| is_equality);
        hour.map_or(Ok(()), |span| {
            let message = format!("`{HOUR}` has fractions, so it equals a number for one instant only");
            let help = format!("write `{HOUR} >= 3 && {HOUR} < 4` for the hour that begins at 3");
            Err(ExpressionError::new(span.clone(), message).help(help))
        })
    }

    fn call(&mut self, id: u64, call: CallExpr, at: Range<usize>) -> Checks<Part> {
        let CallExpr { func_name, target, args } = call;
        let spans: Vec<Range<usize>> =
            target.iter().map(|part| &**part).chain(&args).map(|part| self.span(part)).collect();
        let is_method = target.is_some();
        let parts = target.into_iter().map(|part| *part).chain(args);
        let parts = parts.map(|part| self.part(part)).collect::<Checks<Vec<Part>>>()?;
        let kinds: Vec<Kind> = parts.iter().map(|part| part.kind).collect();
        let own = self.operator_or_name(id, &at);
        let (name, kinds) = (func_name.as_str(), kinds.as_slice());
        self.refuse_equal_hours(name, &spans)?;
        let kind = kind_of_call(&Called { name, is_method, kinds, at: &at, own: &own, spans: &spans })?;
        let steps = parts.iter().fold(1u64, |sum, part| sum.saturating_add(part.steps));
        // Comparing a list, or searching in a list, takes a step for each element.
        let longest = parts.iter().filter(|part| part.kind.element().is_some()).map(|part| part.elements).max();
        let elements = parts.iter().filter(|part| part.kind.element().is_some()).map(|part| part.elements).sum();
        let mut exprs: Vec<IdedExpr> = parts.into_iter().map(|part| part.expr).collect();
        let target = is_method.then(|| Box::new(exprs.remove(0)));
        let is_size = func_name == "size";
        // Replace CEL's division. It gives infinities and NaN, and CEL fails when it compares NaN.
        let func_name = if func_name == operators::DIVIDE { DIVIDE.to_string() } else { func_name };
        let mut expr = IdedExpr { id, expr: Expr::Call(CallExpr { func_name, target, args: exprs }) };
        if is_size {
            // CEL's `size` returns an integer, but all numbers must be doubles here.
            let call = CallExpr { func_name: "double".to_string(), target: None, args: vec![expr] };
            expr = IdedExpr { id, expr: Expr::Call(call) };
        }
        Ok(Part { expr, kind, steps: steps.saturating_add(longest.unwrap_or(0)), elements })
    }

    /// `all`, `exists`, `exists_one`, `filter` and `map`. The parser has already turned them into a loop over a list.
    fn comprehension(&mut self, id: u64, each: ComprehensionExpr, at: Range<usize>) -> Checks<Part> {
        let range_at = self.span(&each.iter_range);
        let range = self.part(each.iter_range)?;
        let Some(element) = range.kind.element() else {
            let message = format!("this is {}, but a list is needed", range.kind.name());
            return Err(ExpressionError::new(range_at, message));
        };
        if each.iter_var2.is_some() {
            return Err(ExpressionError::new(at, "macros with two variables are not available"));
        }
        let depth = self.locals.len();
        let init = self.part(each.accu_init)?;
        self.locals.push(Local { name: each.accu_var.clone(), kind: init.kind });
        self.locals.push(Local { name: each.iter_var.clone(), kind: element });
        let condition = self.part(each.loop_cond)?;
        let mut step = self.part(each.loop_step.clone())?;
        if init.kind == Kind::Nothings && step.kind != Kind::Nothings {
            // `map` and `filter` start with an empty list. The first check of the step finds the type of the added
            // elements, so check again with that type.
            self.locals[depth].kind = step.kind;
            step = self.part(each.loop_step)?;
        }
        if step.kind != self.locals[depth].kind {
            let message = format!("this is {}, but it must be {}", step.kind.name(), init.kind.name());
            return Err(ExpressionError::new(at, message));
        }
        self.locals.truncate(depth + 1);
        let result = self.part(each.result)?;
        self.locals.truncate(depth);
        let once = condition.steps.saturating_add(step.steps).saturating_add(1);
        let steps = once.saturating_mul(range.elements).saturating_add(range.steps).saturating_add(result.steps);
        let expr = Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range: range.expr,
            iter_var: each.iter_var,
            iter_var2: None,
            accu_var: each.accu_var,
            accu_init: init.expr,
            loop_cond: condition.expr,
            loop_step: step.expr,
            result: result.expr,
        }));
        Ok(Part { expr: IdedExpr { id, expr }, kind: result.kind, steps, elements: range.elements })
    }
}

/// A literal. A number becomes a double.
fn literal_part(id: u64, literal: LiteralValue, at: Range<usize>) -> Checks<Part> {
    let number = |value: f64| LiteralValue::Double(CelDouble::from(value));
    let (literal, kind) = match literal {
        LiteralValue::Boolean(value) => (LiteralValue::Boolean(value), Kind::BOOL),
        LiteralValue::Double(value) => (LiteralValue::Double(value), Kind::NUMBER),
        LiteralValue::Int(value) => (number(*value.inner() as f64), Kind::NUMBER),
        LiteralValue::UInt(value) => (number(*value.inner() as f64), Kind::NUMBER),
        LiteralValue::String(value) => (LiteralValue::String(value), Kind::TEXT),
        LiteralValue::Null => return Err(ExpressionError::new(at, "no value is ever `null`")),
        LiteralValue::Bytes(_) => {
            return Err(ExpressionError::new(at, "bytes are not available").help("write a text, without the `b`"));
        }
    };
    Ok(Part { expr: IdedExpr { id, expr: Expr::Literal(literal) }, kind, steps: 1, elements: 0 })
}

/// The name of a division in which a division by zero gives 0. A user's expression cannot contain this name.
pub(super) const DIVIDE: &str = "$divide";

/// The names of the available functions.
const FUNCTIONS: [&str; 9] =
    ["size", "startsWith", "endsWith", "contains", "exists", "all", "exists_one", "filter", "map"];

/// The variable that counts the hours of the day.
const HOUR: &str = "time.hour";

/// A call whose operands have been checked.
struct Called<'a> {
    name: &'a str,
    is_method: bool,
    kinds: &'a [Kind],
    /// The byte range of the call. `own` is the range of its operator or name, and `spans` has the range of each
    /// operand.
    at: &'a Range<usize>,
    own: &'a Range<usize>,
    spans: &'a [Range<usize>],
}

impl Called<'_> {
    fn expect(&self, place: usize, wanted: Kind, because: &str) -> Checks<()> {
        if self.kinds[place] == wanted {
            return Ok(());
        }
        let message = format!("this is {}, but {because} {}", self.kinds[place].name(), wanted.name());
        Err(ExpressionError::new(self.spans[place].clone(), message))
    }
}

/// The type of a call.
fn kind_of_call(call: &Called<'_>) -> Checks<Kind> {
    let sign = sign_of(call.name);
    match (call.name, call.kinds) {
        (operators::CONDITIONAL, [_, then, other]) => {
            call.expect(0, Kind::BOOL, "`?` needs")?;
            if then.element().is_some() && *other == Kind::Nothings {
                return Ok(*then);
            }
            if then != other {
                let message = format!("this is {}, but the value before `:` is {}", other.name(), then.name());
                return Err(ExpressionError::new(call.spans[2].clone(), message).help("both must have the same type"));
            }
            Ok(*then)
        }
        (operators::LOGICAL_AND | operators::LOGICAL_OR, [_, _]) => {
            let because = format!("`{sign}` needs");
            (0..2).try_for_each(|place| call.expect(place, Kind::BOOL, &because))?;
            Ok(Kind::BOOL)
        }
        (operators::LOGICAL_NOT | operators::NOT_STRICTLY_FALSE, [_]) => {
            call.expect(0, Kind::BOOL, "`!` needs")?;
            Ok(Kind::BOOL)
        }
        (operators::ADD, [one, other]) if one.element().is_some() && other.element().is_some() => {
            match (*one, *other) {
                (Kind::Nothings, kind) | (kind, Kind::Nothings) => Ok(kind),
                (one, other) if one == other => Ok(one),
                _ => Err(ExpressionError::new(call.own.clone(), "the two lists have different types")),
            }
        }
        (operators::ADD | operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE, [_, _]) => {
            let because = format!("`{sign}` needs");
            (0..2).try_for_each(|place| call.expect(place, Kind::NUMBER, &because))?;
            Ok(Kind::NUMBER)
        }
        (operators::NEGATE, [_]) => {
            call.expect(0, Kind::NUMBER, "`-` needs")?;
            Ok(Kind::NUMBER)
        }
        (operators::EQUALS | operators::NOT_EQUALS, [one, other]) => {
            let is_empty_list = |one: &Kind, other: &Kind| *one == Kind::Nothings && other.element().is_some();
            if one != other && !is_empty_list(one, other) && !is_empty_list(other, one) {
                let message = format!("{} is never equal to {}", one.name(), other.name());
                return Err(ExpressionError::new(call.own.clone(), message));
            }
            Ok(Kind::BOOL)
        }
        (
            operators::LESS
            | operators::LESS_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS
            | operators::IN
            | operators::MODULO
            | operators::INDEX,
            _,
        ) => kind_of_comparison(call),
        _ => kind_of_function(call),
    }
}

/// The type of a comparison by size, or of a search in a list.
fn kind_of_comparison(call: &Called<'_>) -> Checks<Kind> {
    let sign = sign_of(call.name);
    match (call.name, call.kinds) {
        (operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS, [one, other]) => {
            if one != other || !matches!(*one, Kind::NUMBER | Kind::TEXT) {
                let message =
                    format!("`{sign}` compares two numbers or two texts, not {} with {}", one.name(), other.name());
                return Err(ExpressionError::new(call.own.clone(), message));
            }
            Ok(Kind::BOOL)
        }
        (operators::IN, [one, list]) => match list.element() {
            Some(element) if element == *one || element == Kind::Nothings => Ok(Kind::BOOL),
            Some(element) => {
                let message = format!("this is {}, but the list contains {}", one.name(), plural(element));
                Err(ExpressionError::new(call.spans[0].clone(), message))
            }
            None => {
                let message = format!("this is {}, but `in` needs a list", list.name());
                Err(ExpressionError::new(call.spans[1].clone(), message))
            }
        },
        (operators::MODULO, _) => {
            Err(ExpressionError::new(call.own.clone(), "`%` is not available, because all numbers are doubles"))
        }
        (operators::INDEX, [_, _]) => Err(ExpressionError::new(call.at.clone(), "only labels have named parts")
            .help("use `in` or `exists` to search a list")),
        _ => kind_of_function(call),
    }
}

/// The type of a call by name.
fn kind_of_function(call: &Called<'_>) -> Checks<Kind> {
    let name = call.name;
    match (name, call.kinds) {
        ("size", [one]) => match *one {
            Kind::TEXT => Ok(Kind::NUMBER),
            kind if kind.element().is_some() => Ok(Kind::NUMBER),
            kind => Err(ExpressionError::new(call.spans[0].clone(), format!("{} has no size", kind.name()))),
        },
        ("startsWith" | "endsWith" | "contains", [_, _]) if call.is_method => {
            let because = format!("`{name}` needs");
            (0..2).try_for_each(|place| call.expect(place, Kind::TEXT, &because))?;
            Ok(Kind::BOOL)
        }
        (known, _) if FUNCTIONS.contains(&known) => {
            let example = match known {
                "size" => "size(gpus.types)",
                "startsWith" | "endsWith" | "contains" => "node.machine.startsWith(\"a100\")",
                _ => "gpus.types.exists(gpu, gpu == \"l4\")",
            };
            Err(ExpressionError::new(call.at.clone(), format!("`{known}` cannot be called like this"))
                .help(format!("write it like `{example}`")))
        }
        _ => {
            let fault = ExpressionError::new(call.own.clone(), format!("there is no function `{name}`"));
            Err(match nearest(name, FUNCTIONS) {
                _ if name == "max" => fault.help("write `a > b ? a : b`"),
                _ if name == "min" => fault.help("write `a < b ? a : b`"),
                _ if matches!(name, "duration" | "timestamp") => fault.help("times are in seconds: 3600 is an hour"),
                Some(name) => fault.help(format!("did you mean `{name}`?")),
                None => fault.help(format!("there are {}", FUNCTIONS.join(", "))),
            })
        }
    }
}

fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::NUMBER => "numbers",
        Kind::TEXT => "texts",
        other => other.name(),
    }
}

/// The operator as the user writes it.
fn sign_of(name: &str) -> &str {
    name.trim_matches('_')
}

/// Refuses a text that is too long or too deeply nested for the parser.
pub(super) fn refuse_monsters(text: &str) -> Checks<()> {
    const DEEPEST: u32 = 24;
    let count = text.chars().count();
    if count > MOST_CHARACTERS {
        let message = format!("the expression has {count} characters, but the limit is {MOST_CHARACTERS}");
        return Err(ExpressionError::new(trimmed(text), message));
    }
    let (mut depth, mut signs, mut quote) = (0u32, 0u32, None);
    for (place, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, '?') => depth += 1,
            (None, _) => {}
        }
        signs = match letter {
            '!' | '-' => signs + 1,
            letter if letter.is_whitespace() => signs,
            _ => 0,
        };
        if depth > DEEPEST || signs > DEEPEST {
            let message = format!("the expression is nested more than {DEEPEST} levels deep here");
            return Err(ExpressionError::new(place..place + letter.len_utf8(), message));
        }
    }
    Ok(())
}
