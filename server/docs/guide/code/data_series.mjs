// Data series: the figures of a day in one entity.

import { odata } from "@azure/data-tables";
import { all, compare, newTable } from "./store.mjs";

const [hourly, daily] = [await newTable("Hourly"), await newTable("Daily")];
const hours = Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, "0"));

// #region naive
const recordHour = (user, day, hour, count) =>
  hourly.upsertEntity({ partitionKey: user, rowKey: `${day}_${hour}`, count });

async function chartOfHours(user, day) {
  const filter = odata`PartitionKey eq ${user} and RowKey ge ${`${day}_`} and RowKey lt ${`${day}\``}`;
  return (await all(hourly.listEntities({ queryOptions: { filter } }))).map((one) => one.count);
}
// #endregion

// #region advised
// A merge changes this property and leaves the others as they are; it need not read them.
const record = (user, day, hour, count) =>
  daily.upsertEntity({ partitionKey: user, rowKey: day, [`hour${hour}`]: count }, "Merge");

async function chart(user, day) {
  const found = await daily.getEntity(user, day);
  return hours.map((hour) => found[`hour${hour}`]);
}
// #endregion

for (const hour of hours) {
  await recordHour("Don", "20260731", hour, Number(hour) * 3);
  await record("Don", "20260731", hour, Number(hour) * 3);
}
await compare(
  () => chartOfHours("Don", "20260731"),
  () => chart("Don", "20260731"),
  "examined",
);
