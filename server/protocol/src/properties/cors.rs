//! Cross-origin resource sharing: rules, preflight requests, and the headers that let a page read
//! an answer. Source: Cross-Origin Resource Sharing (CORS) support for Azure Storage, all sections;
//! Preflight Blob Request.

use crate::properties::elements::{check_children, required};
use crate::request::context::Context;
use crate::response::error::{Failure, Result, common};
use crate::response::headers::{empty, put, put_static};
use crate::xml::{Element, Writer};
use axum::body::Body;
use axum::http::header::VARY;
use axum::http::{Method, Response};

/// Maximum number of rules of a service.
const RULES_MAX: usize = 5;
/// Maximum number of bytes of all rules of a service together.
const RULES_BYTES_MAX: usize = 2 * 1024;
/// Maximum number of origins in a rule, and of headers without `*` in each of its lists.
const LITERALS_MAX: usize = 64;
/// Maximum number of headers that end in `*` in each list of a rule.
const PREFIXES_MAX: usize = 2;
/// Maximum length of an origin or header, in characters.
const NAME_LENGTH_MAX: usize = 256;
/// How long a browser may cache a preflight response that the rule of `--cors` allows.
const START_RULE_AGE_SECONDS: u64 = 60 * 60;
const METHODS: [&str; 8] = [
    "DELETE", "GET", "HEAD", "MERGE", "PATCH", "POST", "OPTIONS", "PUT",
];

/// A CORS rule: which requests pages of some origins may make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorsRule {
    /// Exact origins, `*` in place of a subdomain (`https://*.contoso.com`), or `*` for all.
    pub allowed_origins: Vec<String>,
    /// The methods, in upper case.
    pub allowed_methods: Vec<String>,
    /// The request headers: names, or prefixes that end in `*`.
    pub allowed_headers: Vec<String>,
    /// The response headers that pages may read: names, or prefixes that end in `*`.
    pub exposed_headers: Vec<String>,
    /// How long a browser may cache the response to a preflight request.
    pub max_age_seconds: u64,
}

impl CorsRule {
    fn covers(&self, origin: &str, method: &str) -> bool {
        let origins = &self.allowed_origins;
        (self.is_for_all() || origins.iter().any(|allowed| is_origin(allowed, origin)))
            && self.allowed_methods.iter().any(|allowed| allowed == method)
    }

    fn is_for_all(&self) -> bool {
        self.allowed_origins.iter().any(|allowed| allowed == "*")
    }

    /// The value of `Access-Control-Allow-Origin` for an origin that the rule covers.
    fn origin_to_allow<'a>(&self, origin: &'a str) -> &'a str {
        if self.is_for_all() { "*" } else { origin }
    }
}

/// True if `origin` is the allowed origin, or one of the subdomains that `allowed` covers with
/// `*.`. Case matters, as documented: browsers send host names in lower case. Source: Set Blob
/// Service Properties, "Request body", `AllowedOrigins`.
fn is_origin(allowed: &str, origin: &str) -> bool {
    let Some((scheme, domain)) = allowed.split_once("://*.") else {
        return allowed == origin;
    };
    let subdomain = || {
        let host = origin.strip_prefix(scheme)?.strip_prefix("://")?;
        host.strip_suffix(domain)?.strip_suffix('.')
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    subdomain().is_some_and(|name| !name.is_empty() && name.bytes().all(is_plain))
}

/// The rule of `--cors`: pages of these origins may do everything that their credentials permit.
/// The error is a sentence.
pub fn rule_at_start(origins: &[String]) -> std::result::Result<CorsRule, String> {
    for origin in origins {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        let is_origin =
            authority.is_some_and(|name| !name.is_empty() && !name.contains(['/', ' ']));
        if origin != "*" && !is_origin {
            return Err(format!(
                "--cors {origin}: an origin is SCHEME://HOST[:PORT] without a slash at its end, as browsers send it, or *"
            ));
        }
    }
    Ok(CorsRule {
        allowed_origins: origins.to_vec(),
        allowed_methods: METHODS.map(str::to_owned).to_vec(),
        allowed_headers: vec!["*".to_owned()],
        exposed_headers: vec!["*".to_owned()],
        max_age_seconds: START_RULE_AGE_SECONDS,
    })
}

/// The first rule that covers the origin and the method.
fn matching<'a>(rules: &'a [CorsRule], origin: &str, method: &str) -> Option<&'a CorsRule> {
    rules.iter().find(|rule| rule.covers(origin, method))
}

