//! Computes aggregates over all rows. Source: Query acceleration SQL language reference, "Aggregate
//! expressions".

use crate::RowError;
use crate::ast::AggregateFunction;
use crate::value::{Number, Value};

/// The state of an aggregate.
#[derive(Debug)]
pub struct Accumulator {
    function: AggregateFunction,
    count: i64,
    integers: i128,
    floats: f64,
    is_float: bool,
    extreme: Value<'static>,
}

impl Accumulator {
    pub fn new(function: AggregateFunction) -> Accumulator {
        Accumulator {
            function,
            count: 0,
            integers: 0,
            floats: 0.0,
            is_float: false,
            extreme: Value::Null,
        }
    }

    /// Adds the value of a row. Nulls are ignored.
    pub fn add(&mut self, value: Value<'_>) -> Result<(), RowError> {
        if value.is_null() {
            return Ok(());
        }
        match self.function {
            AggregateFunction::Count => {}
            AggregateFunction::Sum | AggregateFunction::Average => match value.as_number()? {
                Number::Integer(number) => self.integers += i128::from(number),
                Number::Float(number) => {
                    self.floats += number;
                    self.is_float = true;
                }
            },
            AggregateFunction::Min | AggregateFunction::Max => {
                let is_min = self.function == AggregateFunction::Min;
                let replaces = match value.compare(&self.extreme)? {
                    None => true,
                    Some(order) if is_min => order.is_lt(),
                    Some(order) => order.is_gt(),
                };
                if replaces {
                    self.extreme = value.into_owned();
                }
            }
        }
        self.count += 1;
        Ok(())
    }

    /// Adds rows without looking at their values, for `COUNT(*)`.
    pub fn add_rows(&mut self, rows: u64) {
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        self.count = self.count.saturating_add(rows);
    }

    /// The value for all rows. If no value was added, COUNT is 0, and the other functions are null.
    pub fn finish(self) -> Value<'static> {
        let total = self.integers as f64 + self.floats;
        match self.function {
            AggregateFunction::Count => Value::Integer(self.count),
            _ if self.count == 0 => Value::Null,
            AggregateFunction::Min | AggregateFunction::Max => self.extreme,
            AggregateFunction::Average => Value::Float(total / self.count as f64),
            AggregateFunction::Sum => match i64::try_from(self.integers) {
                Ok(sum) if !self.is_float => Value::Integer(sum),
                _ => Value::Float(total),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    #[test]
    fn aggregates_ignore_nulls() {
        let of = |function, values: &[Value<'static>]| {
            let mut accumulator = Accumulator::new(function);
            for value in values {
                accumulator.add(value.clone()).unwrap();
            }
            accumulator.finish()
        };
        use AggregateFunction::{Average, Count, Max, Min, Sum};
        let text = |text: &'static str| Value::Text(Cow::Borrowed(text));
        let values = [
            Value::Integer(2),
            Value::Null,
            text("3"),
            Value::Integer(-1),
        ];
        assert_eq!(of(Count, &values), Value::Integer(3));
        assert_eq!(of(Sum, &values), Value::Integer(4));
        assert_eq!(
            of(Average, &[Value::Integer(1), Value::Integer(2)]),
            Value::Float(1.5)
        );
        assert_eq!(of(Min, &values), Value::Integer(-1));
        assert_eq!(of(Max, &[text("b"), text("a")]), text("b"));
        assert_eq!(
            of(Sum, &[Value::Integer(i64::MAX), Value::Integer(i64::MAX)]),
            Value::Float(2.0 * i64::MAX as f64)
        );
        assert_eq!(
            of(Sum, &[Value::Integer(1), Value::Float(0.5)]),
            Value::Float(1.5)
        );
        assert_eq!(
            (of(Sum, &[]), of(Count, &[])),
            (Value::Null, Value::Integer(0))
        );
    }
}
