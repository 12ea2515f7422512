// The Table service through @azure/data-tables.

const assert = require("node:assert/strict");
const { before, describe, it } = require("node:test");
const { TableClient, TableServiceClient, TableTransaction, odata } = require("@azure/data-tables");
const { connection, once, unique, fails, all, setsPropertiesPartByPart } = require("./harness.js");

const options = { allowInsecureConnection: true, ...once };
const service = TableServiceClient.fromConnectionString(connection, options);
const etagForm = /^W\/"datetime'\d{4}-\d\d-\d\dT\d\d%3A\d\d%3A\d\d\.\d{7}Z'"$/;

async function newTable(prefix = "table") {
  const table = TableClient.fromConnectionString(connection, unique(prefix), options);
  await table.createTable();
  return table;
}

const rowKeys = async (table, filter) => (await all(table.listEntities({ queryOptions: { filter } }))).map((e) => e.rowKey);

describe("tables", () => {
  it("are created, listed and deleted", async () => {
    const prefix = unique("List");
    const names = ["c", "a", "b"].map((letter) => prefix + letter);
    for (const name of names) {
      let status;
      await service.createTable(name, { onResponse: (response) => (status = response.status) });
      assert.ok(status === 201 || status === 204, `${status}`);
    }
    const filter = odata`TableName ge ${prefix} and TableName lt ${prefix + "~"}`;
    const listed = await all(service.listTables({ queryOptions: { filter } }));
    assert.deepEqual(listed.map((t) => t.name), [...names].sort());
    const pages = await all(service.listTables({ queryOptions: { filter } }).byPage({ maxPageSize: 2 }));
    assert.deepEqual(pages.map((page) => page.length), [2, 1]);
    await service.deleteTable(names[0]);
    await service.deleteTable(names[0]); // The client takes 404 for success.
    assert.equal((await all(service.listTables({ queryOptions: { filter } }))).length, 2);
  });

  it("exist once, without regard to case", async () => {
    const name = unique("Twice");
    await service.createTable(name);
    let status;
    await service.createTable(name.toLowerCase(), { onResponse: (response) => (status = response.status) });
    assert.equal(status, 409); // The client takes TableAlreadyExists for success.
  });

  it("refuse bad names", async () => {
    await fails(() => service.createTable("a-b"), 400, "InvalidResourceName", "The specifed resource name contains invalid characters.");
    await fails(() => service.createTable("ab"), 400, "OutOfRangeInput", "The specified resource name length is not within the permissible limits.");
    await fails(() => service.createTable("a".repeat(64)), 400, "OutOfRangeInput");
    await fails(() => service.createTable("tables"), 400, "InvalidInput");
  });

  it("are named when missing", async () => {
    const missing = TableClient.fromConnectionString(connection, "nosuchtable", options);
    const entity = { partitionKey: "p", rowKey: "r" };
    for (const attempt of [
      () => missing.createEntity(entity),
      () => missing.getEntity("p", "r"),
      () => missing.updateEntity(entity, "Replace"),
      () => missing.updateEntity(entity, "Merge"),
      () => missing.upsertEntity(entity, "Replace"),
      () => missing.upsertEntity(entity, "Merge"),
      () => missing.deleteEntity("p", "r"),
      () => all(missing.listEntities()),
      () => missing.submitTransaction([["create", entity]]),
    ]) {
      await fails(attempt, 404, "TableNotFound", "The table specified does not exist.");
    }
  });

  it("have access policies", async () => {
    const table = await newTable();
    const start = new Date("2024-03-01T00:00:00Z");
    const accessPolicy = { start, expiry: new Date("2024-03-02T00:00:00Z"), permission: "raud" };
    await table.setAccessPolicy([{ id: "full", accessPolicy }]);
    const found = await table.getAccessPolicy();
    assert.deepEqual(found.map((p) => [p.id, p.accessPolicy.permission, p.accessPolicy.start.getTime()]), [["full", "raud", start.getTime()]]);
    await table.setAccessPolicy([]);
    assert.deepEqual(await table.getAccessPolicy(), []);
  });

  it("have service properties that are set part by part", () => setsPropertiesPartByPart(service));
});

