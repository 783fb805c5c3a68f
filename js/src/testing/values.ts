/** Values of a test, in the JSON form of the protocol. */

export { encodeArgs, encodeChanges } from "../schema/writing.js";
import { encodeValue } from "../schema/encode.js";

/** The value that an operation returns, in the form of the wire. */
export const encodeValueOf = (value: unknown): unknown => encodeValue(value, "value");
