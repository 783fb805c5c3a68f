// The operations that a server has by itself, and those of the application (docs/protocol.md, "Operations").
import { badValue, Fault } from "./fault.mjs";
import { isPromise, runNow, Waiting } from "./run.mjs";
import { pkOf } from "./schema.mjs";
import { copyOf, isMap, isString, isStrings, own, sizeOf } from "./values.mjs";

const MIB = 1 << 20;

function begin(classes, args) {
  if (!isMap(args) || !isString(own(args, "class"))) throw badValue("the arguments name no class");
  const cls = classes.get(args.class);
  if (!cls) throw new Fault("unknown_class", "N", "no such class");
  const ifVersion = own(args, "ifVersion") ?? null;
  const isGood = ifVersion === null || (Number.isSafeInteger(ifVersion) && ifVersion >= 0) || (isMap(ifVersion) && isString(own(ifVersion, "op")));
  if (!isGood) throw badValue("ifVersion is no version");
  return cls;
}

/** The built-in operations. Each takes the write, its arguments, and the engine. */
export const BUILT_IN = {
  *"doc.put"(write, args, { classes }) {
    const cls = begin(classes, args);
    const data = own(args, "data");
    if (!isMap(data)) throw badValue("data is no map");
    const pk = pkOf(write.org, cls, cls.key.map((property) => own(data, property)));
    const old = yield* write.document(cls, pk);
    const isOther = old && !old.deleted && cls.key.some((property) => old.data[property] !== data[property]);
    if (isOther) throw new Fault("key_mismatch", "A", "a document of the same pk has another key");
    yield* write.expect(cls, pk, args.ifVersion);
    yield* write.put(cls, pk, data);
  },
  *"doc.patch"(write, args, { classes }) {
    const cls = begin(classes, args);
    const [set, unset] = [own(args, "set"), own(args, "unset") ?? []];
    if (!isMap(set) || !isStrings(unset)) throw badValue("set is no map, or unset no list of names");
    const pk = pkOf(write.org, cls, own(args, "key"));
    const moves = (property, i) => unset.includes(property) || (Object.hasOwn(set, property) && set[property] !== args.key[i]);
    if (cls.key.some(moves)) throw new Fault("key_mismatch", "A", "a patch cannot change the key");
    yield* write.expect(cls, pk, args.ifVersion);
    const kept = Object.entries((yield* write.living(cls, pk)).data).filter(([name]) => !unset.includes(name));
    yield* write.put(cls, pk, { ...Object.fromEntries(kept), ...set });
  },
  *"doc.delete"(write, args, { classes }) {
    const cls = begin(classes, args);
    const pk = pkOf(write.org, cls, own(args, "key"));
    yield* write.expect(cls, pk, args.ifVersion);
    yield* write.living(cls, pk);
    yield* write.delete(cls, pk);
  },
  *batch(write, args, engine) {
    const ops = isMap(args) ? own(args, "ops") : undefined;
    if (!Array.isArray(ops)) throw badValue("ops is no list");
    if (ops.length > 500) throw new Fault("too_large", "A", "more than 500 operations");
    for (const [i, op] of ops.entries()) {
      try {
        if (!isMap(op) || !isString(own(op, "name")) || !Object.hasOwn(op, "args")) throw badValue("an operation has a name and arguments");
        if (op.name === "batch") throw badValue("a batch in a batch");
        yield* engine.execute(write, op);
      } catch (fault) {
        if (fault instanceof Fault) fault.message = `operation ${i} of the batch: ${fault.message}`;
        throw fault;
      }
    }
  },
};

/** The documents of an org, as an operation of the application reads and writes them within its write. */
function documentsIn(write, engine) {
  const execute = (name, args) => void runNow(engine.execute(write, { name, args }));
  return {
    org: write.org,
    account: write.account,
    get(className, key) {
      const cls = begin(engine.classes, { class: className });
      const found = runNow(write.document(cls, pkOf(write.org, cls, key)));
      return found && !found.deleted ? copyOf(found.data) : undefined;
    },
    put: (className, data) => execute("doc.put", { class: className, data: copyOf(data) }),
    patch(className, key, changes) {
      const unset = Object.keys(changes).filter((name) => changes[name] === undefined);
      execute("doc.patch", { class: className, key, set: copyOf(changes), unset });
    },
    delete: (className, key) => execute("doc.delete", { class: className, key }),
  };
}

/**
 * Runs an operation of the application, which is not async. On a storage that answers later it begins again for each
 * answer that it needs, until all of them are there, or its time is over.
 */
export function* runOwn(write, own, name, args, engine) {
  for (;;) {
    const mark = write.mark();
    let waiting;
    const documents = documentsIn(write, engine);
    for (const [method, call] of Object.entries(documents)) {
      if (typeof call !== "function") continue;
      // The operation may catch everything.
      documents[method] = (...given) => {
        if (waiting !== undefined) throw new Waiting(waiting);
        try {
          return call(...given);
        } catch (error) {
          if (error instanceof Waiting) waiting = error.promise;
          throw error;
        }
      };
    }
    try {
      const value = own(documents, copyOf(args) ?? {});
      if (isPromise(value)) value.then(undefined, () => {});
      if (waiting === undefined) return checked(value, name);
    } catch (error) {
      if (waiting === undefined) throw error instanceof Fault ? error : engine.failed(name, error);
    }
    yield waiting;
    write.inTime();
    write.backTo(mark);
  }
}

function checked(value, name) {
  if (isPromise(value)) throw new TypeError(`${name}: an operation must not be async, because a write is one step`);
  if (value === undefined) return undefined;
  const copy = copyOf(value);
  if (sizeOf(copy) > MIB) throw new Fault("too_large", "A", "the operation returns more than 1 MiB", { phase: 1 });
  return copy;
}

