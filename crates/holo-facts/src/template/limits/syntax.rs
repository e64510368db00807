//! Adds filters to the source of templates that check the results of operators, and of lists and tables, and that count
//! the text outside of tags.

use super::{DEEP, EACH, PRINTED, SHALLOW};
use minijinja::machinery::ast::{BinOpKind, CallArg, Expr, Spanned, Stmt};
use minijinja::machinery::{Span, Token, ast, parse, parse_expr, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind};
use std::ops::Range;
use std::vec::IntoIter;

/// Returns the source of a template or, without a syntax, of an expression, with checks. The lines remain the same.
///
/// # Errors
/// If it is invalid.
pub(in super::super) fn with_checks(name: &str, source: &str, syntax: Option<&SyntaxConfig>) -> Result<String, Error> {
    // The spans of expressions have no more bits.
    if u32::try_from(source.len()).is_err() {
        super::within(source.len())?;
    }
    let Positions { tildes, loops } = Positions::of(source, syntax.is_none(), syntax.cloned().unwrap_or_default())?;
    let mut checks = Checks { insertions: Vec::new(), loops: loops.into_iter() };
    match syntax {
        Some(syntax) => {
            let parsed = parse(source, name, syntax.clone())?;
            if let (size @ 1.., (open, close)) = (raw_size(&parsed), syntax.variable_delimiters()) {
                checks.insertions.push((0, format!("{open} ''|{PRINTED}({size}) {close}")));
            }
            checks.statement(&parsed);
        }
        None => checks.expression(&parse_expr(source)?),
    }
    // The left operands of `~`, which also formats lists and tables.
    checks.insertions.extend(tildes.into_iter().map(|position| (position, format!("|{DEEP} "))));
    Ok(checks.added_to(source))
}

/// The maximum number of operators in an expression, and of `elif` in a template. The parser and the compiler call
/// themselves for each of them, and with very many would overflow the stack.
const MAX_OPERATORS: usize = 2000;
/// In a chain of `+` or `~`, only the result of each of so many operators is checked: a check encloses everything before
/// it in parentheses, which the parser limits to 75 levels.
const CHECKED_EACH: usize = 4;

/// Positions that the parsed template does not contain.
#[derive(Debug, Default)]
struct Positions {
    /// The operators `~`.
    tildes: Vec<usize>,
    /// The expressions after `in` of all loops.
    loops: Vec<Range<usize>>,
}

impl Positions {
    /// Finds the positions.
    ///
    /// # Errors
    /// If an expression has too many operators.
    fn of(source: &str, is_expression: bool, syntax: SyntaxConfig) -> Result<Positions, Error> {
        let mut found = Positions::default();
        let (mut operators, mut alternatives) = (0, 0);
        let mut block = Vec::new();
        for token in tokenize(source, is_expression, syntax) {
            // The parser reports invalid tokens.
            let Ok((token, span)) = token else { break };
            match token {
                Token::VariableEnd | Token::BlockEnd => operators = 0,
                Token::Ident("elif") => alternatives += 1,
                Token::Ident("not" | "and" | "or" | "if" | "is" | "in")
                | Token::Plus
                | Token::Minus
                | Token::Mul
                | Token::Div
                | Token::FloorDiv
                | Token::Pow
                | Token::Mod
                | Token::Tilde
                | Token::Dot
                | Token::Pipe
                | Token::Eq
                | Token::Ne
                | Token::Gt
                | Token::Gte
                | Token::Lt
                | Token::Lte
                | Token::BracketOpen
                | Token::ParenOpen => operators += 1,
                _ => {}
            }
            if matches!(token, Token::Tilde) {
                found.tildes.push(span.start_offset as usize);
            }
            if operators > MAX_OPERATORS || alternatives > MAX_OPERATORS {
                let line = span.start_line;
                let problem =
                    format!("line {line}: an expression has more than {MAX_OPERATORS} operators or alternatives");
                return Err(Error::new(ErrorKind::SyntaxError, problem));
            }
            let ends_block = matches!(token, Token::BlockEnd);
            if matches!(token, Token::BlockStart) {
                block.clear();
            } else {
                block.push((token, span));
            }
            if ends_block {
                found.loops.extend(iterated(&block));
            }
        }
        Ok(found)
    }
}

