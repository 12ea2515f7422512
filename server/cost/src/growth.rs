//! How a figure, such as the rows that a query examines, grows with the number of items: fitted to
//! measurements, and shown with its deviation from them.

use serde::Serialize;
use std::fmt;
use thiserror::Error;

/// A figure is constant if it stays within this share of its mean.
const CONSTANT_SHARE: f64 = 0.02;

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Items that were stored.
    pub items: f64,
    /// The figure that was measured.
    pub value: f64,
}

/// The shape of a growth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// The same for any number of items.
    Constant {
        /// The figure.
        value: f64,
    },
    /// `base + by_item * items`.
    Linear {
        /// The figure for no items.
        base: f64,
        /// The addition for each item.
        by_item: f64,
    },
    /// `factor * items ^ exponent`: between constant (0) and linear (1), or beyond.
    Power {
        /// The figure for one item.
        factor: f64,
        /// The exponent.
        exponent: f64,
    },
}

impl Shape {
    fn at(self, items: f64) -> f64 {
        match self {
            Shape::Constant { value } => value,
            Shape::Linear { base, by_item } => base + by_item * items,
            Shape::Power { factor, exponent } => factor * items.powf(exponent),
        }
    }
}

/// How a figure grows with the number of items.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Growth {
    /// The shape that was fitted to the measurements, or was given.
    pub shape: Shape,
    /// The largest deviation of a measurement from the shape, as a share of the measurement; 0 if
    /// the growth was not measured.
    pub deviation: f64,
    /// The measurements; empty if the growth was given.
    pub points: Vec<Point>,
}

/// Measurements to which nothing can be fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FitError {
    /// Growth cannot be fitted: one size does not show it, and a line goes through any two.
    #[error("A growth is fitted to measurements at three sizes or more.")]
    TooFewSizes,
    /// A number of items that is not positive, or a negative figure.
    #[error("A measurement has a number of items that is not positive, or a negative figure.")]
    InvalidPoint,
}

impl Growth {
    /// The figure is `value` for any number of items. It was not measured.
    pub fn constant(value: f64) -> Growth {
        Growth::given(Shape::Constant { value })
    }

    /// The figure is `by_item` for each item. It was not measured.
    pub fn linear(by_item: f64) -> Growth {
        Growth::given(Shape::Linear { base: 0.0, by_item })
    }

    fn given(shape: Shape) -> Growth {
        Growth {
            shape,
            deviation: 0.0,
            points: Vec::new(),
        }
    }

    /// Fits a growth. A figure that hardly changes is constant; otherwise the shape is the one,
    /// linear or a power, whose largest deviation is smaller. Errors: fewer than three sizes;
    /// numbers that cannot be measured.
    pub fn fit(points: &[Point]) -> Result<Growth, FitError> {
        let is_valid = |point: &Point| {
            point.items.is_finite()
                && point.items > 0.0
                && point.value.is_finite()
                && point.value >= 0.0
        };
        if !points.iter().all(is_valid) {
            return Err(FitError::InvalidPoint);
        }
        let mut points = points.to_vec();
        points.sort_by(|a, b| a.items.total_cmp(&b.items));
        if points.chunk_by(|a, b| a.items == b.items).count() < 3 {
            return Err(FitError::TooFewSizes);
        }
        let shape = best_shape(&points);
        Ok(Growth {
            shape,
            deviation: deviation(shape, &points),
            points,
        })
    }

    /// The figure for `items` items, never negative.
    pub fn at(&self, items: f64) -> f64 {
        self.shape.at(items).max(0.0)
    }

    /// The fewest and the most items that were measured; `None` if the growth was given. Figures
    /// for more items are extrapolated.
    pub fn measured(&self) -> Option<(f64, f64)> {
        let (first, last) = (self.points.first()?, self.points.last()?);
        Some((first.items, last.items))
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shape {
            Shape::Constant { value } => write!(f, "{value:.1} for any N")?,
            Shape::Linear { base, by_item } => write!(f, "{base:.1} + {by_item:.3} x N")?,
            Shape::Power { factor, exponent } => write!(f, "{factor:.3} x N^{exponent:.2}")?,
        }
        match self.measured() {
            Some((least, most)) => write!(
                f,
                ", measured up to N = {most:.0}, {:.0} times the smallest, largest deviation {:.1} %",
                most / least,
                self.deviation * 100.0
            ),
            None => write!(f, ", given"),
        }
    }
}

fn best_shape(points: &[Point]) -> Shape {
    let least = points
        .iter()
        .map(|point| point.value)
        .fold(f64::MAX, f64::min);
    let most = points.iter().map(|point| point.value).fold(0.0, f64::max);
    let value = f64::midpoint(least, most);
    if most - value <= CONSTANT_SHARE * value {
        return Shape::Constant { value };
    }
    let linear = linear(points);
    match power(points) {
        Some(power) if deviation(power, points) < deviation(linear, points) => power,
        _ => linear,
    }
}

