//! Parses function calls; some functions have their own syntax. Source: Query acceleration SQL
//! language reference, "String functions", "Date functions".

use crate::Malformed;
use crate::ast::*;
use crate::lexer::Kind;
use crate::parser::{Parsed, Parser};
use crate::time::DatePart;

impl Parser {
    /// Parses a name and its arguments in parentheses.
    pub(super) fn call(&mut self) -> Parsed<Expr> {
        let at = self.at();
        let name = self.call_ahead().unwrap_or_default();
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
                "an aggregate must be a column by itself".to_owned(),
            )),
            // A keyword before a parenthesis is not a function.
            "NOT" | "IN" | "AND" | "OR" => {
                Err(Malformed::new(at, "expected an expression".to_owned()))
            }
            _ => {
                let (function, least, most) = Function::of(&name).ok_or_else(unknown)?;
                let arguments = self.list_or_none()?;
                if (least..=most).contains(&arguments.len()) {
                    Ok(Expr::Call(function, arguments))
                } else {
                    let message = format!("{name} does not take {} arguments", arguments.len());
                    Err(Malformed::new(at, message))
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

    /// Parses `TRIM([[LEADING | TRAILING | BOTH] [characters] FROM] text)`.
    fn trim(&mut self) -> Parsed<Expr> {
        let side = if self.takes("LEADING") {
            Some(Side::Leading)
        } else if self.takes("TRAILING") {
            Some(Side::Trailing)
        } else if self.takes("BOTH") {
            Some(Side::Both)
        } else {
            None
        };
        let first = if self.takes("FROM") {
            None
        } else {
            Some(self.expression()?)
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

    /// Parses `LEADING(text)` and the like, which the documentation lists.
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

    /// Parses `EXTRACT(part FROM time)`.
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

    /// Parses a part of a date, as a word or in quotes.
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

    /// Parses `SUBSTRING(text, start [, length])` or `SUBSTRING(text FROM start [FOR length])`.
    fn substring(&mut self) -> Parsed<Expr> {
        let mut arguments = vec![self.expression()?];
        let by_words = self.takes("FROM");
        if !by_words {
            self.symbol(",")?;
        }
        arguments.push(self.expression()?);
        let has_length = if by_words {
            self.takes("FOR")
        } else {
            self.takes_symbol(",")
        };
        if has_length {
            arguments.push(self.expression()?);
        }
        self.symbol(")")?;
        Ok(Expr::Call(Function::Substring, arguments))
    }

    fn list_or_none(&mut self) -> Parsed<Vec<Expr>> {
        if self.takes_symbol(")") {
            Ok(Vec::new())
        } else {
            self.list()
        }
    }

    /// Parses expressions up to and including the closing parenthesis.
    pub(super) fn list(&mut self) -> Parsed<Vec<Expr>> {
        let mut list = vec![self.expression()?];
        while self.takes_symbol(",") {
            list.push(self.expression()?);
        }
        self.symbol(")")?;
        Ok(list)
    }
}
