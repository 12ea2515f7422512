// Compound key: the reviews of an employee by one range of RowKeys.

import assert from "node:assert/strict";
import { odata } from "@azure/data-tables";
import { employees } from "./staff.mjs";
import { all, compare, insertAll, newTable } from "./store.mjs";

const YEARS = [2016, 2017, 2018, 2019, 2020, 2021, 2022, 2023];
const [separate, compound] = [await newTable("Separate"), await newTable("Compound")];
// #region naive
const ratings = async (table, filter) =>
  (await all(table.listEntities({ queryOptions: { filter } }))).map((one) => [
    one.year,
    one.rating,
  ]);

const separateKey = (id, year) => `review_${year}_${id}`;

// The key begins with the year: the reviews of one employee are spread over the partition.
const reviewsByScan = (department, id, since) =>
  ratings(separate, odata`PartitionKey eq ${department} and id eq ${id} and year ge ${since}`);
// #endregion

// #region advised
// Both parts have a fixed width, so keys sort by employee, then by year.
const compoundKey = (id, year) => `${id}_${String(year).padStart(4, "0")}`;

const reviewsByRange = (department, id, since) =>
  ratings(
    compound,
    odata`PartitionKey eq ${department} and RowKey ge ${compoundKey(id, since)} and RowKey lt ${`${id}\``}`,
  );
// #endregion

for (const [table, key] of [
  [separate, separateKey],
  [compound, compoundKey],
]) {
  const review = (one, year) => ({
    partitionKey: one.department,
    rowKey: key(one.id, year),
    id: one.id,
    year,
    rating: year % 5,
  });
  await insertAll(
    table,
    employees().flatMap((one) => YEARS.map((year) => review(one, year))),
  );
}
await compare(
  () => reviewsByScan("Sales", "000033", 2020),
  () => reviewsByRange("Sales", "000033", 2020),
  "examined",
);
assert.equal((await reviewsByRange("Sales", "000033", 2020)).length, 4);
