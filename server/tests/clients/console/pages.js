// Every page of the console in a real browser, at four widths, dark and light, of a store that is empty and of one that is not, and
// refusals. LAZURITE_SCREENSHOTS=DIR keeps pictures.

const assert = require("node:assert/strict");
const { after, before, describe, it } = require("node:test");
const { lookAt } = require("./looks.js");
const { EVIL, account, launch, link, places, seed, setFaults, stop } = require("./setup.js");

const EMPTY = { home: "", containers: "blobs", queues: "queues", tables: "tables", requests: "requests", advice: "advisor", heat: "advisor/heat", state: "state" };
const MISSING = {
  page: "nowhere",
  account: "blobs/nobody",
  fork: `blobs/${link(`${account}--none`)}`,
  container: `blobs/${link(account, "none")}`,
  blob: `blobs/${link(account, "photos", "blob")}?name=${encodeURIComponent(EVIL)}`,
  queue: `queues/${link(account, "none")}`,
  table: `tables/${link(account, "None")}`,
  request: "requests/00000000-0000-0000-0000-000000000000",
  job: "jobs/4711",
};

describe("every page of the console", () => {
  before(launch);
  after(stop);

  it("is shown of an empty store", async () => {
    const empty = Object.entries(EMPTY).map(([name, address]) => [`empty-${name}`, address]);
    assert.deepEqual(await lookAt(empty), []);
  });

  it("is shown at every width, dark and light, without a complaint of the browser", async () => {
    await seed();
    const { "state-faults": withFaults, ...others } = places();
    const problems = await lookAt(Object.entries(others));
    await setFaults({ resource: EVIL, fault: "503; retry-after=2", probability: 0.5, count: 3 });
    problems.push(...(await lookAt([["state-faults", withFaults]])));
    assert.deepEqual(problems, []);
  });

  it("says what is missing", async () => {
    const missing = Object.entries(MISSING).map(([name, address]) => [`missing-${name}`, address, 404]);
    assert.deepEqual(await lookAt(missing), []);
  });
});
