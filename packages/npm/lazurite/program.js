"use strict";
// Finds the program, which lies in a package of its own for each platform.

/** The path of the program: `LAZURITE_PROGRAM` in the environment, else the one of this platform's package. */
function programPath() {
  if (process.env.LAZURITE_PROGRAM) return process.env.LAZURITE_PROGRAM;
  const platform = `lazurite-${process.platform}-${process.arch}`;
  const file = process.platform === "win32" ? "lazurite.exe" : "lazurite";
  try {
    return require.resolve(`${platform}/bin/${file}`);
  } catch {
    throw new Error(
      `Lazurite has no program for this machine: the package ${platform} is not installed. It is an optional dependency of lazurite: ` +
        "install without --omit=optional, or build Lazurite from source and name the program in LAZURITE_PROGRAM.",
    );
  }
}

module.exports = { programPath };
