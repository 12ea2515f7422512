//! `lazurite mcp`: the commands as tools of the Model Context Protocol, over standard input and
//! output.
//!
//! The crate `rmcp` speaks the protocol. Each tool is one function of `tools.rs`. Tools that write
//! are neither listed nor called without `--allow-writes`. A tool that fails answers with a
//! sentence for the assistant.

mod tools;

use lazurite_mover::Client;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::tool::ToolCallContext;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt, tool_handler, transport};
use std::fmt::Display;
use std::future::poll_fn;
use std::pin::pin;
use std::process::ExitCode;
use tokio::task::block_in_place;

/// Serves until standard input ends. The error is a sentence.
pub fn run(client: Client, allow_writes: bool) -> Result<ExitCode, String> {
    // Tools block their thread, and send their requests on a runtime of their own. `block_in_place`
    // permits that, but only on a multi-thread runtime.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(broken_off)?;
    runtime.block_on(async {
        let server = McpServer::new(client, allow_writes);
        match server.serve(transport::stdio()).await {
            Ok(session) => session.waiting().await.map(drop).map_err(broken_off),
            // Not an error: standard input ended before the first request.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(ServerInitializeError::ExpectedInitializeRequest(_)) => {
                Err(broken_off("its first message is no request"))
            }
            Err(error) => Err(broken_off(error)),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn broken_off(error: impl Display) -> String {
    format!("the session broke off: {error}")
}

struct McpServer {
    client: Client,
    tools: ToolRouter<McpServer>,
}

impl McpServer {
    fn new(client: Client, allow_writes: bool) -> McpServer {
        let mut tools = McpServer::all_tools();
        for tool in tools.list_all() {
            let reads = tool.annotations.and_then(|hints| hints.read_only_hint);
            if !allow_writes && reads != Some(true) {
                tools.disable_route(tool.name);
            }
        }
        McpServer { client, tools }
    }
}

#[tool_handler(
    router = self.tools,
    name = "lazurite",
    instructions = "Azure-compatible Blob, Queue and Table storage on this machine. Look first: list names, query \
                    entities, peek at messages. If a client of the store fails, `requests` with errors_only says why, and \
                    `request` has headers, bodies and, for a refused signature, both strings to sign. `advice` names \
                    patterns of the workload that Azure would serve slowly."
)]
impl ServerHandler for McpServer {
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = &request.name;
        if !self.tools.has_route(name) {
            let sentence = if self.tools.is_disabled(name) {
                "This tool writes: start `lazurite mcp` with --allow-writes.".to_owned()
            } else {
                format!("There is no tool '{name}'.")
            };
            return Ok(CallToolResult::error(vec![ContentBlock::text(sentence)]).into());
        }
        let mut call = pin!(
            self.tools
                .call(ToolCallContext::new(self, request, context))
        );
        poll_fn(|task| block_in_place(|| call.as_mut().poll(task))).await
    }
}
