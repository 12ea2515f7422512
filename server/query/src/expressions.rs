//! Parses expressions, from `OR`, which has the lowest precedence, down to names, numbers and
//! parentheses.

use crate::ast::*;
use crate::lexer::Kind;
use crate::like::Pattern;
use crate::parser::{DEPTH_MAX, Parsed, Parser};

impl Parser {
    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        self.deeper(Parser::any)
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Parser) -> Parsed<T>) -> Parsed<T> {
        if self.depth == DEPTH_MAX {
            return Err(self.malformed(&format!("it nests deeper than {DEPTH_MAX}")));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn any(&mut self) -> Parsed<Expr> {
        let mut terms = vec![self.all()?];
        while self.takes("OR") {
            terms.push(self.all()?);
        }
        Ok(match terms.len() {
            1 => terms.remove(0),
            _ => Expr::Any(terms),
        })
    }

    fn all(&mut self) -> Parsed<Expr> {
        let mut terms = vec![self.negation()?];
        while self.takes("AND") {
            terms.push(self.negation()?);
        }
        Ok(match terms.len() {
            1 => terms.remove(0),
            _ => Expr::All(terms),
        })
    }

    fn negation(&mut self) -> Parsed<Expr> {
        if self.takes("NOT") {
            Ok(Expr::Not(Box::new(self.deeper(Parser::negation)?)))
        } else {
            self.predicate()
        }
    }

    fn predicate(&mut self) -> Parsed<Expr> {
        let left = self.sum()?;
        if let Some(comparison) = self.comparison() {
            let right = self.sum()?;
            return Ok(Expr::Compared(Box::new(left), comparison, Box::new(right)));
        }
        if self.takes("IS") {
            return self.is(left);
        }
        let negated = self.takes("NOT");
        let found = if self.takes("LIKE") {
            self.like(left)?
        } else if self.takes("BETWEEN") {
            self.between(left)?
        } else if self.takes("IN") {
            self.symbol("(")?;
            Expr::In(Box::new(left), self.list()?)
        } else if negated {
            return Err(self.expected("LIKE, BETWEEN or IN"));
        } else {
            return Ok(left);
        };
        Ok(negated_if(negated, found))
    }

    fn is(&mut self, left: Expr) -> Parsed<Expr> {
        let negated = self.takes("NOT");
        let left = Box::new(left);
        let found = if self.takes("NULL") {
            Expr::IsNull(left)
        } else if self.takes("MISSING") {
            Expr::IsMissing(left)
        } else {
            return Err(self.expected("NULL or MISSING"));
        };
        Ok(negated_if(negated, found))
    }

    fn like(&mut self, value: Expr) -> Parsed<Expr> {
        let pattern = self.sum()?;
        let mut escape = None;
        if self.takes("ESCAPE") {
            let mut characters = match self.peek() {
                Kind::Text(text) => text.clone().chars().collect::<Vec<_>>(),
                _ => Vec::new(),
            };
            if characters.len() != 1 {
                return Err(self.expected("a text of one character"));
            }
            escape = characters.pop();
            self.next += 1;
        }
        let fixed = match &pattern {
            Expr::Text(text) => Pattern::new(text, escape).ok(),
            _ => None,
        };
        // A pattern that is too long is an error of each row that is compared with it, as for a
        // pattern that depends on the row.
        let pattern = fixed.map_or(LikePattern::Evaluated(pattern, escape), LikePattern::Fixed);
        Ok(Expr::Like {
            value: Box::new(value),
            pattern: Box::new(pattern),
        })
    }

    fn between(&mut self, value: Expr) -> Parsed<Expr> {
        let low = self.sum()?;
        self.keyword("AND")?;
        let high = self.sum()?;
        Ok(Expr::Between(Box::new(value), Box::new((low, high))))
    }

    fn comparison(&mut self) -> Option<Comparison> {
        let Kind::Symbol(symbol) = self.peek() else {
            return None;
        };
        let comparison = match *symbol {
            "=" => Comparison::Equal,
            "<>" | "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterOrEqual,
            _ => return None,
        };
        self.next += 1;
        Some(comparison)
    }

    fn sum(&mut self) -> Parsed<Expr> {
        const OPERATORS: [(&str, Operator); 3] = [
            ("+", Operator::Add),
            ("-", Operator::Subtract),
            ("||", Operator::Concatenate),
        ];
        self.chain(&OPERATORS, Parser::product)
    }

    fn product(&mut self) -> Parsed<Expr> {
        const OPERATORS: [(&str, Operator); 3] = [
            ("*", Operator::Multiply),
            ("/", Operator::Divide),
            ("%", Operator::Remainder),
        ];
        self.chain(&OPERATORS, Parser::factor)
    }

    fn chain(
        &mut self,
        operators: &[(&str, Operator)],
        operand: fn(&mut Parser) -> Parsed<Expr>,
    ) -> Parsed<Expr> {
        let first = operand(self)?;
        let mut rest = Vec::new();
        let taken = |parser: &mut Parser| {
            let found = operators
                .iter()
                .find(|(symbol, _)| parser.takes_symbol(symbol));
            found.map(|(_, operator)| *operator)
        };
        while let Some(operator) = taken(self) {
            rest.push((operator, operand(self)?));
        }
        Ok(if rest.is_empty() {
            first
        } else {
            Expr::Arithmetic(Box::new(first), rest)
        })
    }

    fn factor(&mut self) -> Parsed<Expr> {
        if self.takes_symbol("-") {
            return Ok(match self.deeper(Parser::factor)? {
                Expr::Integer(number) => Expr::Integer(-number),
                Expr::Float(number) => Expr::Float(-number),
                other => Expr::Negated(Box::new(other)),
            });
        }
        if self.takes_symbol("+") {
            return self.deeper(Parser::factor);
        }
        self.primary()
    }

    fn primary(&mut self) -> Parsed<Expr> {
        if self.call_ahead().is_some() {
            return self.call();
        }
        let token = self.peek().clone();
        let simple = match token {
            Kind::Integer(number) => Expr::Integer(number),
            Kind::Float(number) => Expr::Float(number),
            Kind::Text(text) => Expr::Text(text),
            Kind::Symbol("(") => {
                self.next += 1;
                let inner = self.expression()?;
                self.symbol(")")?;
                return Ok(inner);
            }
            Kind::Word(word) if word.eq_ignore_ascii_case("NULL") => Expr::Null,
            Kind::Word(word) if word.eq_ignore_ascii_case("TRUE") => Expr::Boolean(true),
            Kind::Word(word) if word.eq_ignore_ascii_case("FALSE") => Expr::Boolean(false),
            Kind::Word(_) | Kind::Quoted(_) => return self.field(),
            _ => return Err(self.expected("an expression")),
        };
        self.next += 1;
        Ok(simple)
    }

    fn field(&mut self) -> Parsed<Expr> {
        let at = self.at();
        let path = (self.name()?, self.steps(false)?);
        if let Some(number) = self.field_numbers.get(&path) {
            return Ok(Expr::Field(*number));
        }
        let number = self.fields.len();
        let (root, steps) = path.clone();
        self.fields.push(Field { root, steps, at });
        self.field_numbers.insert(path, number);
        Ok(Expr::Field(number))
    }
}

fn negated_if(negated: bool, expression: Expr) -> Expr {
    if negated {
        Expr::Not(Box::new(expression))
    } else {
        expression
    }
}
