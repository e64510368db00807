//! Prepares parsed templates: each action records its line, its value is printed as in Go, and unknown functions are
//! errors.

use super::values::{AT, FORMAT, NOTHING, SHOW};
use super::{SUFFIXES, Templates, functions, sprig, words};
use gotmpl::parse::{
    ActionNode, BranchNode, CommandNode, Expr, ListNode, Node, Number, PipeNode, Pos, SmolStr, TemplateNode,
};
use gotmpl::{Template, TemplateError};
use holo_plugin::facts::LocatedError;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The character that is appended to each template.
const END: char = '\0';
/// Maximum number of `else if` and `else with` in a template.
const MAX_BRANCHES: usize = 100;

/// Parses a template and all templates that it calls, each under its name.
///
/// # Errors
/// The first mistake, with the template and the line.
pub(super) fn all(templates: &Templates, name: &str, text: &str) -> Result<BTreeMap<String, ListNode>, LocatedError> {
    let mut trees = BTreeMap::new();
    let mut wanted = parse(templates, name, text, &mut trees)?;
    while let Some((missing, place, line)) = wanted.pop() {
        if trees.contains_key(&missing) {
            continue;
        }
        let wrong = |text: String| LocatedError::new(&place, text).at(Some(line));
        let found = templates.context.partial(&missing, &SUFFIXES).map_err(|error| wrong(error.to_string()))?;
        let text = found
            .ok_or_else(|| wrong(format!("there is no template {missing:?}, neither defined nor in _partials")))?;
        let mut defined = BTreeMap::new();
        let shown = format!("_partials/{missing}");
        wanted.extend(parse(templates, &shown, &text, &mut defined)?);
        for (of, tree) in defined {
            trees.entry(if of == shown { missing.clone() } else { of }).or_insert(tree);
        }
    }
    Ok(trees)
}

/// Parses a text, and returns the names of the templates that it calls, each with the template and the line of the
/// call.
fn parse(
    templates: &Templates,
    name: &str,
    text: &str,
    trees: &mut BTreeMap<String, ListNode>,
) -> Result<Vec<(String, String, usize)>, LocatedError> {
    let [open, close] = &templates.delimiters;
    check_branches(name, text, open, close)?;
    let parsed = Template::new(name).delims(open, close).parse(&format!("{text}{END}")).map_err(|error| {
        let line = match error {
            TemplateError::Parse { line, .. } | TemplateError::Lex { line, .. } => Some(line),
            _ => None,
        };
        LocatedError::new(name, words(&error)).at(line)
    })?;
    let mut preparation = Preparation { name: name.into(), text, wanted: Vec::new() };
    for of in parsed.templates() {
        let Some(tree) = parsed.lookup(of) else { continue };
        let mut tree = tree.clone();
        if of == name {
            without_end(&mut tree).map_err(|(problem, line)| LocatedError::new(name, problem).at(line))?;
        }
        trees.insert(of.to_owned(), preparation.list(&tree)?);
    }
    Ok(preparation.wanted)
}

/// Checks the number of `else if` and `else with`. gotmpl limits the depth of blocks, but not of these, each of which it
/// parses and executes within the one before.
fn check_branches(name: &str, text: &str, open: &str, close: &str) -> Result<(), LocatedError> {
    let continues = |(start, _): &(usize, &str)| {
        let action = text.get(start + open.len()..).unwrap_or_default();
        let action = action.strip_prefix('-').unwrap_or(action).trim_start();
        action
            .strip_prefix("else")
            .is_some_and(|rest| !rest.trim_start_matches(['-', ' ', '\t', '\n', '\r']).starts_with(close))
    };
    match text.match_indices(open).filter(continues).nth(MAX_BRANCHES) {
        None => Ok(()),
        Some((start, _)) => {
            let line = text.get(..start).unwrap_or_default().matches('\n').count() + 1;
            let problem = format!("a template has at most {MAX_BRANCHES} else if and else with");
            Err(LocatedError::new(name, problem).at(Some(line)))
        }
    }
}

/// Removes the end marker that was appended to a template. For a block that is not closed or a superfluous `end`,
/// gotmpl ends the block or the template early, and the marker is not in its place; this is an error.
fn without_end(tree: &mut ListNode) -> Result<(), (&'static str, Option<usize>)> {
    let last = tree.nodes.last_mut();
    if let Some(Node::Text(text)) = last
        && let Some(before) = text.text.strip_suffix(END)
    {
        text.text = before.into();
        return Ok(());
    }
    Err(match last {
        Some(block @ (Node::If(_) | Node::Range(_) | Node::With(_) | Node::Define(_))) => {
            ("this block has no end, or something follows that has no beginning", Some(line(block)))
        }
        other => ("from here on, a block has no end, or an end has no block", other.map(|node| line(node))),
    })
}