/// Returns the position of the expression after `in`, if these are the tokens of a loop.
fn iterated(tokens: &[(Token<'_>, Span)]) -> Option<Range<usize>> {
    let (Token::Ident("for"), _) = tokens.first()? else { return None };
    let mut depth = 0;
    let mut start = None;
    for (index, (token, span)) in tokens.iter().enumerate().skip(1) {
        match token {
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => depth += 1,
            Token::ParenClose | Token::BracketClose | Token::BraceClose => depth -= 1,
            Token::Ident("in") if depth == 0 && start.is_none() => start = Some(span.end_offset as usize),
            Token::Ident("if") if depth == 0 => return Some(start?..span.start_offset as usize),
            Token::BlockEnd => {
                let is_recursive = match tokens.get(..index)? {
                    [.., (before, _), (Token::Ident("recursive"), _)] => ends_expression(before),
                    _ => false,
                };
                let (_, end) = tokens.get(index - usize::from(is_recursive))?;
                return Some(start?..end.start_offset as usize);
            }
            _ => {}
        }
    }
    None
}

/// Returns true if a word that follows this token is not a part of the expression before it.
fn ends_expression(token: &Token<'_>) -> bool {
    match token {
        Token::Ident(name) => !["and", "in", "is", "not", "or"].contains(name),
        Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_) => true,
        _ => matches!(token, Token::ParenClose | Token::BracketClose | Token::BraceClose),
    }
}

/// Returns true for operators whose results are at most as large as their operands together.
fn is_addition(operator: BinOpKind) -> bool {
    matches!(operator, BinOpKind::Add | BinOpKind::Concat)
}

/// Returns the size of the text outside of tags that is printed each time a statement is executed, without that of loops
/// in it, which count theirs, and of macros, whose results are counted where they are printed.
fn raw_size(statement: &Stmt<'_>) -> usize {
    let all = |statements: &[Stmt<'_>]| statements.iter().map(raw_size).sum();
    match statement {
        Stmt::EmitRaw(raw) => raw.raw.len(),
        Stmt::Template(template) => all(&template.children),
        Stmt::IfCond(condition) => all(&condition.true_body).max(all(&condition.false_body)),
        Stmt::WithBlock(with) => all(&with.body),
        Stmt::SetBlock(set) => all(&set.body),
        Stmt::AutoEscape(escape) => all(&escape.body),
        Stmt::FilterBlock(block) => all(&block.body),
        Stmt::Block(block) => all(&block.body),
        Stmt::ForLoop(each) => all(&each.else_body),
        _ => 0,
    }
}

/// The texts to insert, each with its position.
#[derive(Debug, Default)]
struct Checks {
    insertions: Vec<(usize, String)>,
    /// The positions of the lists of the loops that have not been visited yet.
    loops: IntoIter<Range<usize>>,
}

impl Checks {
    fn added_to(mut self, source: &str) -> String {
        // This keeps the order of insertions at the same position, which begins with the innermost expression.
        self.insertions.sort_by_key(|&(position, _)| position);
        let mut text = String::with_capacity(source.len() + 32 * self.insertions.len());
        let mut rest = 0;
        for (position, insertion) in &self.insertions {
            text.push_str(source.get(rest..*position).unwrap_or_default());
            text.push_str(insertion);
            rest = *position;
        }
        text.push_str(source.get(rest..).unwrap_or_default());
        text
    }

    /// Checks the result of an operator. Filters bind more tightly than operators.
    fn check_operator(&mut self, span: Span) {
        self.insertions.push((span.start_offset as usize, "(".to_owned()));
        self.insertions.push((span.end_offset as usize, format!(")|{SHALLOW}")));
    }

    /// Checks a list or table. Subscripts bind more tightly than filters.
    fn check_literal(&mut self, span: Span) {
        self.insertions.push((span.start_offset as usize, "(".to_owned()));
        self.insertions.push((span.end_offset as usize, format!("|{DEEP})")));
    }

    fn statements(&mut self, statements: &[Stmt<'_>]) {
        statements.iter().for_each(|statement| self.statement(statement));
    }

    fn statement(&mut self, statement: &Stmt<'_>) {
        match statement {
            Stmt::Template(template) => self.statements(&template.children),
            Stmt::EmitExpr(emit) => self.expression(&emit.expr),
            Stmt::EmitRaw(_) => {}
            Stmt::ForLoop(each) => {
                let size: usize = each.body.iter().map(raw_size).sum();
                let counted = self.loops.next().filter(|_| size > 0);
                self.insertions.extend(counted.clone().map(|list| (list.start, "(".to_owned())));
                self.expression(&each.iter);
                self.insertions.extend(counted.map(|list| (list.end, format!(")|{EACH}({size}) "))));
                self.expressions(&each.filter_expr);
                self.statements(&each.body);
                self.statements(&each.else_body);
            }
            Stmt::IfCond(condition) => {
                self.expression(&condition.expr);
                self.statements(&condition.true_body);
                self.statements(&condition.false_body);
            }
            Stmt::WithBlock(with) => {
                with.assignments.iter().for_each(|(_, value)| self.expression(value));
                self.statements(&with.body);
            }
            Stmt::Set(set) => self.expression(&set.expr),
            Stmt::SetBlock(set) => {
                self.expressions(&set.filter);
                self.statements(&set.body);
            }
            Stmt::AutoEscape(escape) => self.statements(&escape.body),
            Stmt::FilterBlock(block) => {
                self.expression(&block.filter);
                self.statements(&block.body);
            }
            Stmt::Block(block) => self.statements(&block.body),
            Stmt::Import(import) => self.expression(&import.expr),
            Stmt::FromImport(import) => self.expression(&import.expr),
            Stmt::Extends(extends) => self.expression(&extends.name),
            Stmt::Include(include) => self.expression(&include.name),
            Stmt::Macro(declared) => self.declared(declared),
            Stmt::CallBlock(block) => {
                self.call(&block.call);
                self.declared(&block.macro_decl);
            }
            Stmt::Do(call) => self.call(&call.call),
        }
    }

    fn declared(&mut self, declared: &Spanned<ast::Macro<'_>>) {
        self.expressions(&declared.defaults);
        self.statements(&declared.body);
    }

    fn call(&mut self, call: &Spanned<ast::Call<'_>>) {
        self.expression(&call.expr);
        self.arguments(&call.args);
    }

    fn arguments(&mut self, arguments: &[CallArg<'_>]) {
        for argument in arguments {
            match argument {
                CallArg::Pos(value)
                | CallArg::Kwarg(_, value)
                | CallArg::PosSplat(value)
                | CallArg::KwargSplat(value) => self.expression(value),
            }
        }
    }

    fn expressions<'a, 'b: 'a>(&mut self, expressions: impl IntoIterator<Item = &'a Expr<'b>>) {
        expressions.into_iter().for_each(|expression| self.expression(expression));
    }

    /// Adds the checks of an operator, which may be the left operand of another one in a chain. Returns the number of
    /// operators in the chain up to this one.
    fn operator(&mut self, operation: &Spanned<ast::BinOp<'_>>, is_in_chain: bool) -> usize {
        let number = match &operation.left {
            Expr::BinOp(left) if is_addition(left.op) && is_addition(operation.op) => self.operator(left, true) + 1,
            left => {
                self.expression(left);
                1
            }
        };
        self.expression(&operation.right);
        if matches!(operation.op, BinOpKind::Concat) {
            self.insertions.push((operation.span().end_offset as usize, format!("|{DEEP}")));
        }
        let is_due = !is_in_chain || number % CHECKED_EACH == 0;
        if matches!(operation.op, BinOpKind::Mul) || is_addition(operation.op) && is_due {
            self.check_operator(operation.span());
        }
        number
    }

    fn expression(&mut self, expression: &Expr<'_>) {
        match expression {
            Expr::Var(_) | Expr::Const(_) => {}
            Expr::Slice(slice) => {
                self.expression(&slice.expr);
                self.expressions([&slice.start, &slice.stop, &slice.step].into_iter().flatten());
            }
            Expr::UnaryOp(operation) => self.expression(&operation.expr),
            Expr::BinOp(operation) => drop(self.operator(operation, false)),
            Expr::Compare(compare) => {
                self.expression(&compare.expr);
                self.expressions(compare.ops.iter().map(|operation| &operation.expr));
            }
            Expr::IfExpr(choice) => {
                self.expressions([&choice.test_expr, &choice.true_expr]);
                self.expressions(&choice.false_expr);
            }
            Expr::Filter(filter) => {
                self.expressions(&filter.expr);
                self.arguments(&filter.args);
            }
            Expr::Test(test) => {
                self.expression(&test.expr);
                self.arguments(&test.args);
            }
            Expr::GetAttr(get) => self.expression(&get.expr),
            Expr::GetItem(get) => self.expressions([&get.expr, &get.subscript_expr]),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                self.expressions(&list.items);
                self.check_literal(list.span());
            }
            Expr::Tuple(tuple) => self.expressions(&tuple.items),
            Expr::Map(map) => {
                self.expressions(&map.keys);
                self.expressions(&map.values);
                self.check_literal(map.span());
            }
        }
    }
}
