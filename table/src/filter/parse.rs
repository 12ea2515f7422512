//! Parses tokens into an expression. Precedence, strongest first: parentheses, comparisons, `not`,
//! `and`, `or`.
//!
//! Open parentheses are kept on an explicit stack, and a chain of one operator becomes one term
//! however it is parenthesised, because clients build chains of hundreds of terms as `((a or b) or
//! c) or …`. So the depth limit counts only nesting of different operators.
//!
//! Strict OData would parse `not A eq 1` as `(not A) eq 1`, which is meaningless; clients that omit
//! the parentheses mean `not (A eq 1)`. Source: Querying tables and entities, "Supported comparison
//! operators".

use crate::error::{Error, InvalidInput, Result, UnsupportedFilter};
use crate::filter::expression::{Expression, Operator};
use crate::filter::token::{Token, tokenize};
use crate::limits::{FILTER_BYTES_MAX, FILTER_DEPTH_MAX};
use crate::model::Value;

/// Parses a filter into its expression and the sorted names of its properties.
pub(super) fn parse(text: &str) -> Result<(Expression, Vec<String>)> {
    check_limit("length in bytes", text.len(), FILTER_BYTES_MAX)?;
    let tokens = tokenize(text).map_err(|at| syntax(text, at))?;
    let mut names: Vec<String> = tokens
        .iter()
        .filter_map(|(_, token)| property(token))
        .map(str::to_owned)
        .collect();
    names.sort_unstable();
    names.dedup();
    let mut parser = Parser {
        text,
        tokens: &tokens,
        names: &names,
    };
    let expression = parser.expression()?;
    Ok((expression, names))
}

fn check_limit(what: &'static str, found: usize, limit: usize) -> Result<()> {
    if found > limit {
        Err(InvalidInput::FilterTooLarge { what, found, limit }.into())
    } else {
        Ok(())
    }
}

fn syntax(text: &str, at: usize) -> Error {
    let position = text[..at].chars().count();
    InvalidInput::Filter {
        position,
        filter: text.to_owned(),
    }
    .into()
}

/// The name in the token, if it can be that of a property.
fn property<'a>(token: &Token<'a>) -> Option<&'a str> {
    match token {
        Token::Name("and" | "or" | "not") => None,
        Token::Name(name) if Operator::parse(name).is_none() => Some(name),
        _ => None,
    }
}

enum Operand {
    /// A property, as an index into the sorted names.
    Property(usize),
    Literal(Value),
    Null,
}

struct Parser<'a> {
    text: &'a str,
    /// The remaining tokens; [`Token::End`] is never removed.
    tokens: &'a [(usize, Token<'a>)],
    names: &'a [String],
}

/// The terms of one pair of parentheses, or of the whole filter, as far as they are parsed.
#[derive(Default)]
struct Group {
    /// The finished operands of `or`.
    any_of: Chain,
    /// The operands of `and` in the operand of `or` that is being parsed.
    all_of: Chain,
    /// Whether an odd number of `not` precedes the next term.
    negated: bool,
}

/// Terms joined by one operator.
#[derive(Default)]
struct Chain {
    terms: Vec<Expression>,
    /// The nesting depth of the deepest term.
    depth: usize,
}

impl Group {
    /// Adds a term with this depth. Errors: `FilterTooLarge`.
    fn add(&mut self, term: Expression, depth: usize) -> Result<()> {
        if std::mem::take(&mut self.negated) {
            return self.all_of.add(Expression::Not(Box::new(term)), depth + 1);
        }
        match term {
            Expression::And(terms) => self.all_of.add_all(terms, depth - 1),
            term => self.all_of.add(term, depth),
        }
    }

    /// Ends a chain of `and`.
    fn end_all_of(&mut self) -> Result<()> {
        match std::mem::take(&mut self.all_of).join(Expression::And) {
            (Expression::Or(terms), depth) => self.any_of.add_all(terms, depth - 1),
            (term, depth) => self.any_of.add(term, depth),
        }
    }

    /// Ends the group. Returns its expression, and the depth of the expression.
    fn end(mut self) -> Result<(Expression, usize)> {
        self.end_all_of()?;
        Ok(self.any_of.join(Expression::Or))
    }
}

impl Chain {
    fn add(&mut self, term: Expression, depth: usize) -> Result<()> {
        self.terms.push(term);
        self.deepen(depth)
    }

    fn add_all(&mut self, terms: Vec<Expression>, depth: usize) -> Result<()> {
        self.terms.extend(terms);
        self.deepen(depth)
    }

    fn deepen(&mut self, depth: usize) -> Result<()> {
        self.depth = self.depth.max(depth);
        check_limit("nesting depth", self.depth, FILTER_DEPTH_MAX)
    }

