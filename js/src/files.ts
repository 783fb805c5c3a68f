/** The entry `escale/files`: bytes that documents reference, sealed on the device, of any size. */

export { openFiles } from "./files/open.js";
export type { Files, FileState, FilesUsage, Keep, KeepMatch, KeptMatch } from "./files/types.js";
