//! Reads calls of functions, each of which has a syntax of its own. Source: Query acceleration SQL language reference, "String
//! functions", "Date functions".

use super::Malformed;
use super::ast::*;
use super::lexer::Kind;
use super::parser::{Parsed, Parser};
use super::time::DatePart;

impl Parser {
    /// A name and its arguments in brackets.
    pub(super) fn call(&mut self) -> Parsed<Expr> {
        let (at, name) = (self.at(), self.call_ahead().unwrap_or_default());
        self.next += 2;
        let unknown = || Malformed::new(at, format!("there is no function {name}"));
        match name.as_str() {
            "CAST" => self.cast(),
            "TRIM" => self.trim(),
            "LEADING" | "TRAILING" => self.one_sided_trim(&name),
            "EXTRACT" => self.extract(),
            "DATE_ADD" => {
                let (part, both) = self.date_arguments()?;
                Ok(Expr::DateAdd(part, both))
            }
            "DATE_DIFF" => {
                let (part, both) = self.date_arguments()?;
                Ok(Expr::DateDiff(part, both))
            }
            "SUBSTRING" => self.substring(),
            _ if AggregateFunction::of(&name).is_some() => Err(Malformed::new(
                at,
                "an aggregate is a column of its own".to_owned(),
            )),
            // A keyword before a bracket.
            "NOT" | "IN" | "AND" | "OR" => {
                Err(Malformed::new(at, "expected an expression".to_owned()))
            }
            _ => {
                let (function, least, most) = Function::of(&name).ok_or_else(unknown)?;
                let arguments = self.list_or_none()?;
                match (least..=most).contains(&arguments.len()) {
                    true => Ok(Expr::Call(function, arguments)),
                    false => Err(Malformed::new(
                        at,
                        format!("{name} does not take {} arguments", arguments.len()),
                    )),
                }
            }
        }
    }

    fn cast(&mut self) -> Parsed<Expr> {
        let value = self.expression()?;
        self.keyword("AS")?;
        let word = match self.peek() {
            Kind::Word(word) => word.to_ascii_uppercase(),
            _ => String::new(),
        };
        let to = match word.as_str() {
            "INT" | "INTEGER" => Type::Integer,
            "FLOAT" => Type::Float,
            "STRING" => Type::Text,
            "TIMESTAMP" => Type::Timestamp,
            "BOOLEAN" | "BOOL" => Type::Boolean,
            _ => return Err(self.expected("INT, FLOAT, STRING, TIMESTAMP or BOOLEAN")),
        };
        self.next += 1;
        self.symbol(")")?;
        Ok(Expr::Cast(Box::new(value), to))
    }

    /// `TRIM([[LEADING | TRAILING | BOTH] [characters] FROM] text)`
    fn trim(&mut self) -> Parsed<Expr> {
        let side = match () {
            () if self.takes("LEADING") => Some(Side::Leading),
            () if self.takes("TRAILING") => Some(Side::Trailing),
            () if self.takes("BOTH") => Some(Side::Both),
            () => None,
        };
        let first = match self.takes("FROM") {
            true => None,
            false => Some(self.expression()?),
        };
        let (characters, value) = match first {
            None => (None, self.expression()?),
            Some(first) if self.takes("FROM") => (Some(Box::new(first)), self.expression()?),
            Some(_) if side.is_some() => return Err(self.expected("FROM")),
            Some(first) => (None, first),
        };
        self.symbol(")")?;
        Ok(Expr::Trim {
            side: side.unwrap_or(Side::Both),
            characters,
            value: Box::new(value),
        })
    }

    /// `LEADING(text)`, as the page lists it.
    fn one_sided_trim(&mut self, name: &str) -> Parsed<Expr> {
        let value = Box::new(self.expression()?);
        self.symbol(")")?;
        let side = match name {
            "LEADING" => Side::Leading,
            _ => Side::Trailing,
        };
        Ok(Expr::Trim {
            side,
            characters: None,
            value,
        })
    }

    /// `EXTRACT(part FROM time)`
    fn extract(&mut self) -> Parsed<Expr> {
        let part = self.date_part(true)?;
        self.keyword("FROM")?;
        let value = self.expression()?;
        self.symbol(")")?;
        Ok(Expr::Extract(part, Box::new(value)))
    }

    fn date_arguments(&mut self) -> Parsed<(DatePart, Box<(Expr, Expr)>)> {
        let part = self.date_part(false)?;
        self.symbol(",")?;
        let first = self.expression()?;
        self.symbol(",")?;
        let second = self.expression()?;
        self.symbol(")")?;
        Ok((part, Box::new((first, second))))
    }

    /// A word, or a text that holds one.
    fn date_part(&mut self, of_extract: bool) -> Parsed<DatePart> {
        let part = match self.peek() {
            Kind::Word(word) | Kind::Text(word) => DatePart::of(word),
            _ => None,
        };
        let part = part.filter(|part| of_extract || !part.is_of_zone());
        let part = part.ok_or_else(|| self.expected("a part of a date"))?;
        self.next += 1;
        Ok(part)
    }

    /// `SUBSTRING(text, start [, length])` or `SUBSTRING(text FROM start [FOR length])`.
    fn substring(&mut self) -> Parsed<Expr> {
        let mut arguments = vec![self.expression()?];
        let by_words = self.takes("FROM");
        if !by_words {
            self.symbol(",")?;
        }
        arguments.push(self.expression()?);
        let more = match by_words {
            true => self.takes("FOR"),
            false => self.takes_symbol(","),
        };
        if more {
            arguments.push(self.expression()?);
        }
        self.symbol(")")?;
        Ok(Expr::Call(Function::Substring, arguments))
    }

    fn list_or_none(&mut self) -> Parsed<Vec<Expr>> {
        match self.takes_symbol(")") {
            true => Ok(Vec::new()),
            false => self.list(),
        }
    }

    /// Expressions up to the closing bracket.
    pub(super) fn list(&mut self) -> Parsed<Vec<Expr>> {
        let mut list = vec![self.expression()?];
        while self.takes_symbol(",") {
            list.push(self.expression()?);
        }
        self.symbol(")")?;
        Ok(list)
    }
}
