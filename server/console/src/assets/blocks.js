// The blocks of a large upload: their length, and their ids.

export const BLOCK_BYTES = 8 << 20;

/** A checksum of the first bytes of a file (FNV-1a): other files can have its name, size and time. */
async function checksumOf(file) {
  const start = new Uint8Array(await file.slice(0, 1 << 16).arrayBuffer());
  const sum = start.reduce((hash, byte) => Math.imul(hash ^ byte, 0x01000193), 0x811c9dc5) >>> 0;
  return sum.toString(36).padStart(7, "0");
}

/** The ids of the blocks of a file, in order: the same file has the same ids, all of one length. */
export async function blockIds(file) {
  const [size, time] = [file.size, Math.abs(file.lastModified)].map((number) => number.toString(36).padStart(11, "0"));
  const ofFile = `${await checksumOf(file)}-${size}-${time}`;
  return [...Array(Math.ceil(file.size / BLOCK_BYTES)).keys()].map((index) => `${ofFile}-${String(index).padStart(5, "0")}`);
}
