//! `lazurite mcp`: what the commands do, as tools of the Model Context Protocol over standard input and output.
//!
//! A message is a line of JSON-RPC. Requests are answered one after the other, and each by what it says itself: no state is kept between
//! them, which is how one server serves both kinds of clients, those that begin with `initialize`, and those of 2026-07-28 and later,
//! which name the version of the protocol in every request.
//!
//! Each tool is one entry of [`tools::all`]. Those that write are neither listed nor called without `--allow-writes`. A tool that fails
//! answers with a sentence that the assistant sees.

mod tools;

use crate::commands::client::Client;
use serde_json::{Map, Value, json};
use std::io::{BufRead, Read, Write};
use std::process::ExitCode;
use tools::{Access, Tool};

const INSTRUCTIONS: &str = "Azure-compatible Blob, Queue and Table storage on this machine. Look first: list names, query \
                            entities, peek at messages. If a client of the store fails, `requests` with errors_only says why, and \
                            `request` has headers, bodies and, for a refused signature, both strings to sign. `advice` names \
                            patterns of the workload that Azure would serve slowly.";

/// Versions of the protocol that begin with `initialize`, the newest last.
const VERSIONS_WITH_INITIALIZE: [&str; 4] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The version that has no `initialize`. A request names it in `_meta`.
const VERSION_WITHOUT_INITIALIZE: &str = "2026-07-28";