/// Whether a rule allows a page of the request's origin to make the request.
pub fn allows(rules: &[CorsRule], context: &Context) -> bool {
    context
        .header("origin")
        .is_some_and(|origin| matching(rules, &origin, context.method.as_str()).is_some())
}

/// Answers OPTIONS. The resource need not exist, and no signature is required.
pub fn preflight(rules: &[CorsRule], context: &Context) -> Result<Response<Body>> {
    let header = |name: &str| {
        context.header(name).ok_or_else(|| {
            Failure::new(
                400,
                "InvalidHeaderValue",
                "A required CORS header is not present.",
            )
            .with("HeaderName", name)
        })
    };
    let (origin, method) = (header("origin")?, header("access-control-request-method")?);
    let headers = context.header("access-control-request-headers");
    let rule = matching(rules, &origin, &method).filter(|rule| {
        listed(headers.as_deref().unwrap_or("")).all(|name| is_among(&rule.allowed_headers, name))
    });
    let Some(rule) = rule else {
        return Err(Failure::new(
            403,
            "CorsPreflightFailure",
            "CORS not enabled or no matching rule found for this request.",
        )
        .with(
            "Reason",
            why_not(rules, &origin, &method, headers.as_deref().unwrap_or("")),
        ));
    };
    Ok(allow(rule, &origin, &method, headers))
}

/// The response to a preflight request that a rule allows.
fn allow(rule: &CorsRule, origin: &str, method: &str, headers: Option<String>) -> Response<Body> {
    let mut response = empty(200);
    put(
        &mut response,
        "access-control-allow-origin",
        rule.origin_to_allow(origin),
    );
    put(&mut response, "access-control-allow-methods", method);
    if let Some(headers) = headers {
        put(&mut response, "access-control-allow-headers", headers);
    }
    put(
        &mut response,
        "access-control-max-age",
        rule.max_age_seconds.to_string(),
    );
    if !rule.is_for_all() {
        put_static(&mut response, "access-control-allow-credentials", "true");
        put_static(&mut response, VARY, "Origin");
    }
    response
}

/// The part of a preflight request that no rule allows, in a sentence.
fn why_not(rules: &[CorsRule], origin: &str, method: &str, headers: &str) -> String {
    if let Some(rule) = matching(rules, origin, method) {
        let refused = listed(headers).find(|name| !is_among(&rule.allowed_headers, name));
        let refused = refused.unwrap_or_default();
        return format!(
            "The first rule for {method} from {origin} does not allow the header {refused}: add it, or *, to AllowedHeaders."
        );
    }
    let advice = format!("Set one with Set Service Properties, or start with --cors {origin}.");
    if rules.is_empty() {
        return format!("The service has no CORS rule. {advice}");
    }
    let knows_origin = METHODS
        .iter()
        .any(|method| matching(rules, origin, method).is_some());
    if knows_origin {
        format!("No rule allows the method {method} from {origin}: add it to AllowedMethods.")
    } else {
        format!("No rule allows the origin {origin}. {advice}")
    }
}

/// Adds the CORS headers to a response, whether the request succeeded or not.
pub fn put_headers(
    rules: &[CorsRule],
    origin: Option<&str>,
    method: &Method,
    response: &mut Response<Body>,
) {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let rule = origin.and_then(|origin| Some((origin, matching(rules, origin, method.as_str())?)));
    let Some((origin, rule)) = rule else {
        let depends_on_origin = origin.is_some() || rules.iter().any(|rule| !rule.is_for_all());
        if reads && !rules.is_empty() && depends_on_origin {
            put_static(response, VARY, "Origin");
        }
        return;
    };
    put(
        response,
        "access-control-allow-origin",
        rule.origin_to_allow(origin),
    );
    let exposed = exposed(rule, response);
    if !exposed.is_empty() {
        put(response, "access-control-expose-headers", exposed);
    }
    if !rule.is_for_all() {
        put_static(response, "access-control-allow-credentials", "true");
        put_static(response, VARY, "Origin");
    }
}

