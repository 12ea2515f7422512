// The work in Vitest, with one server for all tests, as suites for Azurite have it, which is emptied before each test.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { TableServiceClient } from "@azure/data-tables";
import { BlobServiceClient } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";
import { afterAll, beforeAll, beforeEach, test } from "vitest";
import { tests } from "./work.js";

const KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const FLAGS = "--inMemoryPersistence --skipApiVersionCheck --disableTelemetry --silent --blobPort 0 --queuePort 0 --tablePort 0";
let server, connection;

beforeAll(async () => {
  server = spawn(process.env.AZURITE, FLAGS.split(" "));
  const endpoints = [];
  for await (const line of createInterface(server.stdout)) {
    const [, name, url] = line.match(/Azurite (\w+) service is successfully listening at (\S+)/) ?? [];
    if (name !== undefined) endpoints.push(`${name}Endpoint=${url}/devstoreaccount1;`);
    if (endpoints.length === 3) break;
  }
  connection = `DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=${KEY};${endpoints.join("")}`;
}, 60_000);

beforeEach(async () => {
  const blobs = BlobServiceClient.fromConnectionString(connection);
  const queues = QueueServiceClient.fromConnectionString(connection);
  const tables = TableServiceClient.fromConnectionString(connection, { allowInsecureConnection: true });
  for await (const { name } of blobs.listContainers()) await blobs.deleteContainer(name);
  for await (const { name } of queues.listQueues()) await queues.deleteQueue(name);
  for await (const { name } of tables.listTables()) await tables.deleteTable(name);
});

afterAll(() => server.kill());

for (const [name, work] of tests) test(name, () => work(connection));