/// Bytes of a message: the longest is the text of a blob.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Bytes of an answer: assistants read no more.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// Serves until standard input ends. The error is a sentence.
pub fn run(client: Client, allow_writes: bool) -> Result<ExitCode, String> {
    let server = McpServer {
        client,
        tools: tools::all()
            .into_iter()
            .filter(|tool| allow_writes || tool.access == Access::Reads)
            .collect(),
    };
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    while let Some(message) = next_message(&mut input)? {
        let Some(answer) = server.answer(&message) else {
            continue;
        };
        let written = writeln!(output, "{answer}").and_then(|()| output.flush());
        written.map_err(|error| format!("the session broke off: {error}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The next line; `None` at the end.
fn next_message(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, String> {
    let mut message = Vec::new();
    let read = input
        .take(MESSAGE_BYTES_MAX as u64)
        .read_until(b'\n', &mut message);
    read.map_err(|error| format!("the session broke off: {error}"))?;
    if message.len() == MESSAGE_BYTES_MAX {
        return Err("the session broke off: a message is longer than 64 MiB".to_owned());
    }
    Ok(Some(message).filter(|message| !message.is_empty()))
}

struct McpServer {
    client: Client,
    tools: Vec<Tool>,
}

/// An error of JSON-RPC.
struct RpcError {
    code: i32,
    message: String,
    data: Option<Value>,
}

impl RpcError {
    fn new(code: i32, message: impl Into<String>) -> RpcError {
        RpcError {
            code,
            message: message.into(),
            data: None,
        }
    }

    fn document(self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(data) = self.data {
            error["data"] = data;
        }
        error
    }
}

impl McpServer {
    /// The answer to a message; `None` for notifications and for responses, which need none.
    fn answer(&self, message: &[u8]) -> Option<Value> {
        // Windows may begin a pipe with a byte order mark.
        let message = message.strip_prefix(b"\xef\xbb\xbf").unwrap_or(message);
        if message.trim_ascii().is_empty() {
            return None;
        }
        let (id, outcome) = match serde_json::from_slice::<Value>(message) {
            Err(error) => (Value::Null, Err(RpcError::new(-32700, error.to_string()))),
            Ok(Value::Object(request)) => {
                let is_response = ["result", "error"]
                    .iter()
                    .any(|field| request.contains_key(*field));
                let id = request.get("id").filter(|_| !is_response)?;
                (id.clone(), self.respond(&request))
            }
            Ok(_) => (
                Value::Null,
                Err(RpcError::new(-32600, "A message is an object.")),
            ),
        };
        Some(match outcome {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error.document()}),
        })
    }

    fn respond(&self, request: &Map<String, Value>) -> Result<Value, RpcError> {
        let parameters = request.get("params").unwrap_or(&Value::Null);
        let version = &parameters["_meta"]["io.modelcontextprotocol/protocolVersion"];
        check_version(version)?;
        let method = request.get("method").and_then(Value::as_str);
        let method = method.ok_or_else(|| RpcError::new(-32600, "A request names its method."))?;
        let mut result = match method {
            "initialize" => initialize(&parameters["protocolVersion"]),
            "server/discover" => discover(),
            "ping" => json!({}),
            "tools/list" => json!({"tools": self.tools.iter().map(listed).collect::<Vec<_>>()}),
            "tools/call" => self.call(parameters),
            _ => {
                return Err(RpcError::new(
                    -32601,
                    format!("There is no method '{method}'."),
                ));
            }
        };
        if version == VERSION_WITHOUT_INITIALIZE {
            result["resultType"] = "complete".into();
            if method != "tools/call" {
                result["ttlMs"] = 0.into();
                result["cacheScope"] = "private".into();
            }
        }
        Ok(result)
    }

    fn call(&self, parameters: &Value) -> Value {
        let name = parameters["name"].as_str().unwrap_or_default();
        let none = Map::new();
        let arguments = parameters["arguments"].as_object().unwrap_or(&none);
        let outcome = match self.tools.iter().find(|tool| tool.name == name) {
            Some(tool) => (tool.call)(&self.client, arguments).map(|value| value.to_string()),
            None if tools::all().iter().any(|tool| tool.name == name) => {
                Err("This tool writes: start `lazurite mcp` with --allow-writes.".to_owned())
            }
            None => Err(format!("There is no tool '{name}'.")),
        };
        let (text, is_error) = match outcome {
            Ok(text) if text.len() > ANSWER_BYTES_MAX => {
                let sentence = "The answer is longer than 256 KiB: ask for fewer.";
                (sentence.to_owned(), true)
            }
            Ok(text) => (text, false),
            Err(sentence) => (sentence, true),
        };
        json!({"content": [{"type": "text", "text": text}], "isError": is_error})
    }
}

/// Refuses a request that names an unknown version of the protocol.
fn check_version(version: &Value) -> Result<(), RpcError> {
    let is_known = |version: &str| supported_versions().any(|known| known == version);
    if version.as_str().is_none_or(is_known) {
        return Ok(());
    }
    let supported: Vec<_> = supported_versions().collect();
    Err(RpcError {
        code: -32022,
        message: "Unsupported protocol version".to_owned(),
        data: Some(json!({"requested": version, "supported": supported})),
    })
}

fn supported_versions() -> impl Iterator<Item = &'static str> {
    let without = [VERSION_WITHOUT_INITIALIZE];
    VERSIONS_WITH_INITIALIZE.into_iter().chain(without)
}

/// The version that the client asks for, if it is known, else the newest.
fn initialize(requested: &Value) -> Value {
    let known = VERSIONS_WITH_INITIALIZE;
    let same = known.into_iter().find(|version| requested == version);
    json!({
        "protocolVersion": same.unwrap_or(known[known.len() - 1]),
        "capabilities": {"tools": {}},
        "serverInfo": server_info(),
        "instructions": INSTRUCTIONS,
    })
}

fn discover() -> Value {
    json!({
        "supportedVersions": supported_versions().collect::<Vec<_>>(),
        "capabilities": {"tools": {}},
        "instructions": INSTRUCTIONS,
        "_meta": {"io.modelcontextprotocol/serverInfo": server_info()},
    })
}

fn server_info() -> Value {
    json!({"name": "lazurite", "version": env!("CARGO_PKG_VERSION")})
}

fn listed(tool: &Tool) -> Value {
    json!({
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.schema(),
        "annotations": {
            "readOnlyHint": tool.access == Access::Reads,
            "destructiveHint": tool.access == Access::Destroys,
            "openWorldHint": false,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(message: &Value) -> Option<Value> {
        let text = "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=a2V5;\
                    TableEndpoint=http://127.0.0.1:1/devstoreaccount1";
        let server = McpServer {
            client: Client::new(Some(text)).unwrap(),
            tools: tools::all(),
        };
        server.answer(message.to_string().as_bytes())
    }

    fn request(method: &str, parameters: &Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": "a", "method": method, "params": parameters});
        let answer = answer(&message).unwrap();
        assert_eq!(answer["id"], "a");
        answer
    }

    #[test]
    fn a_client_that_begins_gets_the_version_it_asks_for_or_the_newest() {
        let version = |asked: &str| {
            let answer = request("initialize", &json!({"protocolVersion": asked}));
            answer["result"]["protocolVersion"].clone()
        };
        assert_eq!(version("2025-03-26"), "2025-03-26");
        assert_eq!(version("2026-07-28"), "2025-11-25");
        assert_eq!(version("2099-01-01"), "2025-11-25");
    }

    #[test]
    fn a_client_that_names_the_version_in_every_request_needs_no_beginning() {
        let named =
            |version: &str| json!({"_meta": {"io.modelcontextprotocol/protocolVersion": version}});
        let found = request("server/discover", &named("2026-07-28"));
        let supported = found["result"]["supportedVersions"].as_array().unwrap();
        assert_eq!(supported.last().unwrap(), "2026-07-28");
        let listed = request("tools/list", &named("2026-07-28"));
        assert_eq!(listed["result"]["resultType"], "complete");
        assert_eq!(listed["result"]["ttlMs"], 0);
        let refused = request("tools/list", &named("2099-01-01"));
        assert_eq!(refused["error"]["code"], -32022);
        assert_eq!(refused["error"]["data"]["requested"], "2099-01-01");
    }

    #[test]
    fn notifications_and_responses_are_not_answered() {
        let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(answer(&notification), None);
        assert_eq!(
            answer(&json!({"jsonrpc": "2.0", "id": 1, "result": {}})),
            None
        );
    }

    #[test]
    fn unknown_methods_and_messages_that_are_none_are_errors_of_json_rpc() {
        assert_eq!(
            request("resources/list", &json!({}))["error"]["code"],
            -32601
        );
        assert_eq!(answer(&json!([1])).unwrap()["error"]["code"], -32600);
        let client = Client::new(Some("UseDevelopmentStorage=true")).unwrap();
        let server = McpServer {
            client,
            tools: Vec::new(),
        };
        let nameless = json!({"jsonrpc": "2.0", "id": 3});
        assert_eq!(answer(&nameless).unwrap()["error"]["code"], -32600);
        let marked = b"\xef\xbb\xbf{\"jsonrpc\": \"2.0\", \"id\": 4, \"method\": \"ping\"}";
        assert_eq!(server.answer(marked).unwrap()["result"], json!({}));
        let broken = server.answer(b"{\"id\": 1,").unwrap();
        assert_eq!(broken["error"]["code"], -32700);
        assert_eq!(server.answer(b"\r\n"), None);
    }
}
