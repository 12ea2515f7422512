//! The routes of jobs: confirm, watch, cancel.

use crate::context::Console;
use crate::form::Form;
use crate::jobs::Job;
use crate::layout::{self, JOBS};
use crate::respond::{Html, Json, Page, SeeOther, marked};
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Extension, Router};
use lazurite_protocol::response::error::{Failure, Result};
use serde_json::Value;
use std::sync::Arc;

pub fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route(JOBS, post(start))
        .route("/_lazurite/jobs/{id}", get(show))
        .route("/_lazurite/jobs/{id}/cancel", post(cancel))
        .route("/_lazurite/api/jobs/{id}", get(progress))
}

/// Starts what was confirmed, and leads back to the list once a short job is done.
async fn start(
    State(console): State<Arc<Console>>,
    Extension(form): Extension<Form>,
) -> Page<SeeOther> {
    let job = console.jobs.start(&form)?;
    job.wait_shortly().await;
    Ok(back_to(&job))
}

fn back_to(job: &Job) -> SeeOther {
    SeeOther(marked(&job.task.back, "job", &job.id.to_string()))
}

/// The page that asks for a confirmation. Once confirmed, it leads to the list with the report.
async fn show(
    State(console): State<Arc<Console>>,
    Path(id): Path<u64>,
) -> Page<std::result::Result<Html, SeeOther>> {
    let Some((task, title, content)) = console.jobs.question(id) else {
        return Ok(Err(back_to(&*found(&console, id)?)));
    };
    console.check_account(&task.account)?;
    let page = layout::page_in(&console, &task.account, task.section, &title, content);
    Ok(Ok(page))
}

fn found(console: &Console, id: u64) -> Result<Arc<Job>> {
    let job = console.jobs.find(id).ok_or_else(|| {
        let message = "The server no longer has this job or its confirmation. Go back to the list.";
        Failure::new(404, "JobNotFound", message)
    })?;
    console.check_account(&job.task.account)?;
    Ok(job)
}

async fn cancel(State(console): State<Arc<Console>>, Path(id): Path<u64>) -> Page<SeeOther> {
    let job = found(&console, id)?;
    job.cancel();
    job.wait_shortly().await;
    Ok(back_to(&job))
}

async fn progress(State(console): State<Arc<Console>>, Path(id): Path<u64>) -> Page<Json<Value>> {
    Ok(Json(found(&console, id)?.json()))
}
