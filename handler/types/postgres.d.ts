import type { Storage } from "./index.js";

/** A storage in the database of a pool of `pg`, for any number of instances. It makes its table if it is not there. */
export declare function postgres(pool: object, options?: { table?: string | undefined }): Promise<Storage>;
