//! Tokens -> expression, by recursive descent. Precedence, strongest first: parentheses, comparisons, `not`, `and`, `or`.
//!
//! Strict OData would read `not A eq 1` as `(not A) eq 1`, which means nothing; clients that leave out the parentheses
//! mean `not (A eq 1)`. Source: Querying tables and entities, "Supported comparison operators".

use super::token::{Token, tokenize};
use super::{Expression, FILTER_BYTES_MAX, FILTER_DEPTH_MAX, Operator};
use crate::error::{Error, InvalidInput, Result};
use crate::model::Value;

/// The expression of a filter and the names of its properties, sorted.
pub(super) fn parse(text: &str) -> Result<(Expression, Vec<String>)> {
    limit("length in bytes", text.len(), FILTER_BYTES_MAX)?;
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
        depth: 0,
    };
    let expression = parser.or()?;
    match parser.next() {
        (_, Token::End) => Ok((expression, names)),
        (at, _) => Err(syntax(text, at)),
    }
}

fn limit(what: &'static str, found: usize, limit: usize) -> Result<()> {
    match found > limit {
        true => Err(InvalidInput::FilterTooLarge { what, found, limit }.into()),
        false => Ok(()),
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

/// The name, if the token can be that of a property.
fn property<'a>(token: &Token<'a>) -> Option<&'a str> {
    match token {
        Token::Name("and" | "or" | "not") => None,
        Token::Name(name) if Operator::parse(name).is_none() => Some(name),
        _ => None,
    }
}

enum Operand {
    /// An index into the sorted names.
    Property(usize),
    Literal(Value),
    Null,
}

struct Parser<'a> {
    text: &'a str,
    /// What is left; [`Token::End`] is never taken.
    tokens: &'a [(usize, Token<'a>)],
    names: &'a [String],
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &Token<'a> {
        &self.tokens[0].1
    }

    /// Takes a token, but stays at the end.
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

    fn or(&mut self) -> Result<Expression> {
        let mut terms = vec![self.and()?];
        while self.take("or") {
            terms.push(self.and()?);
        }
        Ok(one_or(terms, Expression::Or))
    }

    fn and(&mut self) -> Result<Expression> {
        let mut terms = vec![self.unary()?];
        while self.take("and") {
            terms.push(self.unary()?);
        }
        Ok(one_or(terms, Expression::And))
    }

    fn unary(&mut self) -> Result<Expression> {
        if self.take("not") {
            let inner = self.nested(Self::unary)?;
            return Ok(Expression::Not(Box::new(inner)));
        }
        if *self.peek() != Token::Open {
            return self.comparison();
        }
        self.next();
        let inner = self.nested(Self::or)?;
        match self.next() {
            (_, Token::Close) => Ok(inner),
            (at, _) => Err(syntax(self.text, at)),
        }
    }

    fn nested(&mut self, parse: impl Fn(&mut Self) -> Result<Expression>) -> Result<Expression> {
        self.depth += 1;
        limit("nesting depth", self.depth, FILTER_DEPTH_MAX)?;
        let expression = parse(self)?;
        self.depth -= 1;
        Ok(expression)
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
            _ => Err(Error::NotImplemented),
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

    /// An operand that is compared with nothing must be true by itself.
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
                // A function call.
                return Err(Error::NotImplemented);
            }
            let known = self.names.binary_search_by(|known| (**known).cmp(name));
            return Ok(Operand::Property(
                known.expect("names holds every property of the tokens"),
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
            Token::Name("add" | "sub" | "mul" | "div" | "mod") => Err(Error::NotImplemented),
            _ => Ok(()),
        }
    }
}

fn one_or(mut terms: Vec<Expression>, many: fn(Vec<Expression>) -> Expression) -> Expression {
    match terms.len() {
        1 => terms.remove(0),
        _ => many(terms),
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