/// The headers of the response that a rule exposes. Browsers do not know prefixes, so a prefix is
/// expanded to the response's names that have it.
fn exposed(rule: &CorsRule, response: &Response<Body>) -> String {
    let literal = rule
        .exposed_headers
        .iter()
        .filter(|name| !name.ends_with('*'));
    let mut names: Vec<&str> = literal.map(String::as_str).collect();
    let prefixes: Vec<_> = rule
        .exposed_headers
        .iter()
        .filter_map(|name| name.strip_suffix('*'))
        .collect();
    for name in response.headers().keys().map(|name| name.as_str()) {
        let known = names.iter().any(|known| known.eq_ignore_ascii_case(name));
        if !known && prefixes.iter().any(|prefix| starts_with(name, prefix)) {
            names.push(name);
        }
    }
    names.join(",")
}

fn is_among(allowed: &[String], name: &str) -> bool {
    allowed
        .iter()
        .any(|allowed| match allowed.strip_suffix('*') {
            Some(prefix) => starts_with(name, prefix),
            None => allowed.eq_ignore_ascii_case(name),
        })
}

fn starts_with(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// The parts of a comma-separated list, trimmed.
fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
}

/// Reads the `Cors` part of service properties.
pub fn read(part: &Element) -> Result<Vec<CorsRule>> {
    if part.children.len() > RULES_MAX {
        return Err(too_much(format!(
            "A service has at most {RULES_MAX} CORS rules."
        )));
    }
    let rules: Vec<_> = part.children.iter().map(read_rule).collect::<Result<_>>()?;
    let bytes: usize = rules.iter().map(bytes_of).sum();
    if bytes > RULES_BYTES_MAX {
        Err(too_much(format!(
            "CORS rules together have at most {RULES_BYTES_MAX} bytes."
        )))
    } else {
        Ok(rules)
    }
}

fn too_much(detail: String) -> Failure {
    common::INVALID_XML_DOCUMENT.with("ExtendedErrorDetail", detail)
}

fn bytes_of(rule: &CorsRule) -> usize {
    let lists = [
        &rule.allowed_origins,
        &rule.allowed_methods,
        &rule.allowed_headers,
        &rule.exposed_headers,
    ];
    lists.into_iter().flatten().map(|name| name.len() + 1).sum()
}

fn read_rule(element: &Element) -> Result<CorsRule> {
    if element.name != "CorsRule" {
        return Err(common::UNSUPPORTED_XML_NODE.with("XmlNodeName", &element.name));
    }
    let names = [
        "AllowedOrigins",
        "AllowedMethods",
        "AllowedHeaders",
        "ExposedHeaders",
        "MaxAgeInSeconds",
    ];
    check_children(element, &names)?;
    let owned = |text: String| listed(&text).map(str::to_owned).collect::<Vec<_>>();
    let optional = |name: &str| owned(element.child_text(name).unwrap_or_default());
    let allowed_origins = owned(required(element, "AllowedOrigins")?);
    let too_long = |origin: &String| origin.chars().count() > NAME_LENGTH_MAX;
    if allowed_origins.len() > LITERALS_MAX || allowed_origins.iter().any(too_long) {
        return Err(Failure::element(
            "AllowedOrigins",
            allowed_origins.join(","),
        ));
    }
    let age = required(element, "MaxAgeInSeconds")?;
    Ok(CorsRule {
        allowed_origins,
        allowed_methods: methods(&required(element, "AllowedMethods")?)?,
        allowed_headers: check_headers("AllowedHeaders", optional("AllowedHeaders"))?,
        exposed_headers: check_headers("ExposedHeaders", optional("ExposedHeaders"))?,
        max_age_seconds: age
            .parse()
            .map_err(|_| Failure::element("MaxAgeInSeconds", age))?,
    })
}

fn methods(text: &str) -> Result<Vec<String>> {
    let methods: Vec<_> = listed(text).map(str::to_ascii_uppercase).collect();
    if methods
        .iter()
        .all(|method| METHODS.contains(&method.as_str()))
    {
        Ok(methods)
    } else {
        Err(Failure::element("AllowedMethods", text))
    }
}

fn check_headers(list: &'static str, headers: Vec<String>) -> Result<Vec<String>> {
    let prefixes = headers.iter().filter(|name| name.ends_with('*')).count();
    let too_long = headers
        .iter()
        .any(|name| name.chars().count() > NAME_LENGTH_MAX);
    if prefixes > PREFIXES_MAX || headers.len() - prefixes > LITERALS_MAX || too_long {
        Err(Failure::element(list, headers.join(",")))
    } else {
        Ok(headers)
    }
}

