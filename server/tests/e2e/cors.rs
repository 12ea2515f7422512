//! Service properties and their effect on browsers, for all services.

use crate::http::{Request, Response};
use crate::server::{Launch, Server, Service};

const PROPERTIES: &str = "/?restype=service&comp=properties";

fn set(server: &Server, service: Service, parts: &str) -> Response {
    let document = format!("<StorageServiceProperties>{parts}</StorageServiceProperties>");
    let request = Request::new(service, "PUT", PROPERTIES);
    request.body(document).send(server)
}

fn rule(origins: &str, methods: &str) -> String {
    format!(
        "<CorsRule><AllowedOrigins>{origins}</AllowedOrigins><AllowedMethods>{methods}</AllowedMethods>\
         <AllowedHeaders>x-ms-*,authorization</AllowedHeaders><ExposedHeaders>x-ms-request-*</ExposedHeaders>\
         <MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule>"
    )
}

fn list(service: Service) -> Request {
    let is_table = service == Service::Table;
    Request::new(
        service,
        "GET",
        if is_table { "/Tables" } else { "/?comp=list" },
    )
}

fn create(service: Service) -> Request {
    match service {
        Service::Blob => Request::new(service, "PUT", "/things?restype=container"),
        Service::Queue => Request::new(service, "PUT", "/things"),
        Service::Table => {
            Request::new(service, "POST", "/Tables").json(r#"{"TableName":"Things"}"#)
        }
    }
}

#[test]
fn a_rule_opens_a_service_to_pages_of_its_origins_and_to_no_other() {
    let server = Server::fresh();
    for service in Service::ALL {
        let page = |request: Request, origin| request.header("Origin", origin).send(&server);
        page(create(service), "http://a.com").is(403);
        set(
            &server,
            service,
            &format!("<Cors>{}</Cors>", rule("http://a.com", "GET,PUT,POST")),
        )
        .is(202);

        let ask = |origin: &str, method: &str| {
            let request = Request::new(service, "OPTIONS", "/no-such-thing").unsigned();
            let request = request.header("Access-Control-Request-Method", method);
            request
                .header("Access-Control-Request-Headers", "X-MS-Date,Authorization")
                .header("Origin", origin)
                .send(&server)
        };
        let answer = ask("http://a.com", "PUT");
        answer.is(200);
        answer.has_header("Access-Control-Allow-Origin", "http://a.com");
        answer.has_header("Access-Control-Allow-Methods", "PUT");
        answer.has_header("Access-Control-Allow-Headers", "X-MS-Date,Authorization");
        answer.has_header("Access-Control-Max-Age", "60");
        answer.has_header("Access-Control-Allow-Credentials", "true");
        ask("http://b.com", "PUT").is(403);
        ask("http://a.com", "DELETE").is(403);

        let answer = page(create(service), "http://a.com");
        answer.is(201);
        answer.has_header("Access-Control-Allow-Origin", "http://a.com");
        answer.has_header("Access-Control-Expose-Headers", "x-ms-request-id");
        answer.has_header("Vary", "Origin");
        page(create(service), "http://b.com").is(403);

        // A page may read refusals too, and responses to other origins have `Vary`.
        let refused = list(service).header("Authorization", "SharedKey devstoreaccount1:AAAA");
        let answer = page(refused, "http://a.com");
        answer.is(403);
        answer.has_header("Access-Control-Allow-Origin", "http://a.com");
        let other = page(list(service), "http://b.com");
        other.is(200);
        other.has_header("Vary", "Origin");
        assert_eq!(other.header("Access-Control-Allow-Origin"), None);
    }
}

#[test]
fn properties_of_one_service_say_nothing_about_another_and_survive_a_restart() {
    let location = tempfile::TempDir::new().unwrap();
    let server = Launch::on(location.path()).start();
    set(
        &server,
        Service::Queue,
        &format!("<Cors>{}</Cors>", rule("*", "GET")),
    )
    .is(202);
    let version = "<DefaultServiceVersion>2019-07-07</DefaultServiceVersion>";
    set(&server, Service::Blob, version).is(202);
    server.kill();
    let server = Launch::on(location.path()).start();
    let read = |service| {
        Request::new(service, "GET", PROPERTIES)
            .send(&server)
            .text()
    };
    assert!(read(Service::Queue).contains("<AllowedOrigins>*</AllowedOrigins>"));
    assert!(!read(Service::Table).contains("CorsRule"));
    assert!(read(Service::Blob).contains(version));
    let answer = list(Service::Queue).header("Origin", "null").send(&server);
    answer.has_header("Access-Control-Allow-Origin", "*");
    assert_eq!(answer.header("Access-Control-Allow-Credentials"), None);
}

#[test]
fn a_request_without_a_version_is_served_by_the_default_of_its_account() {
    let server = Server::fresh();
    set(
        &server,
        Service::Blob,
        "<DefaultServiceVersion>2019-07-07</DefaultServiceVersion>",
    )
    .is(202);
    let answer = Request::new(Service::Blob, "GET", "/?comp=list")
        .without("x-ms-version")
        .send(&server);
    answer.has_header("x-ms-version", "2019-07-07");
}

#[test]
fn settings_of_metrics_are_kept() {
    let server = Server::fresh();
    let metrics = "<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>\
                   <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics>";
    set(&server, Service::Table, metrics).is(202);
    let found = Request::new(Service::Table, "GET", PROPERTIES)
        .send(&server)
        .text();
    assert!(found.contains(metrics), "{found}");
}

#[test]
fn origins_allowed_at_start_may_use_every_service() {
    let location = tempfile::TempDir::new().unwrap();
    let start = |origins: &str| {
        Launch::on(location.path())
            .argument("--cors")
            .argument(origins)
    };
    let server = start("http://a.com,http://localhost:3000").start();
    for service in Service::ALL {
        let ask = |origin: &str| {
            let ask = Request::new(service, "OPTIONS", "/no-such-thing").unsigned();
            let ask = ask.header("Access-Control-Request-Method", "DELETE");
            let ask = ask.header("Access-Control-Request-Headers", "x-ms-blob-type,if-match");
            ask.header("Origin", origin).send(&server)
        };
        ask("http://a.com").is(200);
        ask("http://localhost:3000").is(200);
        ask("http://b.com").is(403);
        let page = |origin: &str| create(service).header("Origin", origin).send(&server);
        page("http://b.com").is(403);
        let answer = page("http://a.com");
        answer.is(201);
        answer.has_header("Access-Control-Allow-Origin", "http://a.com");
        // The rule of `--cors` is not shown among the account's rules, which take precedence.
        let read = || {
            Request::new(service, "GET", PROPERTIES)
                .send(&server)
                .text()
        };
        assert!(!read().contains("CorsRule"));
        let stored = format!("<Cors>{}</Cors>", rule("http://a.com", "DELETE"));
        set(&server, service, &stored).is(202);
        ask("http://a.com").is(403);
        assert_eq!(read().matches("<CorsRule>").count(), 1);
    }
    server.signal("TERM");
    let (status, said) = start("a.com").refused();
    assert!(
        !status.success() && said.contains("--cors a.com: an origin is"),
        "{said}"
    );
}
