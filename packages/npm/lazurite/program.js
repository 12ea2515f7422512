"use strict";
// Finds the program, which lies in a package of its own for each platform.

/** The path of the program: `LAZURITE_PROGRAM` in the environment, else the one of this platform's package. */
function programPath() {
  if (process.env.LAZURITE_PROGRAM) return process.env.LAZURITE_PROGRAM;
  const platform = `lazurite-${process.platform}-${process.arch}`;
  const file = process.platform === "win32" ? "lazurite.exe" : "lazurite";
  // The static program of Linux runs with any C library, the other one with glibc alone. Old versions of npm install both.
  const packages = process.platform === "linux" ? [`${platform}-musl`] : [];
  if (packages.length === 0 || hasGlibc()) packages.unshift(platform);
  for (const name of packages) {
    try {
      return require.resolve(`${name}/bin/${file}`);
    } catch {
      // The next one.
    }
  }
  throw new Error(
    `Lazurite has no program for this machine: the package ${packages[0]} is not installed. It is an optional dependency of lazurite: ` +
      "install without --omit=optional, or build Lazurite from source and name the program in LAZURITE_PROGRAM.",
  );
}

function hasGlibc() {
  // The interfaces of the network, which take long, are of no use here.
  process.report.excludeNetwork = true;
  return Boolean(process.report.getReport().header.glibcVersionRuntime);
}

module.exports = { programPath };
