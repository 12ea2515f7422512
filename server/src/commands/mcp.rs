//! `lazurite mcp`: what the commands do, as tools of the Model Context Protocol over standard input and output.
//!
//! Each tool is one entry of [`tools::all`]. Those that write are neither listed nor called without `--allow-writes`. A tool that fails
//! answers with a sentence that the assistant sees.

mod tools;

use crate::commands::client::Client;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool as Listed,
    ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::transport::stdio;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use std::process::ExitCode;
use std::sync::Arc;
use tools::{Access, Tool};

const INSTRUCTIONS: &str = "Azure-compatible Blob, Queue and Table storage on this machine. Look first: list names, query \
                            entities, peek at messages. If a client of the store fails, `requests` with errors_only says why, and \
                            `request` has headers, bodies and, for a refused signature, both strings to sign. `advice` names \
                            patterns of the workload that Azure would serve slowly.";

/// Serves until standard input ends. The error is a sentence.
pub fn run(client: Client, allow_writes: bool) -> Result<ExitCode, String> {
    let server = McpServer {
        client: Arc::new(client),
        tools: tools::all()
            .into_iter()
            .filter(|tool| allow_writes || tool.access == Access::Reads)
            .collect(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    let served = runtime.block_on(async {
        let running = server.serve(stdio()).await;
        let running = running.map_err(|error| format!("the session did not begin: {error}"))?;
        let ended = running.waiting().await;
        ended.map_err(|error| format!("the session broke off: {error}"))
    });
    // A read of standard input cannot be cancelled.
    runtime.shutdown_background();
    served.map(|_| ExitCode::SUCCESS)
}

struct McpServer {
    client: Arc<Client>,
    tools: Vec<Tool>,
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let own = Implementation::new("lazurite", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities)
            .with_server_info(own)
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let listed = self.tools.iter().map(listed).collect();
        Ok(ListToolsResult::with_all_items(listed))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.tools.iter().find(|tool| tool.name == request.name) else {
            let is_known = tools::all().iter().any(|tool| tool.name == request.name);
            let message = if is_known {
                "This tool writes: start `lazurite mcp` with --allow-writes.".to_owned()
            } else {
                format!("There is no tool '{}'.", request.name)
            };
            return Ok(answer(Err(message)));
        };
        let (client, call) = (self.client.clone(), tool.call);
        let arguments = request.arguments.unwrap_or_default();
        // The client of the commands blocks.
        let called = tokio::task::spawn_blocking(move || call(&client, &arguments)).await;
        Ok(answer(
            called.unwrap_or_else(|_| Err("The tool broke off.".to_owned())),
        ))
    }
}

fn listed(tool: &Tool) -> Listed {
    let is_read = tool.access == Access::Reads;
    let hints = ToolAnnotations::new()
        .read_only(is_read)
        .destructive(tool.access == Access::Destroys)
        .open_world(false);
    Listed::new(tool.name, tool.description, Arc::new(tool.schema())).with_annotations(hints)
}

/// Bytes of an answer: assistants read no more.
const ANSWER_BYTES_MAX: usize = 256 << 10;

fn answer(outcome: Result<serde_json::Value, String>) -> CallToolResponse {
    match outcome {
        Ok(value) => match value.to_string() {
            text if text.len() > ANSWER_BYTES_MAX => {
                let sentence = "The answer is longer than 256 KiB: ask for fewer.";
                CallToolResult::error(vec![ContentBlock::text(sentence)])
            }
            text => CallToolResult::success(vec![ContentBlock::text(text)]),
        },
        Err(sentence) => CallToolResult::error(vec![ContentBlock::text(sentence)]),
    }
    .into()
}