    /// Joins the terms into one expression, with its depth. A single term stays as it is.
    fn join(mut self, many: fn(Vec<Expression>) -> Expression) -> (Expression, usize) {
        match self.terms.len() {
            1 => (self.terms.remove(0), self.depth),
            _ => (many(self.terms), self.depth + 1),
        }
    }
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &Token<'a> {
        &self.tokens[0].1
    }

    /// Returns the next token, and removes it unless it is the end.
    fn next(&mut self) -> (usize, Token<'a>) {
        let token = self.tokens[0].clone();
        if self.tokens.len() > 1 {
            self.tokens = &self.tokens[1..];
        }
        token
    }

    fn take(&mut self, name: &str) -> bool {
        let found = *self.peek() == Token::Name(name);
        if found {
            self.next();
        }
        found
    }

    /// Parses the whole filter.
    fn expression(&mut self) -> Result<Expression> {
        let mut group = Group::default();
        let mut open = Vec::new();
        loop {
            while self.take("not") {
                group.negated = !group.negated;
            }
            if *self.peek() == Token::Open {
                self.next();
                open.push(std::mem::take(&mut group));
                continue;
            }
            group.add(self.comparison()?, 0)?;
            while *self.peek() == Token::Close
                && let Some(outer) = open.pop()
            {
                self.next();
                let (term, depth) = std::mem::replace(&mut group, outer).end()?;
                group.add(term, depth)?;
            }
            if self.take("or") {
                group.end_all_of()?;
            } else if !self.take("and") {
                break;
            }
        }
        match self.next() {
            (_, Token::End) if open.is_empty() => Ok(group.end()?.0),
            (at, _) => Err(syntax(self.text, at)),
        }
    }

    fn comparison(&mut self) -> Result<Expression> {
        let start = self.tokens[0].0;
        let left = self.operand()?;
        let Some(operator) = self.operator() else {
            return self.bare(left, start);
        };
        let right = self.operand()?;
        self.refuse_arithmetic()?;
        match (left, right) {
            (Operand::Property(property), Operand::Literal(literal)) => Ok(Expression::Compare {
                property,
                operator,
                literal,
            }),
            (Operand::Literal(literal), Operand::Property(property)) => {
                let operator = operator.mirrored();
                Ok(Expression::Compare {
                    property,
                    operator,
                    literal,
                })
            }
            (Operand::Property(_), Operand::Null) => Err(null_error(operator)),
            (Operand::Null, Operand::Property(_)) => Err(null_error(operator.mirrored())),
            (Operand::Property(_), Operand::Property(second)) => {
                let name = self.names[second].clone();
                Err(Error::NotImplemented(UnsupportedFilter::TwoProperties(
                    name,
                )))
            }
            _ => Err(Error::NotImplemented(UnsupportedFilter::TwoValues)),
        }
    }

    fn operator(&mut self) -> Option<Operator> {
        let operator = match self.peek() {
            Token::Name(name) => Operator::parse(name)?,
            _ => return None,
        };
        self.next();
        Some(operator)
    }

    /// An operand without a comparison must be a Boolean.
    fn bare(&mut self, operand: Operand, start: usize) -> Result<Expression> {
        self.refuse_arithmetic()?;
        match operand {
            Operand::Property(property) => Ok(Expression::IsTrue(property)),
            Operand::Literal(Value::Boolean(truth)) => Ok(Expression::Constant(truth)),
            _ => Err(syntax(self.text, start)),
        }
    }

    fn operand(&mut self) -> Result<Operand> {
        let (at, token) = self.next();
        if let Some(name) = property(&token) {
            if *self.peek() == Token::Open {
                // A name before a parenthesis is that of a function.
                return Err(Error::NotImplemented(UnsupportedFilter::Function(
                    name.to_owned(),
                )));
            }
            let known = self.names.binary_search_by(|known| (**known).cmp(name));
            return Ok(Operand::Property(
                known.expect("`names` holds every property of the tokens"),
            ));
        }
        match token {
            Token::Literal(value) => Ok(Operand::Literal(value)),
            Token::Null => Ok(Operand::Null),
            _ => Err(syntax(self.text, at)),
        }
    }

    fn refuse_arithmetic(&self) -> Result<()> {
        match self.peek() {
            Token::Name(name @ ("add" | "sub" | "mul" | "div" | "mod")) => Err(
                Error::NotImplemented(UnsupportedFilter::Arithmetic((*name).to_owned())),
            ),
            _ => Ok(()),
        }
    }
}

fn null_error(operator: Operator) -> Error {
    match operator {
        Operator::Equal | Operator::NotEqual => InvalidInput::Request.into(),
        Operator::LessThan => InvalidInput::NullOrder("LessThan").into(),
        Operator::LessThanOrEqual => InvalidInput::NullOrder("LessThanOrEqual").into(),
        Operator::GreaterThan => InvalidInput::NullOrder("GreaterThan").into(),
        Operator::GreaterThanOrEqual => InvalidInput::NullOrder("GreaterThanOrEqual").into(),
    }
}