fn line(node: &Node) -> usize {
    match node {
        Node::List(it) => it.pos.line,
        Node::Text(it) => it.pos.line,
        Node::Action(it) => it.pos.line,
        Node::If(it) | Node::Range(it) | Node::With(it) => it.pos.line,
        Node::Template(it) => it.pos.line,
        Node::Define(it) => it.pos.line,
        Node::Break(pos) | Node::Continue(pos) => pos.line,
    }
}

struct Preparation<'a> {
    name: Arc<str>,
    /// The text of the template, from which the notation of its literals is determined.
    text: &'a str,
    wanted: Vec<(String, String, usize)>,
}

impl Preparation<'_> {
    fn list(&mut self, list: &ListNode) -> Result<ListNode, LocatedError> {
        let mut nodes = Vec::new();
        for node in &list.nodes {
            match node {
                Node::Text(_) | Node::Break(_) | Node::Continue(_) | Node::Define(_) => nodes.push(node.clone()),
                Node::List(list) => nodes.push(Node::List(self.list(list)?)),
                Node::Action(action) => {
                    nodes.push(self.note(action.pos));
                    self.action(action, &mut nodes)?;
                }
                Node::If(branch) => nodes.extend([self.note(branch.pos), Node::If(self.branch(branch)?)]),
                Node::Range(branch) => nodes.extend([self.note(branch.pos), Node::Range(self.branch(branch)?)]),
                Node::With(branch) => nodes.extend([self.note(branch.pos), Node::With(self.branch(branch)?)]),
                Node::Template(template) => {
                    let pos = template.pos;
                    self.wanted.push((template.name.to_string(), self.name.to_string(), pos.line));
                    // Without an argument, gotmpl passes `.`, and Go passes nil.
                    let nothing = || Ok(action_of(pos, vec![Expr::Identifier(pos, NOTHING.into())]));
                    let value = template.pipe.as_ref().map_or_else(nothing, |pipe| self.pipe(pipe))?;
                    let template = TemplateNode { pipe: Some(value), ..template.clone() };
                    nodes.extend([self.note(pos), Node::Template(template)]);
                }
            }
        }
        Ok(ListNode { pos: list.pos, nodes })
    }

    fn branch(&mut self, branch: &BranchNode) -> Result<BranchNode, LocatedError> {
        let pipe = self.pipe(&branch.pipe)?;
        let otherwise = branch.else_body.as_ref().map(|list| self.list(list)).transpose()?;
        Ok(BranchNode { pos: branch.pos, pipe, body: self.list(&branch.body)?, else_body: otherwise })
    }

    /// Returns an action that prints nothing and records the current line.
    fn note(&self, pos: Pos) -> Node {
        let line = i64::try_from(pos.line).unwrap_or_default();
        let arguments = vec![
            Expr::Identifier(pos, AT.into()),
            Expr::String(pos, Arc::clone(&self.name)),
            Expr::Number(pos, Number::Int(line)),
        ];
        Node::Action(ActionNode { pos, pipe: action_of(pos, arguments) })
    }

    fn action(&mut self, action: &ActionNode, nodes: &mut Vec<Node>) -> Result<(), LocatedError> {
        let (pos, mut changed) = (action.pos, action.pipe.clone());
        if let Some((variable, command)) = changes(&action.pipe) {
            // The function returns a new table; Go would modify the existing one.
            let assigned = PipeNode { decl: vec![variable.clone()], is_assign: true, ..action_of(pos, command) };
            nodes.push(Node::Action(ActionNode { pos, pipe: self.pipe(&assigned)? }));
            let value = action_of(pos, vec![Expr::Variable(pos, variable, Vec::new())]);
            changed = PipeNode { commands: value.commands, ..action.pipe.clone() };
        }
        let mut changed = self.pipe(&changed)?;
        if changed.decl.is_empty() {
            changed.commands.push(CommandNode { pos, args: vec![Expr::Identifier(pos, SHOW.into())] });
        }
        nodes.push(Node::Action(ActionNode { pos, pipe: changed }));
        Ok(())
    }

    /// Checks that all functions exist, as Go does before rendering, and corrects literals that gotmpl parses
    /// differently from Go.
    fn pipe(&self, pipe: &PipeNode) -> Result<PipeNode, LocatedError> {
        let mut made = pipe.clone();
        for command in &mut made.commands {
            let may_change = matches!(command.args.get(1), Some(Expr::Pipe(..)));
            for (index, argument) in command.args.iter_mut().enumerate() {
                if let Expr::Identifier(pos, name) = argument {
                    self.function(*pos, name, index == 0 && may_change)?;
                } else {
                    *argument = self.argument(argument)?;
                }
            }
            if let [Expr::Identifier(pos, name), format, ..] = &mut command.args[..]
                && name == "printf"
            {
                let checked = action_of(*pos, vec![Expr::Identifier(*pos, FORMAT.into()), format.clone()]);
                *format = Expr::Pipe(*pos, checked);
            }
        }
        Ok(made)
    }

    fn argument(&self, argument: &Expr) -> Result<Expr, LocatedError> {
        Ok(match argument {
            Expr::Pipe(pos, pipe) => Expr::Pipe(*pos, self.pipe(pipe)?),
            Expr::Chain(pos, inner, fields) => Expr::Chain(*pos, Box::new(self.argument(inner)?), fields.clone()),
            // gotmpl parses 1e6 as an integer.
            Expr::Number(pos, Number::Int(number)) if self.is_floating(*pos) => {
                #[expect(clippy::cast_precision_loss, reason = "it was written as a floating number")]
                let floating = *number as f64;
                Expr::Number(*pos, Number::Float(floating))
            }
            // gotmpl accepts quoted strings that contain line breaks.
            Expr::String(pos, _) if self.has_lines(*pos) => {
                return Err(LocatedError::new(&self.name, "\" is not closed").at(Some(pos.line)));
            }
            other => other.clone(),
        })
    }

    fn is_floating(&self, pos: Pos) -> bool {
        let literal = self.text.get(pos.offset..).unwrap_or_default().trim_start_matches(['-', '+']);
        let of_number = |letter: char| letter.is_ascii_alphanumeric() || letter == '.' || letter == '_';
        let literal = literal.split(|letter| !of_number(letter)).next().unwrap_or_default().to_ascii_lowercase();
        if literal.starts_with("0x") {
            literal.contains(['p', '.'])
        } else {
            literal.contains(['.', 'e']) && !literal.starts_with("0b")
        }
    }

    fn has_lines(&self, pos: Pos) -> bool {
        let Some(literal) = self.text.get(pos.offset..).and_then(|text| text.strip_prefix('"')) else { return false };
        let mut escaped = false;
        for letter in literal.chars() {
            match letter {
                '\n' => return true,
                '"' if !escaped => return false,
                letter => escaped = letter == '\\' && !escaped,
            }
        }
        false
    }

    fn function(&self, pos: Pos, name: &str, may_change: bool) -> Result<(), LocatedError> {
        let wrong = |text: String| Err(LocatedError::new(&self.name, text).at(Some(pos.line)));
        if sprig::CHANGING.contains(&name) && !may_change {
            return wrong(format!(
                "{name} changes a table, which is supported for a variable in an action of its own, such as {{{{ $_ := {name} $table \
                 \"key\" \"value\" }}}}, and for a table that is made in parentheses"
            ));
        }
        if functions::is_known(name.trim_start()) {
            return Ok(());
        }
        if sprig::is_unsupported(name) {
            return wrong(format!("the function {name} of Sprig is not supported"));
        }
        wrong(format!("there is no function {name}"))
    }
}

/// Returns the variable whose table an action changes, and the command that creates the new table.
fn changes(pipe: &PipeNode) -> Option<(SmolStr, Vec<Expr>)> {
    let [command] = &pipe.commands[..] else { return None };
    let [Expr::Identifier(pos, name), Expr::Variable(at, variable, fields), rest @ ..] = &command.args[..] else {
        return None;
    };
    if !sprig::CHANGING.contains(&name.as_str()) || !fields.is_empty() || variable == "$" {
        return None;
    }
    let function = Expr::Identifier(*pos, format!(" {name}").into());
    let table = Expr::Variable(*at, variable.clone(), Vec::new());
    Some((variable.clone(), [function, table].into_iter().chain(rest.iter().cloned()).collect()))
}

fn action_of(pos: Pos, args: Vec<Expr>) -> PipeNode {
    PipeNode { pos, decl: Vec::new(), commands: vec![CommandNode { pos, args }], is_assign: false }
}
