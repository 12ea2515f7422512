// Every page of the console in a real browser, at four widths, dark and light. LAZURITE_SCREENSHOTS=DIR keeps pictures.

const assert = require("node:assert/strict");
const { after, before, describe, it } = require("node:test");
const { lookAt } = require("./looks.js");
const { EVIL, places, setFaults, start, stop } = require("./setup.js");

describe("every page of the console", () => {
  before(start);
  after(stop);

  it("is shown at every width, dark and light, without a complaint of the browser", async () => {
    const { "state-faults": withFaults, ...others } = places();
    const problems = await lookAt(Object.entries(others));
    await setFaults({ resource: EVIL, fault: "503; retry-after=2", probability: 0.5, count: 3 });
    problems.push(...(await lookAt([["state-faults", withFaults]])));
    assert.deepEqual(problems, []);
  });
});
