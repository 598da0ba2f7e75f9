//! Reads templates and conditions before anything runs: do they parse, and is everything there that they name?

use std::collections::HashMap;
use std::ops::Range;

use engine::StepIx;
use engine::definition::Items;
use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, Filter, Spanned, Stmt, UnaryOpKind};
use minijinja::machinery::{self, Token};

use super::environment::{FILTERS, TESTS};
use crate::diagnostic::Code;
use crate::lower::nearest::{did_you_mean, either};

/// Deeper or longer expressions are programs, and belong into a step. It also bounds the parser's recursion.
const EXPRESSION_TOKENS_MAX: usize = 300;

const FUNCTIONS: [&str; 4] = ["success", "failure", "always", "cancelled"];
const STEP_FIELDS: [&str; 3] = ["state", "output", "error"];

/// The steps of a task by name, and in the order of the file, so that hints are always the same.
#[derive(Debug)]
pub(crate) struct StepNames<'a> {
    by_name: HashMap<&'a str, StepIx>,
    in_order: Vec<&'a str>,
}

impl<'a> StepNames<'a> {
    pub(crate) fn new(names: impl Iterator<Item = &'a str>) -> StepNames<'a> {
        let in_order: Vec<&str> = names.collect();
        let by_name = in_order.iter().enumerate().map(|(index, &name)| (name, StepIx::of(index))).collect();
        StepNames { by_name, in_order }
    }

    pub(crate) fn find(&self, name: &str) -> Option<StepIx> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn in_order(&self) -> impl Iterator<Item = &'a str> {
        self.in_order.iter().copied()
    }
}

/// What expressions at one place may name.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    /// Declared inputs; true for those that hold numbers.
    pub(crate) inputs: &'a HashMap<String, bool>,
    /// None where no step may be named: the task's own `env` is the same for all of them.
    pub(crate) steps: Option<&'a StepNames<'a>>,
    /// What a fan-out goes over; none outside of one.
    pub(crate) items: Option<&'a Items>,
    /// There will be items, and there are none yet.
    pub(crate) before_items: bool,
    /// How the job ended: only in what follows on that.
    pub(crate) outcome: bool,
    /// What was noticed: only in what follows on that.
    pub(crate) notice: bool,
    /// `success()` and its like: only in `if`.
    pub(crate) functions: bool,
    /// Whether hints that cost a walk over all steps are wanted.
    pub(crate) hints: bool,
}

/// A problem within a text; the caller knows where the text stands.
#[derive(Debug)]
pub(crate) struct Issue {
    pub(crate) code: Code,
    pub(crate) range: Range<usize>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// Texts that were accepted without this rule are still read.
    pub(crate) is_later_rule: bool,
}

/// What an expression needs, and what is wrong with it.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// Steps that it names, each with the place.
    pub(crate) uses: Vec<(StepIx, Range<usize>)>,
    /// It calls `success()` or one of its like.
    pub(crate) asks_outcome: bool,
    /// A condition that depends on nothing: it is always the same value.
    pub(crate) is_constant: bool,
    pub(crate) issues: Vec<Issue>,
}

/// A text with `{{ … }}` in it.
pub(crate) fn template(text: &str, names: Names<'_>) -> Checked {
    let mut walk = Walk { names, text, asks: false, found: Checked::default() };
    if walk.is_short_enough(false) {
        match machinery::parse(text, "template", super::syntax().clone()) {
            Ok(Stmt::Template(template)) => template.children.iter().for_each(|stmt| walk.statement(stmt)),
            Ok(other) => walk.statement(&other),
            Err(error) => walk.syntax_error(&error, Some("for the two characters `{{` themselves write `{{ '{{' }}`")),
        }
    }
    walk.found
}

