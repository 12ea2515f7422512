//! The layer that gives refusals a body: a page or JSON, whichever the client prefers.

use crate::form::Form;
use crate::respond::{HTML, JSON, NotRendered};
use crate::{layout, links};
use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use axum::middleware::Next;
use lazurite_protocol::response::error::Failure;
use lazurite_services::pages::accepts_html;
use maud::{Markup, html};
use percent_encoding::percent_decode_str;

/// The detail of a failure that names the field it is about.
const FIELD: &str = "Field";
/// Maximum number of bytes of a form that comes back.
const FORM_BYTES_MAX: usize = 1 << 20;
/// Codes of a missing account, and of a missing container, queue or table.
const NO_ACCOUNT: [&str; 2] = ["AccountNotFound", "ForkNotFound"];
const NO_RESOURCE: [&str; 3] = ["ContainerNotFound", "QueueNotFound", "TableNotFound"];
/// Names in the place of a container's that are pages of the account.
const OF_ACCOUNT: [&str; 2] = ["selected", "tags"];
/// Fields that no one types.
const HIDDEN: [&str; 15] = [
    "token",
    "etag",
    "id",
    "receipt",
    "item",
    "plan",
    "from",
    "until",
    "keep",
    "lines",
    "act",
    "confirmed",
    "kind",
    "parent",
    "seen",
];

/// Gives refusals their bodies: a page or JSON, whichever the client prefers.
pub async fn rendered(request: Request, next: Next) -> Response<Body> {
    let wants_html = accepts_html(request.headers());
    let path = request.uri().path().to_owned();
    let mut response = next.run(request).await;
    match response.extensions_mut().remove::<NotRendered>() {
        Some(refused) => render(response, &refused, wants_html.then_some(&path)),
        None => response,
    }
}

/// `page_path` is the path of the page, if the client wants one.
fn render(
    response: Response<Body>,
    refused: &NotRendered,
    page_path: Option<&str>,
) -> Response<Body> {
    let (mut parts, _) = response.into_parts();
    let (kind, body) = match page_path {
        Some(path) => (HTML, page(refused, path).into_string()),
        None => (JSON, refusal_json(&refused.failure)),
    };
    // The length of the empty body that the refusal had.
    parts.headers.remove(CONTENT_LENGTH);
    parts
        .headers
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Response::from_parts(parts, Body::from(body))
}

fn refusal_json(failure: &Failure) -> String {
    let error = serde_json::json!({"code": failure.code, "message": failure.message});
    format!("{}\n", serde_json::json!({ "error": error }))
}

/// The pages above the one at a path that was refused: the list of its section, its account, and
/// the container, queue or table that it is about, unless one of them is what is missing.
fn above(path: &str, code: &str) -> Vec<(String, String)> {
    let segments = path.trim_start_matches("/_lazurite/").split('/');
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let segments: Vec<String> = segments.map(decoded).collect();
    let folder = segments.first().map_or("", String::as_str);
    let Some((title, _)) = layout::KINDS.iter().find(|(_, known)| *known == folder) else {
        return Vec::new();
    };
    let mut above = vec![((*title).to_owned(), links::path(&[folder], &[]))];
    let Some(account) = segments.get(1).filter(|_| !NO_ACCOUNT.contains(&code)) else {
        return above;
    };
    above.push((account.clone(), links::path(&[folder, account], &[])));
    let name = segments
        .get(2)
        .filter(|name| !OF_ACCOUNT.contains(&name.as_str()));
    if let Some(name) = name.filter(|_| !NO_RESOURCE.contains(&code)) {
        above.push((name.clone(), links::path(&[folder, account, name], &[])));
    }
    above
}