describe("entities", () => {
  let table;
  before(async () => {
    table = await newTable();
  });

  it("are inserted without an echo, and once", async () => {
    let response;
    const answer = await table.createEntity({ partitionKey: "i", rowKey: "1", name: "x" }, { onResponse: (r) => (response = r) });
    assert.equal(response.status, 204);
    assert.equal(response.headers.get("preference-applied"), "return-no-content");
    assert.ok(response.headers.get("location").endsWith(`${table.tableName}(PartitionKey='i',RowKey='1')`));
    assert.equal(response.headers.get("dataserviceid"), response.headers.get("location"));
    assert.match(answer.etag, etagForm);
    await fails(() => table.createEntity({ partitionKey: "i", rowKey: "1" }), 409, "EntityAlreadyExists", "The specified entity already exists.");
  });

  it("are read, also in part", async () => {
    await table.upsertEntity({ partitionKey: "g", rowKey: "1", a: 1, b: "two" });
    const found = await table.getEntity("g", "1");
    assert.equal(found.b, "two");
    assert.match(found.etag, etagForm);
    assert.match(found.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z$/);
    const part = await table.getEntity("g", "1", { queryOptions: { select: ["a", "missing"] } });
    assert.equal(part.a, 1);
    assert.equal(part.missing, null);
    assert.ok("missing" in part && !("b" in part) && !("partitionKey" in part));
    await fails(() => table.getEntity("g", "2"), 404, "ResourceNotFound", "The specified resource does not exist.");
  });

  it("are updated, merged and upserted", async () => {
    const key = { partitionKey: "u", rowKey: "1" };
    const own = async () => {
      const { etag, timestamp, partitionKey, rowKey, "odata.metadata": metadata, ...rest } = await table.getEntity("u", "1");
      return rest;
    };
    await table.upsertEntity({ ...key, a: 1, b: 2 }, "Merge");
    await table.updateEntity({ ...key, b: 3, c: 4 }, "Merge");
    assert.deepEqual(await own(), { a: 1, b: 3, c: 4 });
    await table.upsertEntity({ ...key, d: 5 }, "Merge");
    assert.deepEqual(await own(), { a: 1, b: 3, c: 4, d: 5 });
    await table.updateEntity({ ...key, e: 6 }, "Replace");
    assert.deepEqual(await own(), { e: 6 });
    await table.upsertEntity({ ...key, f: "seven" }, "Replace");
    assert.deepEqual(await own(), { f: "seven" });
    for (const mode of ["Merge", "Replace"]) {
      await fails(() => table.updateEntity({ partitionKey: "u", rowKey: "absent" }, mode), 404, "ResourceNotFound");
    }
    await fails(() => table.deleteEntity("u", "absent"), 404, "ResourceNotFound");
  });

  it("are changed only under the etag that was read", async () => {
    const entity = { partitionKey: "c", rowKey: "1", n: 1 };
    const { etag: old } = await table.upsertEntity(entity);
    const { etag } = await table.updateEntity(entity, "Replace", { etag: old });
    for (const attempt of [
      () => table.updateEntity(entity, "Replace", { etag: old }),
      () => table.updateEntity(entity, "Merge", { etag: old }),
      () => table.deleteEntity("c", "1", { etag: old }),
    ]) {
      await fails(attempt, 412, "UpdateConditionNotSatisfied", "The update condition specified in the request was not satisfied.");
    }
    await fails(() => table.deleteEntity("c", "1", { etag: "nonsense" }), 400, "InvalidInput");
    await table.deleteEntity("c", "1", { etag });
  });

  it("keep every type", async () => {
    const when = { type: "DateTime", value: "2013-08-22T01:12:06.2608595Z" };
    const entity = {
      partitionKey: "t", rowKey: "1", text: "x", yes: true, no: false, int: 42, real: 1.5, long: 9007199254740993n,
      date: new Date("2021-01-01T12:00:00.123Z"), guid: { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" },
      bytes: new Uint8Array([0, 255]), when, whole: { type: "Double", value: 5 },
      max: { type: "Int64", value: "9223372036854775807" }, min: { type: "Int64", value: "-9223372036854775808" },
      nan: { type: "Double", value: "NaN" }, inf: { type: "Double", value: "Infinity" }, minus: { type: "Double", value: "-Infinity" },
    };
    await table.createEntity(entity);
    const found = await table.getEntity("t", "1");
    for (const name of ["text", "yes", "no", "int", "real", "long", "date"]) {
      assert.deepEqual(found[name], entity[name]);
    }
    assert.deepEqual(found.guid, entity.guid);
    assert.deepEqual([...found.bytes], [0, 255]);
    assert.deepEqual([found.max, found.min], [9223372036854775807n, -9223372036854775808n]);
    const typed = await table.getEntity("t", "1", { disableTypeConversion: true });
    assert.deepEqual(typed.when, when);
    assert.deepEqual(typed.max, entity.max);
    assert.deepEqual([typed.nan.value, typed.inf.value, typed.minus.value], ["NaN", "Infinity", "-Infinity"]);
    assert.equal(found.whole, 5);
  });

  it("have odd keys", async () => {
    const odd = await newTable("odd");
    const keys = ["", " ", "it's", "''", "Größe 日本語 🦀", "100%", "%41", "a+b", "a&b=c", "(a),b", '"q"', "{x}"];
    for (const key of keys) {
      await odd.createEntity({ partitionKey: key, rowKey: key, key });
      assert.equal((await odd.getEntity(key, key)).key, key);
      await odd.updateEntity({ partitionKey: key, rowKey: key, n: 1 }, "Merge");
      const found = await rowKeys(odd, odata`PartitionKey eq ${key}`);
      assert.deepEqual(found, [key]);
      await odd.upsertEntity({ partitionKey: key, rowKey: key, n: 2 }, "Replace");
    }
    const pages = await all(odd.listEntities().byPage({ maxPageSize: 5 }));
    assert.deepEqual(pages.map((page) => page.length), [5, 5, 2]);
    for (const key of keys) {
      await odd.deleteEntity(key, key);
    }
    assert.deepEqual(await rowKeys(odd), []);
  });

  it("have limits", async () => {
    const key = { partitionKey: "l", rowKey: "1" };
    const properties = (count) => Object.fromEntries([...Array(count).keys()].map((n) => [`p${n}`, n]));
    await table.upsertEntity({ ...key, ...properties(252) }, "Replace");
    await fails(() => table.upsertEntity({ ...key, ...properties(253) }, "Replace"), 400, "TooManyProperties");
    await table.upsertEntity({ ...key, text: "x".repeat(32768) }, "Replace");
    await fails(() => table.upsertEntity({ ...key, text: "x".repeat(32769) }, "Replace"), 400, "PropertyValueTooLarge");
    await fails(() => table.upsertEntity({ ...key, bytes: new Uint8Array(65537) }, "Replace"), 400, "PropertyValueTooLarge");
    const big = Object.fromEntries([...Array(16).keys()].map((n) => [`p${n}`, new Uint8Array(65536)]));
    await fails(() => table.upsertEntity({ ...key, ...big }, "Replace"), 400, "EntityTooLarge");
    await fails(() => table.createEntity({ partitionKey: "a/b", rowKey: "r" }), 400, "OutOfRangeInput");
    await fails(() => table.upsertEntity({ ...key, ["n".repeat(256)]: 1 }), 400, "PropertyNameTooLong");
  });
});

describe("queries", () => {
  let table;
  before(async () => {
    table = await newTable();
    const guid = { type: "Guid", value: "11111111-2222-3333-4444-555555555555" };
    await table.createEntity({ partitionKey: "q", rowKey: "0", text: "it's", int: 1, long: 5n, real: 0.5, flag: true, guid, bytes: new Uint8Array([1]) });
    await table.createEntity({ partitionKey: "q", rowKey: "1", text: "b", int: 2, long: 2n ** 40n, real: 2.5, flag: false, date: new Date("2020-01-01T00:00:00Z") });
    await table.createEntity({ partitionKey: "z", rowKey: "2", other: "x" });
  });

  it("filter by every literal", async () => {
    const cases = [
      [odata`text eq ${"it's"}`, ["0"]],
      [odata`int ge ${2}`, ["1"]],
      [odata`long eq ${2n ** 40n}`, ["1"]],
      [odata`flag eq ${true}`, ["0"]],
      [odata`date le ${new Date("2020-01-01T00:00:00Z")}`, ["1"]],
      ["real gt 0.5", ["1"]],
      ["guid eq guid'11111111-2222-3333-4444-555555555555'", ["0"]],
      ["bytes eq X'01'", ["0"]],
      ["not (int eq 1)", ["1", "2"]],
      ["other ne 'x'", []],
      ["PartitionKey eq 'q' and RowKey gt '0'", ["1"]],
      [undefined, ["0", "1", "2"]],
    ];
    for (const [filter, expected] of cases) {
      assert.deepEqual(await rowKeys(table, filter), expected, filter);
    }
  });

  it("refuse a bad filter", async () => {
    await fails(() => rowKeys(table, "int eq"), 400, "InvalidInput");
    await fails(() => rowKeys(table, "int eq null"), 400, "InvalidInput");
    await fails(() => rowKeys(table, "startswith(text,'b')"), 501, "NotImplemented");
  });

  it("select", async () => {
    const found = await all(table.listEntities({ queryOptions: { select: ["rowKey", "other"] } }));
    assert.deepEqual(found.map((e) => [e.rowKey, e.other]), [["0", null], ["1", null], ["2", "x"]]);
  });

  it("return a thousand entities a page and go on from a token", async () => {
    const many = await newTable("many");
    for (let batch = 0; batch < 12; batch++) {
      const transaction = new TableTransaction();
      for (let n = batch * 100; n < batch * 100 + 100; n++) {
        transaction.createEntity({ partitionKey: "p", rowKey: `${n}`.padStart(5, "0"), n });
      }
      await many.submitTransaction(transaction.actions);
    }
    const pages = await all(many.listEntities().byPage());
    assert.deepEqual(pages.map((page) => page.length), [1000, 200]);
    const first = (await many.listEntities().byPage({ maxPageSize: 500 }).next()).value;
    const rest = await all(many.listEntities().byPage({ maxPageSize: 500, continuationToken: first.continuationToken }));
    assert.deepEqual(rest.map((page) => page.length), [500, 200]);
    assert.equal(rest[0][0].n, 500);
  });
});

describe("transactions", () => {
  let table;
  before(async () => {
    table = await newTable();
  });

  it("do every operation", async () => {
    for (const rowKey of ["update", "merge", "delete", "upsert"]) {
      await table.createEntity({ partitionKey: "all", rowKey, old: 1 });
    }
    const entity = (rowKey) => ({ partitionKey: "all", rowKey, new: 2 });
    const answer = await table.submitTransaction([
      ["create", entity("create")],
      ["update", entity("update"), "Replace"],
      ["update", entity("merge"), "Merge"],
      ["delete", entity("delete")],
      ["upsert", entity("upsert"), "Replace"],
      ["upsert", entity("inserted"), "Merge"],
    ]);
    assert.equal(answer.status, 202);
    assert.deepEqual(answer.subResponses.map((r) => r.status), [204, 204, 204, 204, 204, 204]);
    assert.equal(answer.getResponseForEntity("create").etag, (await table.getEntity("all", "create")).etag);
    const found = await all(table.listEntities({ queryOptions: { filter: "PartitionKey eq 'all'" } }));
    assert.deepEqual(
      found.map((e) => [e.rowKey, e.old, e.new]),
      [["create", undefined, 2], ["inserted", undefined, 2], ["merge", 1, 2], ["update", undefined, 2], ["upsert", undefined, 2]],
    );
  });

  it("do nothing when one operation fails, and name it", async () => {
    await table.createEntity({ partitionKey: "f", rowKey: "there" });
    const entity = (rowKey) => ({ partitionKey: "f", rowKey });
    const error = await fails(
      () => table.submitTransaction([["create", entity("a")], ["create", entity("b")], ["create", entity("there")]]),
      409, "EntityAlreadyExists", "2:The specified entity already exists.",
    );
    assert.equal(error.statusCode, 409);
    await fails(() => table.submitTransaction([["create", entity("a")], ["update", entity("absent"), "Merge"]]), 404, "ResourceNotFound", "1:");
    await fails(() => table.submitTransaction([["create", entity("a")], ["delete", entity("a")]]), 400, "InvalidDuplicateRow", "1:");
    assert.deepEqual(await rowKeys(table, "PartitionKey eq 'f'"), ["there"]);
  });

  it("have at most a hundred operations", async () => {
    const actions = [...Array(101).keys()].map((n) => ["create", { partitionKey: "m", rowKey: `${n}` }]);
    await fails(() => table.submitTransaction(actions), 400, "InvalidInput", "99:The batch request operation exceeds the maximum 100 changes per change set.");
    const answer = await table.submitTransaction(actions.slice(0, 100));
    assert.equal(answer.subResponses.length, 100);
  });
});