/// The expression of an `if`.
pub(crate) fn condition(text: &str, names: Names<'_>) -> Checked {
    let mut walk = Walk { names, text, asks: false, found: Checked::default() };
    if super::is_template(text) {
        let hint = "the whole value is an expression: write `always()`, not `{{ always() }}`".to_owned();
        walk.issue(Code::BadTemplate, 0..text.len(), "a condition needs no `{{ }}`".to_owned(), Some(hint));
    } else if walk.is_short_enough(true) {
        match machinery::parse_expr(text) {
            Ok(expression) => {
                walk.expression(&expression);
                walk.found.is_constant = !walk.asks && walk.found.issues.is_empty();
            }
            Err(error) => walk.syntax_error(&error, None),
        }
    }
    walk.found
}

struct Walk<'a> {
    names: Names<'a>,
    text: &'a str,
    /// There is a name or a call in it.
    asks: bool,
    found: Checked,
}

/// One link of `steps.build.output`.
enum Link<'e> {
    Name(&'e str, Range<usize>),
    Computed(&'e Expr<'e>),
}

impl<'a> Walk<'a> {
    /// Counts tokens before the parser recurses over them. What cannot be read as tokens is left to the parser.
    fn is_short_enough(&mut self, in_expression: bool) -> bool {
        let mut tokens = 0;
        for token in machinery::tokenize(self.text, in_expression, super::syntax().clone()) {
            match token {
                Ok((Token::TemplateData(_) | Token::VariableStart, _)) => tokens = 0,
                Ok((_, span)) => {
                    tokens += 1;
                    if tokens > EXPRESSION_TOKENS_MAX {
                        let at = span.start_offset as usize;
                        let message = format!("this expression has more than {EXPRESSION_TOKENS_MAX} words and signs");
                        self.issue(Code::Limit, at..at, message, Some("compute it in a step".to_owned()));
                        return false;
                    }
                }
                Err(_) => return true,
            }
        }
        true
    }

    fn statement(&mut self, stmt: &Stmt<'_>) {
        match stmt {
            Stmt::EmitRaw(_) => {}
            Stmt::EmitExpr(emit) => self.expression(&emit.expr),
            _ => {
                let message = "only `{{ … }}` is known here, no statements".to_owned();
                self.issue(Code::BadTemplate, 0..self.text.len(), message, None);
            }
        }
    }

    fn expression(&mut self, expr: &Expr<'_>) {
        match expr {
            Expr::Const(_) => {}
            Expr::Var(_) | Expr::GetAttr(_) | Expr::GetItem(_) => self.reference(expr),
            Expr::Slice(slice) => {
                self.expression(&slice.expr);
                [&slice.start, &slice.stop, &slice.step].into_iter().flatten().for_each(|e| self.expression(e));
                slice.step.iter().for_each(|step| self.must_go_forward(step));
            }
            Expr::UnaryOp(unary) => self.expression(&unary.expr),
            Expr::BinOp(binary) => {
                self.expression(&binary.left);
                self.expression(&binary.right);
                if matches!(binary.op, BinOpKind::Mul) {
                    self.must_be_number(&binary.left);
                    self.must_be_number(&binary.right);
                }
            }
            Expr::Compare(compare) => {
                self.expression(&compare.expr);
                compare.ops.iter().for_each(|op| self.expression(&op.expr));
            }
            Expr::IfExpr(choice) => {
                self.expression(&choice.test_expr);
                self.expression(&choice.true_expr);
                choice.false_expr.iter().for_each(|e| self.expression(e));
            }
            Expr::Filter(filter) => self.filter(filter),
            Expr::Test(test) => {
                self.known("test", test.name, &TESTS, bytes(test.span()));
                self.expression(&test.expr);
                self.arguments(&test.args);
            }
            Expr::Call(call) => self.call(&call.expr, &call.args, bytes(call.span())),
            Expr::List(list) => list.items.iter().for_each(|e| self.expression(e)),
            Expr::Tuple(tuple) => tuple.items.iter().for_each(|e| self.expression(e)),
            Expr::Map(map) => map.keys.iter().chain(&map.values).for_each(|e| self.expression(e)),
        }
    }

    fn filter(&mut self, filter: &Spanned<Filter<'_>>) {
        self.known("filter", filter.name, &FILTERS, bytes(filter.span()));
        filter.expr.iter().for_each(|e| self.expression(e));
        self.arguments(&filter.args);
    }

