// What the JavaScript scripts share: where the server is, unique names, and checks on errors.

const assert = require("node:assert/strict");

const connection = process.env.AZURE_STORAGE_CONNECTION_STRING;
const settings = Object.fromEntries(
  connection
    .split(";")
    .filter((part) => part !== "")
    .map((part) => [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)]),
);

// A 500 must fail the test, not be tried again for half a minute. Storage and Tables spell it differently.
const once = { retryOptions: { maxTries: 1, maxRetries: 0 } };

let number = 0;

/** A name no other test uses, legal for tables, queues and containers. */
function unique(prefix) {
  number += 1;
  return `${prefix}${process.pid}n${number}`;
}

/** `attempt` must fail with this status and error code, and with this text somewhere in the message. */
async function fails(attempt, status, code, message = "") {
  let error;
  try {
    await attempt();
  } catch (caught) {
    error = caught;
  }
  assert.ok(error !== undefined, `expected ${status} ${code}, but it succeeded`);
  const odata = error.details?.odataError;
  const found = odata?.code ?? error.code ?? error.details?.errorCode;
  assert.deepEqual([error.statusCode, found], [status, code], String(error.stack));
  assert.ok((odata?.message?.value ?? error.message).includes(message), error.message);
  return error;
}

/** All that an asynchronous iterator yields. */
async function all(iterator) {
  const items = [];
  for await (const item of iterator) {
    items.push(item);
  }
  return items;
}

/** Service properties that are not named stay as they are. */
async function setsPropertiesPartByPart(service) {
  const rule = { allowedOrigins: "http://a.com", allowedMethods: "GET,PUT", allowedHeaders: "", exposedHeaders: "", maxAgeInSeconds: 7 };
  await service.setProperties({ cors: [rule] });
  await service.setProperties({});
  const found = await service.getProperties();
  assert.equal(found.hourMetrics.enabled, false);
  assert.deepEqual(found.cors.map((rule) => [rule.allowedOrigins, rule.maxAgeInSeconds]), [["http://a.com", 7]]);
  const metrics = { version: "1.0", enabled: true, includeAPIs: false, retentionPolicy: { enabled: false } };
  await service.setProperties({ minuteMetrics: metrics });
  assert.equal((await service.getProperties()).minuteMetrics.enabled, true);
  await service.setProperties({ minuteMetrics: { ...metrics, enabled: false, includeAPIs: undefined } });
  await service.setProperties({ cors: [] });
  assert.equal((await service.getProperties()).cors?.length ?? 0, 0);
}

/** Asks `what()` until it answers something true: for what only the server's clock can bring about. */
async function eventually(what, seconds = 20) {
  const deadline = Date.now() + seconds * 1000;
  while (Date.now() < deadline) {
    const answer = await what();
    if (answer) {
      return answer;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`it did not happen within ${seconds} s`);
}

module.exports = { connection, settings, once, unique, fails, all, eventually, setsPropertiesPartByPart };
