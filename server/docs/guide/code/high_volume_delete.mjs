// High volume delete: the logins of a day go with the table of the day.

import assert from "node:assert/strict";
import { odata, TableServiceClient } from "@azure/data-tables";
import { all, compare, connection, insertAll, name, newTable, tableClient } from "./store.mjs";

const LOGINS = 120;
const oneTable = await newTable("Logins");
const prefix = name("Logins");

// #region naive
const keysOf = (day) =>
  oneTable.listEntities({
    queryOptions: { filter: odata`PartitionKey eq ${day}`, select: ["PartitionKey", "RowKey"] },
  });

async function deleteOneByOne(day) {
  for await (const { partitionKey, rowKey } of keysOf(day))
    await oneTable.deleteEntity(partitionKey, rowKey);
}

async function deleteByTransactions(day) {
  for await (const page of keysOf(day).byPage({ maxPageSize: 100 })) {
    const deletions = page.map(({ partitionKey, rowKey }) => ["delete", { partitionKey, rowKey }]);
    if (deletions.length > 0) await oneTable.submitTransaction(deletions);
  }
}
// #endregion

// #region advised
// Names of tables have letters and digits only: the hyphens of a date are refused.
const tableName = (day) => prefix + day.replaceAll("-", "");

// A table for what is deleted together.
const tableOf = (day) => tableClient(tableName(day));

const deleteTableOf = (day) => tableOf(day).deleteTable();
// #endregion

// #region name
/** Creates the table of a day right after its deletion; returns what the service answers. */
async function createAgain(day) {
  try {
    await tableOf(day).createTable();
    return "created";
  } catch (error) {
    // The table of that name is still being deleted. Inserts and queries get the same answer.
    const { code } = error.details?.odataError ?? {};
    if (code !== "TableBeingDeleted") throw error;
    return `${error.statusCode} ${code}`;
  }
}
// #endregion

const days = ["2026-01-01", "2026-01-02", "2026-01-03"];
for (const day of days) {
  const logins = Array.from({ length: LOGINS }, (_, n) => ({
    partitionKey: day,
    rowKey: String(n).padStart(6, "0"),
  }));
  await insertAll(oneTable, logins);
  await tableOf(day).createTable();
  await insertAll(tableOf(day), logins);
}
await compare(
  () => deleteOneByOne(days[0]),
  () => deleteTableOf(days[0]).then(() => undefined),
  "requests",
);
await compare(
  () => deleteByTransactions(days[1]),
  () => deleteTableOf(days[1]).then(() => undefined),
  "requests",
);
assert.ok((await all(oneTable.listEntities())).every((one) => one.partitionKey === days[2]));
const service = TableServiceClient.fromConnectionString(connection, {
  allowInsecureConnection: true,
});
const left = (await all(service.listTables()))
  .map((table) => table.name)
  .filter((table) => table.startsWith(prefix));
assert.deepEqual(left, [tableName(days[2])]);
await deleteTableOf(days[2]);

const insert = tableOf(days[2]).createEntity({ partitionKey: "p", rowKey: "r" });
const { statusCode, details } = await insert.catch((error) => error);
console.log(`an insert into a deleted table: ${statusCode} ${details.odataError.code}`);
const answer = await createAgain(days[2]);
console.log(`a table whose name was just deleted: ${answer}`);
if (answer === "created") await deleteTableOf(days[2]);
