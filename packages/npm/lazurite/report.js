"use strict";
// Requests and changes of a fork as text, for the reports of failed tests.

const REQUESTS_MAX = 100;
const CHANGES_MAX = 100;
const SIGNS = { created: "+", deleted: "-", changed: "~" };
const NAMES = ["container", "blob", "snapshot", "versionId", "queue", "messageId", "table", "partitionKey", "rowKey"];

function requestLines(requests) {
  return requests
    .slice(-REQUESTS_MAX)
    .map(({ status, method, target, operation, code }) => `${status} ${method} ${target}  ${operation} ${code ?? ""}`.trimEnd());
}

function changeLines({ count, truncated, changes }) {
  const lines = changes.flatMap((change) => {
    const names = NAMES.filter((name) => name in change).map((name) => change[name]);
    const values = change.change === "changed" ? change.values : [];
    const shown = values.map((one) => `    ${one.part} ${one.name}: ${JSON.stringify(one.old)} -> ${JSON.stringify(one.new)}`);
    return [`${SIGNS[change.change]} ${change.kind} ${names.join("/")}`, ...shown];
  });
  return truncated ? [...lines, `${count} changes in all`] : lines;
}

/** The links to the console, which work as long as the server is kept. */
function places(fork, seconds) {
  const duration = seconds >= 120 ? `${Math.floor(seconds / 60)} minutes` : `${seconds} seconds`;
  return `Store in Lazurite: ${fork.consoleUrl}\nRequests:          ${fork.requestsUrl}\nKept until the next run, for ${duration} at most.\n`;
}

/**
 * The requests to a fork and its changes, with links if it is kept for some seconds. A report that cannot be made says so: it must not hide
 * why the test has failed.
 */
async function ofFork(fork, seconds) {
  try {
    const lines = [requestLines(await fork.requests()), changeLines(await fork.diff(CHANGES_MAX))];
    const [requests, changes] = lines.map((all) => (all.length === 0 ? ["none"] : all).join("\n"));
    const links = seconds > 0 ? places(fork, seconds) : "";
    return `${links}Requests to Lazurite:\n${requests}\nChanges of the store in Lazurite:\n${changes}`;
  } catch (error) {
    return `Lazurite: ${error.message}`;
  }
}

module.exports = { ofFork };
