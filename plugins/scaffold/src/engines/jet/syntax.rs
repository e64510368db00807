//! The syntax tree of a template.

use serde_json::Value;

/// A part of a template.
#[derive(Debug)]
pub(super) enum Node {
    Text(String),
    Print {
        line: usize,
        expression: Expression,
    },
    /// An assignment, which declares a new variable if `declare` is true.
    Assign {
        line: usize,
        name: String,
        declare: bool,
        expression: Expression,
    },
    If {
        branches: Vec<Branch>,
        otherwise: Vec<Node>,
    },
    Range {
        line: usize,
        names: Names,
        over: Expression,
        body: Vec<Node>,
        otherwise: Vec<Node>,
    },
    Include {
        line: usize,
        name: Expression,
        context: Option<Expression>,
    },
}

/// A part that is rendered if a condition is true.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) line: usize,
    pub(super) condition: Expression,
    pub(super) body: Vec<Node>,
}

/// The variables for the items of a list or table in the body of a loop.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The variable for the index in the list, or for the key.
    pub(super) key: Option<String>,
    pub(super) value: Option<String>,
    /// True if `.` is the item.
    pub(super) dot: bool,
}

/// An expression.
#[derive(Debug)]
pub(super) enum Expression {
    Literal(Value),
    /// `.`
    Dot,
    Variable(String),
    Field(Box<Expression>, String),
    Index(Box<Expression>, Box<Expression>),
    Call(String, Vec<Expression>),
    Not(Box<Expression>),
    Minus(Box<Expression>),
    Binary(Box<Expression>, Operator, Box<Expression>),
    Choice(Box<[Expression; 3]>),
}

/// A binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    And,
    Or,
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
    Plus,
    Minus,
    Times,
    Over,
    Modulo,
}

impl Expression {
    /// Returns the expression as it is written, for error messages.
    pub(super) fn shown(&self) -> String {
        match self {
            Expression::Dot => ".".to_owned(),
            Expression::Variable(name) => name.clone(),
            Expression::Field(of, name) => match &**of {
                Expression::Dot => format!(".{name}"),
                of => format!("{}.{name}", of.shown()),
            },
            Expression::Index(of, _) => format!("{}[…]", of.shown()),
            Expression::Literal(value) => value.to_string(),
            Expression::Call(name, _) => format!("the result of {name}"),
            _ => "this value".to_owned(),
        }
    }
}