    fn arguments(&mut self, args: &[CallArg<'_>]) {
        for arg in args {
            match arg {
                CallArg::Pos(e) | CallArg::Kwarg(_, e) | CallArg::PosSplat(e) | CallArg::KwargSplat(e) => {
                    self.expression(e);
                }
            }
        }
    }

    fn call(&mut self, callee: &Expr<'_>, args: &[CallArg<'_>], range: Range<usize>) {
        self.asks = true;
        self.arguments(args);
        let Expr::Var(function) = callee else {
            let message = "only functions can be called here, values have none".to_owned();
            self.issue(
                Code::BadTemplate,
                range,
                message,
                Some(format!("filters are written `value | {}`", FILTERS[0])),
            );
            return;
        };
        if !FUNCTIONS.contains(&function.id) {
            let hint =
                did_you_mean(function.id, FUNCTIONS).or_else(|| Some(format!("there are {}", either(FUNCTIONS))));
            self.issue(Code::UnknownReference, range, format!("there is no function `{}`", function.id), hint);
        } else if !self.names.functions {
            let message = format!("`{}()` is known only in `if`", function.id);
            self.issue(Code::BadTemplate, range, message, None);
        } else if !args.is_empty() {
            self.issue(Code::BadTemplate, range, format!("`{}()` takes no arguments", function.id), None);
        }
        self.found.asks_outcome = true;
    }

    /// A name with what follows it: `input.version`, `steps['my-step'].output.sha`.
    fn reference(&mut self, expr: &Expr<'_>) {
        let (root, links) = unfold(expr);
        let Expr::Var(root) = root else {
            self.expression(root);
            return;
        };
        for link in &links {
            if let Link::Computed(inner) = link {
                self.expression(inner);
            }
        }
        self.asks = true;
        let range = bytes(root.span());
        match root.id {
            "input" => self.input(&links),
            "steps" => self.step(&links, range),
            "job" if self.names.outcome => self.field("job", &["id", "state", "error"], &links, range),
            "job" => self.field("job", &["id"], &links, range),
            "task" => self.field("task", &["name"], &links, range),
            "notice" if self.names.notice => self.field("notice", &["kind", "text", "step"], &links, range),
            "notice" => {
                let hint = Some("`notice` is known only in `on_notice`".to_owned());
                self.issue(Code::UnknownReference, range, "there is no `notice` here".to_owned(), hint);
            }
            "item" if let Some(items) = self.names.items => self.item(items, &links),
            "item" => {
                let hint = match self.names.before_items {
                    true => "`if` is decided once for the whole step, before there are items",
                    false => "`item` is known only in a step with `for_each` or `matrix`",
                };
                let hint = Some(hint.to_owned());
                self.issue(Code::UnknownReference, range, "there is no `item` here".to_owned(), hint);
            }
            other => self.unknown_root(other, range),
        }
    }

