// Runs every program of the guide in one process, and says which failed.

import { readdir } from "node:fs/promises";

const SHARED = ["all.mjs", "staff.mjs", "store.mjs"];
const wanted = process.argv.slice(2).filter((argument) => !argument.startsWith("--"));
const programs = (await readdir(import.meta.dirname)).filter(
  (file) => file.endsWith(".mjs") && !SHARED.includes(file),
);
const failed = [];

for (const program of programs.sort()) {
  if (wanted.length > 0 && !wanted.includes(program.replace(".mjs", ""))) continue;
  const start = performance.now();
  try {
    await import(`./${program}`);
  } catch (error) {
    console.error(error);
    failed.push(program);
  }
  console.log(`${program}: ${((performance.now() - start) / 1000).toFixed(2)} s`);
}
if (failed.length > 0) {
  console.error(`failed: ${failed.join(" ")}`);
  process.exitCode = 1;
}
