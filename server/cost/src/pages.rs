//! The pages in which Azure answers a scan, each of which is a request.
//!
//! Source: Query timeout and pagination: a page ends at 1,000 entities, after 5 seconds, or where
//! the query crosses a partition boundary, and may be empty. Azure does not publish how many rows
//! it examines in a second and where its boundaries lie: the caller gives both.

use serde::Serialize;

/// Maximum number of entities of a page.
pub const PAGE_ENTITIES_MAX: f64 = 1000.0;
/// Seconds of execution after which a page ends.
pub const PAGE_SECONDS_MAX: f64 = 5.0;

/// The limits of a page.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PageRules {
    /// Maximum number of entities of a page: `$top`, or [`PAGE_ENTITIES_MAX`].
    pub entities_max: f64,
    /// Rows that the service examines in a second: the caller's assumption. `None` if no page ends
    /// by time.
    pub rows_a_second: Option<f64>,
    /// Seconds after which a page ends.
    pub seconds_max: f64,
}

impl Default for PageRules {
    /// The published limits; no page ends by time.
    fn default() -> PageRules {
        PageRules {
            entities_max: PAGE_ENTITIES_MAX,
            rows_a_second: None,
            seconds_max: PAGE_SECONDS_MAX,
        }
    }
}

impl PageRules {
    /// Pages of a scan that examines `examined` rows, returns `returned` of them and crosses
    /// `boundaries` partition boundaries; at least 1. Assumes that boundaries and results lie
    /// evenly among the rows. Numbers that are negative or not finite count as 0.
    pub fn pages(&self, examined: f64, returned: f64, boundaries: f64) -> f64 {
        let ranges = count(boundaries).floor() + 1.0;
        let by_entities = parts(count(returned) / ranges, self.entities_max);
        let by_time = self.rows_a_second.map_or(1.0, |rows| {
            parts(count(examined) / ranges, rows * self.seconds_max)
        });
        // A page ends at the limit that it meets first, so the greater number of pages counts.
        ranges * by_entities.max(by_time)
    }
}

fn count(number: f64) -> f64 {
    if number.is_finite() {
        number.max(0.0)
    } else {
        0.0
    }
}

/// Parts of at most `max` in `whole`, at least 1. A `max` below 1 counts as 1.
fn parts(whole: f64, max: f64) -> f64 {
    (whole / count(max).max(1.0)).ceil().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_ends_at_a_thousand_entities() {
        let rules = PageRules::default();
        for (returned, pages) in [(0.0, 1.0), (1.0, 1.0), (1000.0, 1.0), (1001.0, 2.0)] {
            assert_eq!(rules.pages(5000.0, returned, 0.0), pages, "{returned}");
        }
    }

    #[test]
    fn page_ends_after_five_seconds() {
        let rules = PageRules {
            rows_a_second: Some(10_000.0),
            ..PageRules::default()
        };
        // 1,000,000 rows at 10,000 a second are 100 seconds: 20 pages, 19 of them empty.
        assert_eq!(rules.pages(1e6, 1.0, 0.0), 20.0);
        // 100,000 results need 100 pages, and each then takes a second.
        assert_eq!(rules.pages(1e6, 1e5, 0.0), 100.0);
    }

    #[test]
    fn page_ends_at_each_boundary() {
        let rules = PageRules::default();
        assert_eq!(rules.pages(2000.0, 20.0, 99.0), 100.0);
        // 4 ranges of 1,500 results each: 2 pages each.
        assert_eq!(rules.pages(6000.0, 6000.0, 3.0), 8.0);
    }

    /// The table of docs/guide/README.md, "What the prices hold for".
    #[test]
    fn boundaries_between_ten_servers_cost_short_scans_nine_pages_and_long_ones_none() {
        let rules = PageRules {
            rows_a_second: Some(2000.0),
            ..PageRules::default()
        };
        for (examined, returned, without, with) in [
            (2000.0, 20.0, 1.0, 10.0),
            (1e5, 100.0, 10.0, 10.0),
            (1e7, 1000.0, 1000.0, 1000.0),
        ] {
            assert_eq!(rules.pages(examined, returned, 0.0), without);
            assert_eq!(rules.pages(examined, returned, 9.0), with);
        }
    }

    #[test]
    fn absurd_numbers_are_one_page_or_many_and_never_infinite() {
        let rules = PageRules {
            entities_max: 0.0,
            rows_a_second: Some(0.0),
            seconds_max: f64::NAN,
        };
        assert_eq!(rules.pages(f64::NAN, f64::INFINITY, -1.0), 1.0);
        assert_eq!(rules.pages(10.0, 5.0, 0.0), 10.0);
    }
}
