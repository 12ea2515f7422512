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

/** The requests to a fork and its changes. A report that cannot be made says so: it must not hide why the test has failed. */
async function ofFork(fork) {
  try {
    const lines = [requestLines(await fork.requests()), changeLines(await fork.diff(CHANGES_MAX))];
    const [requests, changes] = lines.map((all) => (all.length === 0 ? ["none"] : all).join("\n"));
    return `Requests to Lazurite:\n${requests}\nChanges of the store in Lazurite:\n${changes}`;
  } catch (error) {
    return `Lazurite: ${error.message}`;
  }
}

module.exports = { ofFork };
