//! The data that every design stores: the employees of a company, generated from a seed.

use lazurite_bench_common::Random;

/// Number of employees at scale 1.
const EMPLOYEES: f64 = 2000.0;
pub(super) const DEPARTMENTS: [&str; 5] = ["Sales", "Marketing", "Finance", "Support", "Research"];
const FIRST_NAMES: [&str; 8] = [
    "Ann", "Bob", "Carla", "Don", "Eve", "Frank", "Grace", "Hugo",
];
const LAST_NAMES: [&str; 10] = [
    "Jones", "Smith", "Miller", "Garcia", "Chen", "Novak", "Silva", "Okafor", "Haddad", "Larsen",
];
/// Number of employees that are asked for; at some scales more, up to 39.
const ASKED_MAX: usize = 20;

#[derive(Clone)]
pub(super) struct Employee {
    pub(super) department: &'static str,
    /// Six digits.
    pub(super) id: String,
    pub(super) first: &'static str,
    pub(super) last: &'static str,
    pub(super) mail: String,
    pub(super) age: u64,
}

impl Employee {
    /// An employee as a line of an answer.
    pub(super) fn line(&self) -> String {
        format!("{} {} {}", self.id, self.mail, self.age)
    }
}

pub(super) struct Data {
    pub(super) employees: Vec<Employee>,
    pub(super) seed: u64,
    scale: f64,
}

impl Data {
    pub(super) fn new(seed: u64, scale: f64) -> Data {
        let mut random = Random::new(seed);
        let count = ((EMPLOYEES * scale) as u64).max(40);
        let mut pick = |length: usize| random.below(length as u64) as usize;
        let employee = |number| {
            let (first, last) = (
                FIRST_NAMES[pick(FIRST_NAMES.len())],
                LAST_NAMES[pick(LAST_NAMES.len())],
            );
            Employee {
                department: DEPARTMENTS[pick(DEPARTMENTS.len())],
                id: format!("{number:06}"),
                first,
                last,
                mail: format!("{}.{number}@example.com", last.to_lowercase()),
                age: 20 + pick(45) as u64,
            }
        };
        Data {
            employees: (0..count).map(employee).collect(),
            seed,
            scale,
        }
    }

    /// The number `full`, reduced by the scale, but at least `least`.
    pub(super) fn scaled(&self, full: usize, least: usize) -> usize {
        ((full as f64 * self.scale) as usize).max(least)
    }

    pub(super) fn of(&self, department: &str) -> impl Iterator<Item = &Employee> {
        self.employees
            .iter()
            .filter(move |employee| employee.department == department)
    }

    /// Employees that are asked for, evenly spread.
    pub(super) fn asked(&self) -> Vec<&Employee> {
        let step = (self.employees.len() / ASKED_MAX).max(1);
        self.employees.iter().step_by(step).collect()
    }
}