/// Writes the `Cors` part of service properties.
pub fn write(document: &mut Writer, rules: &[CorsRule]) {
    document.open("Cors");
    for rule in rules {
        document.open("CorsRule");
        document.element("AllowedOrigins", &rule.allowed_origins.join(","));
        document.element("AllowedMethods", &rule.allowed_methods.join(","));
        document.element("AllowedHeaders", &rule.allowed_headers.join(","));
        document.element("ExposedHeaders", &rule.exposed_headers.join(","));
        document.element("MaxAgeInSeconds", &rule.max_age_seconds.to_string());
        document.close("CorsRule");
    }
    document.close("Cors");
}

/// The document that sets the rules of a service, and nothing else.
pub fn document(rules: &[CorsRule]) -> String {
    let mut document = Writer::new();
    document.open("StorageServiceProperties");
    write(&mut document, rules);
    document.close("StorageServiceProperties");
    document.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::context::ServiceKind;
    use crate::response::headers::parse_xml;
    use crate::testing::request;

    fn rule(origins: &str, methods: &str, headers: &str, exposed: &str) -> CorsRule {
        read_all(&one(origins, methods, headers, exposed, "500"))
            .unwrap()
            .remove(0)
    }

    fn one(origins: &str, methods: &str, headers: &str, exposed: &str, age: &str) -> String {
        format!(
            "<CorsRule><AllowedOrigins>{origins}</AllowedOrigins><AllowedMethods>{methods}</AllowedMethods><AllowedHeaders>\
             {headers}</AllowedHeaders><ExposedHeaders>{exposed}</ExposedHeaders><MaxAgeInSeconds>{age}</MaxAgeInSeconds></CorsRule>"
        )
    }

    fn read_all(rules: &str) -> Result<Vec<CorsRule>> {
        read(&parse_xml(format!("<Cors>{rules}</Cors>").as_bytes())?)
    }

    fn ask(
        rules: &[CorsRule],
        headers: &[(&str, &str)],
    ) -> std::result::Result<Vec<(String, String)>, String> {
        let context = request(
            ServiceKind::Blob,
            "OPTIONS",
            "/c/b",
            "devstoreaccount1",
            headers,
        );
        let answer = preflight(rules, &context).map_err(|failure| failure.code.to_string())?;
        let pairs = answer.headers().iter();
        Ok(pairs
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect())
    }

    #[test]
    fn the_first_rule_for_origin_and_method_decides_over_the_headers() {
        let rules = [
            rule("http://a.com", "GET", "x-ms-meta-*,accept", ""),
            rule("*", "GET,PUT", "*", ""),
        ];
        let asked = |origin, method, headers| {
            ask(
                &rules,
                &[
                    ("origin", origin),
                    ("access-control-request-method", method),
                    ("access-control-request-headers", headers),
                ],
            )
        };
        let pairs = asked("http://a.com", "GET", "X-MS-Meta-Color, Accept").unwrap();
        for (name, value) in [
            ("access-control-allow-origin", "http://a.com"),
            ("access-control-allow-methods", "GET"),
            ("access-control-allow-headers", "X-MS-Meta-Color, Accept"),
            ("access-control-max-age", "500"),
            ("access-control-allow-credentials", "true"),
            ("vary", "Origin"),
        ] {
            assert!(
                pairs.contains(&(name.to_owned(), value.to_owned())),
                "{name} in {pairs:?}"
            );
        }
        // A later rule would allow the header, but only the first rule that covers origin and
        // method counts.
        assert_eq!(
            asked("http://a.com", "GET", "range").unwrap_err(),
            "CorsPreflightFailure"
        );
        let pairs = asked("http://b.com", "PUT", "range").unwrap();
        assert!(pairs.contains(&("access-control-allow-origin".to_owned(), "*".to_owned())));
        assert!(!pairs.iter().any(|(name, _)| name.ends_with("credentials")));
        assert!(!pairs.iter().any(|(name, _)| name == "vary"));
        // Origins are compared case-sensitively.
        assert!(
            asked("http://A.com", "GET", "")
                .unwrap()
                .contains(&("access-control-allow-origin".to_owned(), "*".to_owned()))
        );
        assert_eq!(
            asked("http://a.com", "DELETE", "").unwrap_err(),
            "CorsPreflightFailure"
        );
    }

    #[test]
    fn the_rule_at_start_allows_its_origins_everything() {
        let origins = ["http://a.com", "https://*.b.com"].map(str::to_owned);
        let rules = [rule_at_start(&origins).unwrap()];
        let asked = |origin, method| {
            let headers = [
                ("origin", origin),
                ("access-control-request-method", method),
                (
                    "access-control-request-headers",
                    "authorization,x-ms-blob-type",
                ),
            ];
            ask(&rules, &headers).is_ok()
        };
        for method in METHODS {
            assert!(asked("http://a.com", method) && asked("https://www.b.com", method));
            assert!(!asked("http://c.com", method));
        }
        assert!(rule_at_start(&["*".to_owned()]).unwrap().is_for_all());
        for wrong in ["", "a.com", "http://", "http://a.com/"] {
            let sentence = rule_at_start(&[wrong.to_owned()]).unwrap_err();
            assert!(sentence.contains("--cors"), "{sentence}");
        }
    }

    #[test]
    fn a_refused_preflight_names_the_part_that_no_rule_allows() {
        let rules = [rule("http://a.com", "GET", "x-ms-*", "")];
        for (rules, origin, method, headers, part) in [
            (&rules[..0], "http://a.com", "GET", "", "has no CORS rule"),
            (&rules, "http://b.com", "GET", "", "the origin http://b.com"),
            (&rules, "http://a.com", "PUT", "", "the method PUT"),
            (
                &rules,
                "http://a.com",
                "GET",
                "x-ms-date,range",
                "the header range",
            ),
        ] {
            let reason = why_not(rules, origin, method, headers);
            assert!(reason.contains(part), "{reason}");
        }
    }

    #[test]
    fn preflight_needs_an_origin_a_method_and_a_rule() {
        assert_eq!(
            ask(&[], &[("origin", "http://a.com")]).unwrap_err(),
            "InvalidHeaderValue"
        );
        assert_eq!(
            ask(&[], &[("access-control-request-method", "GET")]).unwrap_err(),
            "InvalidHeaderValue"
        );
        let both = [
            ("origin", "http://a.com"),
            ("access-control-request-method", "GET"),
        ];
        assert_eq!(ask(&[], &both).unwrap_err(), "CorsPreflightFailure");
    }

    fn answered(rules: &[CorsRule], origin: Option<&str>, method: Method) -> Vec<(String, String)> {
        let mut response = empty(200);
        put(&mut response, "x-ms-meta-color", "red");
        put(&mut response, "etag", "\"1\"");
        put_headers(rules, origin, &method, &mut response);
        let pairs = response
            .headers()
            .iter()
            .filter(|(name, _)| name.as_str().starts_with("access") || *name == "vary");
        pairs
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
            .collect()
    }

    #[test]
    fn a_star_before_a_domain_stands_for_any_subdomain() {
        let rules = [rule(
            "https://*.contoso.com,http://*.dev.localhost:8080",
            "GET",
            "",
            "",
        )];
        for origin in [
            "https://www.contoso.com",
            "https://a.b-c.contoso.com",
            "http://app.dev.localhost:8080",
        ] {
            let allowed = answered(&rules, Some(origin), Method::GET);
            let expected = ("access-control-allow-origin".to_owned(), origin.to_owned());
            assert_eq!(allowed[0], expected);
            assert!(allowed.contains(&("vary".to_owned(), "Origin".to_owned())));
        }
        for origin in [
            "https://contoso.com",
            "https://.contoso.com",
            "https://evilcontoso.com",
            "https://evil.com/.contoso.com",
            "https://user@www.contoso.com",
            "http://www.contoso.com",
            "https://www.contoso.com:8443",
            "https://www.contoso.com.evil.com",
            "https://www.Contoso.com",
            "http://app.dev.localhost",
        ] {
            let refused = answered(&rules, Some(origin), Method::GET);
            assert_eq!(
                refused,
                [("vary".to_owned(), "Origin".to_owned())],
                "{origin}"
            );
        }
    }

    #[test]
    fn responses_name_their_origins_and_exposed_headers() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let exact = [rule("http://a.com", "GET", "", "ETag,x-ms-*")];
        assert_eq!(
            answered(&exact, Some("http://a.com"), Method::GET),
            [
                pair("access-control-allow-origin", "http://a.com"),
                pair("access-control-expose-headers", "ETag,x-ms-meta-color"),
                pair("access-control-allow-credentials", "true"),
                pair("vary", "Origin"),
            ]
        );
        assert_eq!(
            answered(&exact, Some("http://b.com"), Method::GET),
            [pair("vary", "Origin")]
        );
        assert_eq!(
            answered(&exact, None, Method::HEAD),
            [pair("vary", "Origin")]
        );
        assert_eq!(answered(&exact, Some("http://a.com"), Method::PUT), []);
        let all = [rule("*", "GET", "", "")];
        assert_eq!(
            answered(&all, Some("http://b.com"), Method::GET),
            [pair("access-control-allow-origin", "*")]
        );
        assert_eq!(answered(&all, None, Method::GET), []);
        assert_eq!(answered(&[], Some("http://b.com"), Method::GET), []);
    }

    #[test]
    fn rules_beyond_the_limits_are_refused() {
        let code = |rules: &str| read_all(rules).unwrap_err().code.to_string();
        let fine = one("*", "GET", "", "", "0");
        assert_eq!(read_all(&fine.repeat(5)).unwrap().len(), 5);
        assert_eq!(code(&fine.repeat(6)), "InvalidXmlDocument");
        let long = "h".repeat(250);
        assert_eq!(
            code(&one(&long, "GET", &long, &long, "0").repeat(3)),
            "InvalidXmlDocument"
        );
        let many = |count: usize| vec!["a"; count].join(",");
        for (origins, headers) in [
            (many(64), many(64)),
            ("o".repeat(256), "h".repeat(256)),
            ("*".to_owned(), format!("a*,b*,{}", many(64))),
        ] {
            let most = one(&origins, "GET", &headers, &headers, "0");
            assert!(read_all(&most).is_ok(), "{origins} {headers}");
        }
        for (origins, methods, headers, age) in [
            ("o".repeat(257), "GET", String::new(), "0"),
            (many(65), "GET", String::new(), "0"),
            ("*".to_owned(), "FETCH", String::new(), "0"),
            ("*".to_owned(), "GET", "a*,b*,c*".to_owned(), "0"),
            ("*".to_owned(), "GET", many(65), "0"),
            ("*".to_owned(), "GET", "h".repeat(257), "0"),
            ("*".to_owned(), "GET", String::new(), "-1"),
        ] {
            assert_eq!(
                code(&one(&origins, methods, &headers, "", age)),
                "InvalidXmlNodeValue",
                "{methods} {headers} {age}"
            );
        }
        assert_eq!(code(&one("", "GET", "", "", "0")), "MissingRequiredXmlNode");
        assert_eq!(code("<CorsRule/>"), "MissingRequiredXmlNode");
        assert_eq!(code("<Rule/>"), "UnsupportedXmlNode");
    }

    #[test]
    fn a_document_of_rules_alone_is_read_back() {
        let rules = [rule("http://a.com,*", "GET", "x-ms-meta-*", "etag")];
        let root = parse_xml(document(&rules).as_bytes()).unwrap();
        assert_eq!(root.name, "StorageServiceProperties");
        assert_eq!(root.children.len(), 1);
        assert_eq!(read(&root.children[0]).unwrap(), rules);
    }

    #[test]
    fn a_page_may_send_what_a_rule_has_for_its_origin() {
        let rules = [rule("http://a.com", "GET", "", "")];
        let may = |method: &str, headers: &[(&str, &str)]| {
            let context = request(ServiceKind::Blob, method, "/c/b", "myaccount", headers);
            allows(&rules, &context)
        };
        assert!(may("GET", &[("origin", "http://a.com")]));
        assert!(!may("PUT", &[("origin", "http://a.com")]));
        assert!(!may("GET", &[("origin", "http://b.com")]) && !may("GET", &[]));
    }

    #[test]
    fn rules_have_together_at_most_two_kibibytes() {
        // Origin, method and each header count with a separator: 2, 4, and 256 each.
        let of = |last: usize| {
            let long = (0..7).map(|number| format!("{number}{}", "h".repeat(254)));
            let headers: Vec<_> = long.chain(["h".repeat(last)]).collect();
            read_all(&one("*", "GET", &headers.join(","), "", "1"))
        };
        let rest = RULES_BYTES_MAX - 2 - 4 - 7 * 256 - 1;
        assert_eq!(
            of(rest).unwrap().iter().map(bytes_of).sum::<usize>(),
            RULES_BYTES_MAX
        );
        assert_eq!(of(rest + 1).unwrap_err().code, "InvalidXmlDocument");
    }
}