/// The largest deviation of a figure from the shape, as a share of the figure. A figure below 1
/// counts as 1, because rows, messages and requests are whole numbers.
fn deviation(shape: Shape, points: &[Point]) -> f64 {
    let deviations = points.iter().map(|point| {
        let difference = (shape.at(point.items) - point.value).abs();
        difference / point.value.max(1.0)
    });
    deviations.fold(0.0, f64::max)
}

/// The line of least squares of the relative deviations, so that the smallest size counts as much
/// as the largest.
fn linear(points: &[Point]) -> Shape {
    let weighted = |point: &Point| {
        let weight = point.value.max(1.0).powi(-2);
        (point.items, point.value, weight)
    };
    let (base, by_item) = line(points.iter().map(weighted));
    Shape::Linear { base, by_item }
}

/// A power is a line between logarithms; `None` if a figure is 0.
fn power(points: &[Point]) -> Option<Shape> {
    if points.iter().any(|point| point.value <= 0.0) {
        return None;
    }
    let logarithms = points
        .iter()
        .map(|point| (point.items.ln(), point.value.ln(), 1.0));
    let (base, exponent) = line(logarithms);
    Some(Shape::Power {
        factor: base.exp(),
        exponent,
    })
}

/// The base and the slope of the line of least squares. `points` have x, y and a weight; at least
/// two x differ.
fn line(points: impl Iterator<Item = (f64, f64, f64)> + Clone) -> (f64, f64) {
    let sum = |part: &dyn Fn(f64, f64) -> f64| -> f64 {
        points
            .clone()
            .map(|(x, y, weight)| weight * part(x, y))
            .sum()
    };
    let weights = sum(&|_, _| 1.0);
    let (x_mean, y_mean) = (sum(&|x, _| x) / weights, sum(&|_, y| y) / weights);
    let spread = sum(&|x, _| (x - x_mean).powi(2));
    let slope = sum(&|x, y| (x - x_mean) * (y - y_mean)) / spread;
    (y_mean - slope * x_mean, slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(value: impl Fn(f64) -> f64) -> Growth {
        let sizes = [500.0, 2000.0, 8000.0];
        let points = sizes.map(|items| Point {
            items,
            value: value(items),
        });
        Growth::fit(&points).unwrap()
    }

    fn near(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= expected.abs() * 0.01
    }

    #[test]
    fn point_query_stays_constant() {
        let growth = fit(|_| 1.0);
        assert_eq!(growth.shape, Shape::Constant { value: 1.0 });
        assert_eq!(growth.at(1e7), 1.0);
        assert_eq!(fit(|_| 0.0).at(1e7), 0.0);
    }

    #[test]
    fn scan_grows_with_the_items_and_so_does_one_with_a_base() {
        let growth = fit(|items| items);
        assert!(matches!(growth.shape, Shape::Linear { .. }));
        assert!(near(growth.at(1e7), 1e7), "{growth}");
        let growth = fit(|items| 100.0 + items / 5.0);
        let Shape::Linear { base, by_item } = growth.shape else {
            panic!("{growth}");
        };
        assert!(near(base, 100.0) && near(by_item, 0.2), "{growth}");
    }

    #[test]
    fn growth_between_has_its_exponent() {
        let growth = fit(f64::sqrt);
        let Shape::Power { exponent, .. } = growth.shape else {
            panic!("{growth}");
        };
        assert!(near(exponent, 0.5));
        assert!(near(growth.at(1e6), 1000.0), "{growth}");
        let text = growth.to_string();
        assert!(
            text.starts_with("1.000 x N^0.50, measured up to N = 8000"),
            "{text}"
        );
    }

    #[test]
    fn noise_is_shown_as_deviation() {
        let points = [(500.0, 480.0), (2000.0, 2100.0), (8000.0, 7900.0)];
        let points = points.map(|(items, value)| Point { items, value });
        let growth = Growth::fit(&points).unwrap();
        assert!((0.005..0.06).contains(&growth.deviation), "{growth}");
        assert!((8e6..1.2e7).contains(&growth.at(1e7)), "{growth}");
    }

    #[test]
    fn two_sizes_are_not_enough() {
        let point = |items, value| Point { items, value };
        let points = [point(1.0, 1.0), point(2.0, 2.0), point(2.0, 2.1)];
        assert_eq!(Growth::fit(&points), Err(FitError::TooFewSizes));
        for wrong in [point(0.0, 1.0), point(1.0, -1.0), point(f64::NAN, 1.0)] {
            let points = [wrong, point(2.0, 2.0), point(3.0, 3.0)];
            assert_eq!(Growth::fit(&points), Err(FitError::InvalidPoint));
        }
    }

    #[test]
    fn falling_figure_never_becomes_negative() {
        assert_eq!(fit(|items| 10_000.0 - items).at(1e7), 0.0);
    }
}
