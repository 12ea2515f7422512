use super::*;
use std::ops::Range;

/// Numbers in pages of two.
#[derive(Clone)]
struct Numbers(Range<u32>);

impl Items for Numbers {
    type Item = u32;

    fn next(&mut self) -> Result<Option<Vec<u32>>> {
        let page: Vec<u32> = self.0.by_ref().take(2).collect();
        Ok(Some(page).filter(|page| !page.is_empty()))
    }
}

/// Counts some numbers, acts on those that are found afterwards, and returns the report.
async fn report(counted: Range<u32>, found: Range<u32>, act: Act<u32>) -> String {
    let task = Task {
        account: "a".to_owned(),
        section: "Blobs",
        verbs: ("Delete", "Deleted"),
        noun: "number",
        place: "from here".to_owned(),
        back: "/".to_owned(),
    };
    let work = Work {
        items: Numbers(found),
        marks: Arc::new(Marks::of(Numbers(counted)).unwrap()),
        act,
    };
    let job = Jobs::default().begin(1, task, work).unwrap();
    while job.running().is_some() {
        tokio::task::yield_now().await;
    }
    job.report()
}

#[tokio::test]
async fn a_job_touches_what_was_counted_and_nothing_else() {
    let act: Act<u32> = Box::new(|job, numbers| {
        assert!(numbers.iter().all(|number| *number < 6));
        job.add_done(numbers.len());
        Ok(None)
    });
    assert_eq!(
        report(0..6, 3..9, act).await,
        "Deleted 3 of 6 numbers from here. Others changed or deleted 3 meanwhile: left as they are."
    );
}

#[tokio::test]
async fn a_canceled_job_says_how_far_it_came() {
    let act: Act<u32> = Box::new(|job, numbers| {
        job.add_done(numbers.len());
        job.cancel();
        Ok(None)
    });
    assert_eq!(
        report(0..6, 0..6, act).await,
        "Deleted 2 of 6 numbers from here. Canceled."
    );
}

#[tokio::test]
async fn failures_are_counted_and_a_failure_of_a_step_ends_the_job() {
    let act: Act<u32> = Box::new(|job, numbers| {
        if numbers.contains(&4) {
            return Err(Failure::new(
                404,
                "ContainerNotFound",
                "The container is gone.",
            ));
        }
        for number in numbers {
            job.add_failed(
                &number.to_string(),
                Failure::new(412, "LeaseIdMissing", "held"),
            );
        }
        Ok(None)
    });
    assert_eq!(
        report(0..6, 0..6, act).await,
        "Deleted 0 of 6 numbers from here. It stopped: The container is gone. 4 failed:"
    );
}

#[test]
fn a_plan_of_too_many_items_or_of_none_is_refused() {
    let code = |range| {
        Marks::of(Numbers(range))
            .err()
            .map(|failure| failure.code.clone())
    };
    assert_eq!(code(0..0).as_deref(), Some("NothingSelected"));
    assert_eq!(code(0..u32::MAX).as_deref(), Some("TooManyItems"));
    assert!(code(0..10).is_none());
}