/// A refusal as a page. A refused form comes back with what was typed.
fn page(refused: &NotRendered, path: &str) -> Markup {
    let failure = &refused.failure;
    let above = above(path, &failure.code);
    let trail: Vec<(&str, String)> = above
        .iter()
        .map(|(title, path)| (title.as_str(), path.clone()))
        .collect();
    let section = trail.first().map_or("", |(title, _)| *title);
    let details = failure.details.iter().filter(|(name, _)| *name != FIELD);
    let field = failure.details.iter().find(|(name, _)| *name == FIELD);
    let field = field.map(|(_, field)| field.as_str());
    let form = refused.form.as_ref().filter(|(_, form)| is_short(form));
    let content = html! {
        @if !trail.is_empty() { (layout::trail(&trail, &failure.code)) }
        h1 { (failure.status.as_u16()) " " (failure.code) }
        p.alert role="alert" data-field=[field] { (failure.message) }
        @for (name, value) in details { p { b { (name) } ": " (value) } }
        @if let Some((action, form)) = form { (form_again(action, form, field)) }
        @if failure.code == "ForkNotFound" {
            p { "A fork ends when it is released, and after a while without requests. " a href="/_lazurite/state" { "Forks and snapshots" } " lists those that there are." }
        }
        p { a href="/_lazurite/" { "Home" } }
    };
    layout::frame(None, "", section, &failure.code, content)
}

fn is_short(form: &Form) -> bool {
    let bytes = form
        .fields()
        .iter()
        .map(|(name, value)| name.len() + value.len());
    bytes.sum::<usize>() <= FORM_BYTES_MAX && form.fields().len() > 1
}

/// The title of a field whose name is no word.
fn title_of(name: &str) -> &str {
    match name {
        "acl" => "entries",
        "pk" => "PartitionKey",
        "rk" => "RowKey",
        "to" => "new name",
        name => name,
    }
}

/// The fields of a form, filled. `wrong` names the one that was refused, with its index if several
/// have the name.
fn form_again(action: &str, form: &Form, wrong: Option<&str>) -> Markup {
    let (wrong, index) = wrong.map_or(("", 0), |wrong| {
        let (name, index) = wrong.split_once(':').unwrap_or((wrong, "0"));
        (name, index.parse().unwrap_or(0))
    });
    let is_hidden = |name: &str| HIDDEN.contains(&name);
    let mut seen = 0;
    html! {
        section {
            h2 { "Correct it and send it again" }
            form.fields method="post" action=(action) data-plain {
                @for (name, value) in form.fields() {
                    @if is_hidden(name) {
                        input type="hidden" name=(name) value=(value);
                    } @else {
                        @let is_wrong = name == wrong && { seen += 1; seen == index + 1 };
                        label.wide {
                            (title_of(name)) " "
                            @if value.contains('\n') || value.len() > 100 {
                                textarea name=(name) rows=(value.lines().count().clamp(2, 16)) aria-invalid=[is_wrong.then_some("true")] spellcheck="false" { "\n" (value) }
                            } @else {
                                input name=(name) value=(value) aria-invalid=[is_wrong.then_some("true")] autofocus[is_wrong] autocomplete="off";
                            }
                        }
                    }
                }
                button { "Send again" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_form_comes_back_filled_and_marks_the_field() {
        let form = Form::parse(b"token=t&name=Age&value=1&name=Size&value=%3Cx%3E").unwrap();
        let failure = Failure::invalid_input("no number").with(FIELD, "value:1");
        let form = Some(("/_lazurite/x".to_owned(), form));
        let page = page(&NotRendered { failure, form }, "/_lazurite/x").into_string();
        assert!(
            page.contains(r#"<input type="hidden" name="token" value="t">"#),
            "{page}"
        );
        assert!(
            page.contains(r#"name="value" value="&lt;x&gt;" aria-invalid="true""#),
            "{page}"
        );
        assert_eq!(page.matches("aria-invalid").count(), 1);
    }

    #[test]
    fn a_refusal_leads_to_the_pages_above_it_that_are_there() {
        let titles = |path: &str, code: &str| {
            let above = above(path, code);
            above
                .into_iter()
                .map(|(title, _)| title)
                .collect::<Vec<_>>()
        };
        let blob = "/_lazurite/blobs/a/my%20photos/blob";
        assert_eq!(titles(blob, "BlobNotFound"), ["Blobs", "a", "my photos"]);
        assert_eq!(titles(blob, "ContainerNotFound"), ["Blobs", "a"]);
        assert_eq!(titles(blob, "ForkNotFound"), ["Blobs"]);
        assert_eq!(
            titles("/_lazurite/blobs/a/tags", "InvalidInput"),
            ["Blobs", "a"]
        );
        assert_eq!(titles("/_lazurite/nowhere", "PageNotFound"), [""; 0]);
    }
}