    fn input(&mut self, links: &[Link<'_>]) {
        if let Some(Link::Name(name, range)) = links.first()
            && !self.names.inputs.contains_key(*name)
        {
            let declared = self.names.inputs.keys().map(String::as_str);
            let hint = did_you_mean(name, declared)
                .or_else(|| Some(format!("declare it: `input: {{ {name}: {{ type: string }} }}`")));
            self.issue(Code::UnknownReference, range.clone(), format!("there is no input `{name}`"), hint);
        }
    }

    /// What a list holds may be anything; a matrix says what its items have.
    fn item(&mut self, items: &Items, links: &[Link<'_>]) {
        let (Items::Matrix(axes), Some(Link::Name(name, range))) = (items, links.first()) else { return };
        let known = || axes.iter().map(|(axis, _)| axis.as_str());
        if known().all(|axis| axis != *name) {
            let hint = did_you_mean(name, known()).or_else(|| Some(format!("it has {}", either(known()))));
            let message = format!("the matrix has no axis `{name}`");
            let (code, range) = (Code::UnknownReference, range.clone());
            self.found.issues.push(Issue { code, range, message, hint, is_later_rule: true });
        }
    }

    fn step(&mut self, links: &[Link<'_>], root: Range<usize>) {
        let Some(steps) = self.names.steps else {
            let hint = Some("say it in a step that needs them, as in its `env`".to_owned());
            self.issue(
                Code::UnknownReference,
                root,
                "steps cannot be named here: this is filled in before any of them".to_owned(),
                hint,
            );
            return;
        };
        let Some(Link::Name(name, range)) = links.first() else {
            let message = "`steps` needs the name of one step, written out".to_owned();
            self.issue(Code::UnknownReference, root, message, Some("as in `steps.build.output.sha`".to_owned()));
            return;
        };
        let Some(step) = steps.find(name) else {
            let meant = || hyphenated(name, steps).or_else(|| did_you_mean(name, steps.in_order()));
            let hint = if self.names.hints { meant() } else { None };
            self.issue(Code::UnknownReference, range.clone(), format!("there is no step `{name}`"), hint);
            return;
        };
        self.found.uses.push((step, range.clone()));
        self.field(&format!("steps.{name}"), &STEP_FIELDS, &links[1..], range.clone());
    }

    fn field(&mut self, of: &str, fields: &[&'static str], links: &[Link<'_>], root: Range<usize>) {
        match links.first() {
            Some(Link::Name(name, _)) if fields.contains(name) => {}
            Some(Link::Name(name, range)) => {
                let hint = did_you_mean(name, fields.iter().copied())
                    .or_else(|| Some(format!("it has {}", either(fields.iter().copied()))));
                self.issue(Code::UnknownReference, range.clone(), format!("`{of}` has no `{name}`"), hint);
            }
            Some(Link::Computed(_)) | None => {
                let hint = Some(format!("write `{of}.{}`", fields[0]));
                self.issue(Code::UnknownReference, root, format!("`{of}` is no value by itself"), hint);
            }
        }
    }

    fn unknown_root(&mut self, name: &str, range: Range<usize>) {
        const ROOTS: [&str; 4] = ["input", "steps", "job", "task"];
        if matches!(name, "secrets" | "secret") {
            // What a template reads ends up in the database, and in every listing.
            let hint = "name it in the step's `secrets` and read the variable of that name, as in `\"$DEPLOY_KEY\"`";
            let message = "templates cannot read secrets".to_owned();
            return self.issue(Code::UnknownReference, range, message, Some(hint.to_owned()));
        }
        let hint = if FUNCTIONS.contains(&name) && self.names.functions {
            Some(format!("call it: `{name}()`"))
        } else if self.names.inputs.contains_key(name) {
            Some(format!("did you mean `input.{name}`?"))
        } else if self.names.steps.is_some_and(|steps| steps.find(name).is_some()) {
            Some(format!("did you mean `steps.{name}.output`?"))
        } else {
            did_you_mean(name, ROOTS).or_else(|| Some(format!("known names are {}", either(ROOTS))))
        };
        self.issue(Code::UnknownReference, range, format!("there is no `{name}`"), hint);
    }

    /// Backwards, minijinja reads past the end of what is empty, and panics.
    fn must_go_forward(&mut self, step: &Expr<'_>) {
        let forward = match step {
            Expr::Const(constant) => i64::try_from(constant.value.clone()).is_ok_and(|step| step > 0),
            _ => false,
        };
        if !forward {
            let message = "the step of a slice must be a number above zero, written out".to_owned();
            let hint = Some("to turn it around write `value | reverse`".to_owned());
            self.issue(Code::BadTemplate, bytes(step.span()), message, hint);
        }
    }

    /// Texts and lists can be multiplied as well, which is never meant and grows without bounds.
    fn must_be_number(&mut self, expr: &Expr<'_>) {
        if !self.is_number(expr) {
            let hint = Some("make it a number: `(value | int) * 2`".to_owned());
            let message = "`*` multiplies numbers, this may be a text".to_owned();
            self.issue(Code::BadTemplate, bytes(expr.span()), message, hint);
        }
    }

    fn is_number(&self, expr: &Expr<'_>) -> bool {
        match expr {
            Expr::Const(constant) => constant.value.is_number(),
            Expr::UnaryOp(unary) => matches!(unary.op, UnaryOpKind::Neg),
            Expr::BinOp(binary) => match binary.op {
                BinOpKind::Sub
                | BinOpKind::Div
                | BinOpKind::FloorDiv
                | BinOpKind::Rem
                | BinOpKind::Pow
                | BinOpKind::Mul => true,
                BinOpKind::Add => self.is_number(&binary.left) && self.is_number(&binary.right),
                _ => false,
            },
            Expr::Filter(filter) => match filter.name {
                "length" | "count" | "abs" | "round" => true,
                // What they are told to give instead of what they cannot read may be anything.
                "int" | "float" => filter.args.iter().all(|arg| match arg {
                    CallArg::Pos(e) | CallArg::Kwarg(_, e) => self.is_number(e),
                    CallArg::PosSplat(_) | CallArg::KwargSplat(_) => false,
                }),
                _ => false,
            },
            Expr::GetAttr(_) | Expr::GetItem(_) => {
                let (root, links) = unfold(expr);
                match (root, links.as_slice()) {
                    (Expr::Var(root), [Link::Name(name, _)]) if root.id == "input" => {
                        self.names.inputs.get(*name).copied().unwrap_or(true)
                    }
                    _ => false,
                }
            }
            _ => false,
        }
    }

    fn known(&mut self, what: &str, name: &str, known: &[&'static str], range: Range<usize>) {
        if !known.contains(&name) {
            let hint = did_you_mean(name, known.iter().copied());
            self.issue(Code::BadTemplate, range, format!("there is no {what} `{name}`"), hint);
        }
    }

    fn syntax_error(&mut self, error: &minijinja::Error, hint: Option<&str>) {
        let range = error.range().filter(|r| self.text.get(r.clone()).is_some()).unwrap_or(0..self.text.len());
        let message = format!("this expression cannot be read: {}", error.detail().unwrap_or("syntax error"));
        self.issue(Code::BadTemplate, range, message, hint.map(str::to_owned));
    }

    fn issue(&mut self, code: Code, range: Range<usize>, message: String, hint: Option<String>) {
        self.found.issues.push(Issue { code, range, message, hint, is_later_rule: false });
    }
}

/// From `a.b['c']` to `a` and its links.
fn unfold<'e>(expr: &'e Expr<'e>) -> (&'e Expr<'e>, Vec<Link<'e>>) {
    let mut links = Vec::new();
    let mut rest = expr;
    loop {
        match rest {
            Expr::GetAttr(get) => {
                links.push(Link::Name(get.name, bytes(get.span())));
                rest = &get.expr;
            }
            Expr::GetItem(get) => {
                links.push(match &get.subscript_expr {
                    Expr::Const(constant) => match constant.value.as_str() {
                        Some(name) => Link::Name(name, bytes(get.span())),
                        None => Link::Computed(&get.subscript_expr),
                    },
                    computed => Link::Computed(computed),
                });
                rest = &get.expr;
            }
            _ => break,
        }
    }
    links.reverse();
    // A link's own span begins at its dot; people look for the whole of `steps.build.output`.
    let start = bytes(rest.span()).start;
    for link in &mut links {
        if let Link::Name(_, range) = link {
            range.start = start;
        }
    }
    (rest, links)
}

/// `steps.my-step` reads as `steps.my` minus `step`.
fn hyphenated(name: &str, steps: &StepNames<'_>) -> Option<String> {
    let meant = steps.in_order().find(|step| step.strip_prefix(name).is_some_and(|rest| rest.starts_with('-')))?;
    Some(format!("a name with `-` is written `steps['{meant}']`"))
}

fn bytes(span: machinery::Span) -> Range<usize> {
    span.start_offset as usize..span.end_offset as usize
}
