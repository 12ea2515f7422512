//! The advice of the server's advisor on the designs of a pattern. Only our own server has an
//! advisor.

use serde_json::{Value, json};

use crate::client::{Client, Request, Service};

/// Maximum number of requests that are shown for each piece of advice.
const REQUESTS_MAX: usize = 3;

/// A piece of advice, the same for one or several designs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Advice {
    pub(super) rule: String,
    pub(super) title: String,
    /// The finding about the first of the designs.
    pub(super) finding: String,
    /// The remedy.
    pub(super) remedy: String,
    pub(super) designs: Vec<&'static str>,
    /// Some of the requests that led to the advice, each with its operation and its resource.
    pub(super) requests: Vec<String>,
}

impl Advice {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "rule": self.rule,
            "title": self.title,
            "finding": self.finding,
            "remedy": self.remedy,
            "designs": self.designs,
            "requests": self.requests,
        })
    }
}

/// The prefix of the names of a design's tables, containers and queues.
pub(super) struct Prefix {
    pub(super) text: String,
    pub(super) design: &'static str,
}

/// All advice of the server; `None` if it is not ours.
pub(super) fn fetch(client: &Client) -> Option<Vec<Value>> {
    let page = Request::new(Service::Table, "GET", "/_lazurite/advice".into());
    let answer = client.send(page).ok()?;
    let mut report: Value = serde_json::from_slice(&answer.body).ok()?;
    match report["advice"].take() {
        Value::Array(advice) => Some(advice),
        _ => None,
    }
}

/// The advice on the resources of a pattern, once for each rule, because several runs and designs
/// may have received the same advice.
pub(super) fn of_designs(advice: &[Value], prefixes: &[Prefix]) -> Vec<Advice> {
    let mut found: Vec<Advice> = Vec::new();
    for one in advice {
        let text = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
        let resource = text("resource");
        let of_design = |prefix: &&Prefix| resource.starts_with(&prefix.text);
        let Some(prefix) = prefixes.iter().find(of_design) else {
            continue;
        };
        let rule = text("rule");
        match found.iter_mut().find(|known| known.rule == rule) {
            Some(known) if !known.designs.contains(&prefix.design) => {
                known.designs.push(prefix.design);
            }
            Some(_) => {}
            None => found.push(Advice {
                rule,
                title: text("title"),
                finding: text("finding"),
                remedy: text("pattern"),
                designs: vec![prefix.design],
                requests: requests(one, &prefix.text),
            }),
        }
    }
    found
}

/// The requests behind a piece of advice, their resources without the prefix of the run.
fn requests(advice: &Value, prefix: &str) -> Vec<String> {
    let requests = advice["requests"].as_array().map_or(&[][..], Vec::as_slice);
    let shown = requests.iter().take(REQUESTS_MAX).map(|request| {
        let text = |name: &str| request[name].as_str().unwrap_or_default();
        let resource = text("resource");
        let short = resource.strip_prefix(prefix).unwrap_or(resource);
        format!("{} {short}", text("operation"))
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_belongs_to_the_designs_whose_tables_it_names() {
        let one = |rule: &str, resource: &str| {
            json!({
                "rule": rule, "title": "Filters join keys", "resource": resource, "finding": "5 filters", "pattern": "Send one query",
                "requests": [{"operation": "QueryEntities", "resource": format!("{resource}?$filter=x")}],
            })
        };
        let advice = [
            one("or-on-keys", "g1x0querykinds0staff"),
            one("or-on-keys", "g1x5querykinds0staff"),
            one("or-on-keys", "g1x1querykinds1staff"),
            one("wasteful-scan", "elsewhere"),
        ];
        let prefix = |text: &str, design| Prefix {
            text: text.into(),
            design,
        };
        let prefixes = [
            prefix("g1x0querykinds0", "scan"),
            prefix("g1x5querykinds0", "scan"),
            prefix("g1x1querykinds1", "range"),
        ];
        let found = of_designs(&advice, &prefixes);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].designs, ["scan", "range"]);
        assert_eq!(found[0].requests, ["QueryEntities staff?$filter=x"]);
    }
}
