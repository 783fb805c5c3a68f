// Faults, as the wire has them (docs/protocol.md, "Faults").

/** A fault of an operation, of a part, or of a whole request. `more` may hold `phase`, `doc` with its place `met`, and the `status` of an answer. */
export class Fault extends Error {
  constructor(code, kind, message = "", more = {}) {
    super(message);
    Object.assign(this, { code, kind, phase: 0 }, more);
  }
  toMap() {
    const { code, kind, phase, message, doc } = this;
    return { code, kind, phase, message, ...(doc && { doc }) };
  }
  /** Whether it leaves an operation unexecuted, so that its number stays free. */
  get isPassing() {
    return "CXO".includes(this.kind) || this.code === "session_reused" || this.isMistaken === true;
  }
}

export const malformed = (message) => new Fault("malformed", "B", message, { status: 400 });
export const tooDeep = () => new Fault("too_deep", "A", "nested too deep", { status: 400 });
export const tooLarge = (message) => new Fault("too_large", "A", message, { status: 413 });
export const badValue = (message) => new Fault("bad_value", "A", message, { phase: 1 });
export const badKey = (message) => new Fault("bad_key", "A", message, { phase: 1 });
export const contention = (message) => new Fault("contention", "C", message);
