//! Actors: each generates one part of the events of a life, with its own random choices.
//!
//! An actor is a file: its steps, how they are chosen, and how they are done. A new actor is a new
//! file, and a variant of [`Actor`] and of [`Step`].

mod choose;
mod closer;
mod damager;
mod forker;
mod holder;
mod janitor;
mod killer;
mod meddler;
mod reader;
mod saboteur;
mod writer;

use crate::finding::Checked;
use crate::kind::Kind;
use crate::life::Life;
use lazurite_engine::Choices;

/// The actor that makes a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Actor {
    Writer,
    Reader,
    Holder,
    Janitor,
    Forker,
    Closer,
    Killer,
    Saboteur,
    Damager,
    Meddler,
}

/// One step of a life, with everything that was chosen for it.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the names are those of the actors")]
pub enum Step {
    Write(writer::Step),
    Read(reader::Step),
    Hold(holder::Step),
    Work(janitor::Step),
    Fork(forker::Step),
    Close(closer::Step),
    Kill(killer::Step),
    Fail(saboteur::Step),
    Damage(damager::Step),
    Meddle(meddler::Step),
}

impl Step {
    /// Does the step, and checks the results of its calls.
    pub fn run(&self, life: &mut Life) -> Checked {
        match self {
            Step::Write(step) => step.run(life),
            Step::Read(step) => step.run(life),
            Step::Hold(step) => step.run(life),
            Step::Work(step) => step.run(life),
            Step::Fork(step) => step.run(life),
            Step::Close(step) => step.run(life),
            Step::Kill(step) => step.run(life),
            Step::Fail(step) => step.run(life),
            Step::Damage(step) => step.run(life),
            Step::Meddle(step) => step.run(life),
        }
    }

    /// Smaller steps, each of which does a part of this one.
    pub fn parts(&self) -> Vec<Step> {
        match self {
            Step::Write(step) => step.parts().into_iter().map(Step::Write).collect(),
            Step::Meddle(step) => step.parts().into_iter().map(Step::Meddle).collect(),
            _ => Vec::new(),
        }
    }
}

/// The weight of each actor in a life of that kind, in the order of [`Actor`].
fn weights(kind: Kind) -> [(u64, Actor); 10] {
    let weights = match kind {
        Kind::Forks => [250, 80, 200, 200, 150, 120, 3, 0, 0, 20],
        Kind::Faults => [400, 140, 70, 220, 60, 45, 15, 60, 0, 40],
        Kind::Damage => [400, 80, 30, 220, 40, 100, 10, 0, 120, 60],
        _ => [400, 140, 70, 220, 50, 45, 20, 0, 0, 40],
    };
    let actors = [
        Actor::Writer,
        Actor::Reader,
        Actor::Holder,
        Actor::Janitor,
        Actor::Forker,
        Actor::Closer,
        Actor::Killer,
        Actor::Saboteur,
        Actor::Damager,
        Actor::Meddler,
    ];
    std::array::from_fn(|index| (weights[index], actors[index]))
}

/// The steps of a life, which ends with the death of its process.
pub fn plan(seed: u64, kind: Kind) -> Vec<Step> {
    let mut order = Choices::child(seed, "order");
    let child = |actor: Actor| Choices::child(seed, &format!("{actor:?}"));
    let weights = weights(kind);
    let mut choices: Vec<Choices> = weights.iter().map(|&(_, actor)| child(actor)).collect();
    let count = 100 + order.below(400);
    let mut steps: Vec<Step> = (0..count)
        .map(|_| {
            let actor = order.weighted(&weights);
            next_step(actor, &mut choices[actor as usize])
        })
        .collect();
    steps.push(Step::Kill(killer::Step::kill(&mut order)));
    steps
}

fn next_step(actor: Actor, choices: &mut Choices) -> Step {
    match actor {
        Actor::Writer => Step::Write(writer::Step::next(choices)),
        Actor::Reader => Step::Read(reader::Step::next(choices)),
        Actor::Holder => Step::Hold(holder::Step::next(choices)),
        Actor::Janitor => Step::Work(janitor::Step::next(choices)),
        Actor::Forker => Step::Fork(forker::Step::next(choices)),
        Actor::Closer => Step::Close(closer::Step::next(choices)),
        Actor::Killer => Step::Kill(killer::Step::next(choices)),
        Actor::Saboteur => Step::Fail(saboteur::Step::next(choices)),
        Actor::Damager => Step::Damage(damager::Step::next(choices)),
        Actor::Meddler => Step::Meddle(meddler::Step::next(choices)),
    }
}
