// The effect of each operation on documents.
import { Fault, isMap, isText, own } from "./common.mjs";
import { pkOf } from "./schema.mjs";

const badValue = (message) => new Fault("bad_value", "A", message);

function classOf(engine, args) {
  if (!isMap(args)) throw badValue("the arguments are no map");
  if (typeof own(args, "class") !== "string") throw badValue("class is no text");
  const cls = engine.classes.get(args.class);
  if (!cls) throw new Fault("unknown_class", "N", "no such class");
  const expected = own(args, "ifVersion") ?? null;
  const isOperation = isMap(expected) && typeof own(expected, "op") === "string";
  const isVersion = Number.isSafeInteger(expected) && expected >= 0;
  if (expected !== null && !isOperation && !isVersion) throw badValue("ifVersion is no version");
  return cls;
}

const OPERATIONS = {
  "doc.put"(write, args) {
    const cls = classOf(write.engine, args);
    const data = own(args, "data");
    if (!isMap(data)) throw badValue("data is no map");
    const pk = pkOf(write.org, cls, cls.key.map((property) => own(data, property)));
    const old = write.documents(cls).get(pk);
    if (old && !old.deleted && cls.key.some((property) => old.data[property] !== data[property])) {
      throw new Fault("key_mismatch", "A", "a document of the same pk has another key");
    }
    write.expect(cls, pk, own(args, "ifVersion"));
    write.put(cls, pk, data);
  },
  "doc.patch"(write, args) {
    const cls = classOf(write.engine, args);
    const [set, unset] = [own(args, "set"), own(args, "unset") ?? []];
    if (!isMap(set)) throw badValue("set is no map");
    if (!Array.isArray(unset) || unset.some((name) => typeof name !== "string")) throw badValue("unset is no list of names");
    const pk = pkOf(write.org, cls, own(args, "key"));
    const moves = (property, i) => unset.includes(property) || (Object.hasOwn(set, property) && set[property] !== args.key[i]);
    if (cls.key.some(moves)) throw new Fault("key_mismatch", "A", "a patch cannot change the key");
    write.expect(cls, pk, own(args, "ifVersion"));
    const old = write.documents(cls).get(pk);
    if (!old || old.deleted) throw new Fault("not_found", "N", "no such document");
    const data = { ...old.data };
    for (const name of unset) delete data[name];
    Object.assign(data, set);
    write.put(cls, pk, data);
  },
  "doc.delete"(write, args) {
    const cls = classOf(write.engine, args);
    const pk = pkOf(write.org, cls, own(args, "key"));
    write.expect(cls, pk, own(args, "ifVersion"));
    const old = write.documents(cls).get(pk);
    if (!old || old.deleted) throw new Fault("not_found", "N", "no such document");
    write.delete(cls, pk);
  },
  batch(write, args) {
    const ops = isMap(args) ? own(args, "ops") : undefined;
    if (!Array.isArray(ops)) throw badValue("ops is no list");
    if (ops.length > 500) throw new Fault("too_large", "A", "more than 500 operations");
    ops.forEach((op, i) => {
      try {
        if (!isMap(op) || !isText(own(op, "name")) || !Object.hasOwn(op, "args")) throw badValue("an operation has a name and arguments");
        if (op.name === "batch") throw badValue("a batch in a batch");
        execute(write, op);
      } catch (fault) {
        fault.message = `operation ${i} of the batch: ${fault.message}`;
        throw fault;
      }
    });
  },
  /** An operation that only this server has: it shows a custom error code. */
  credit() {
    throw new Fault("credit_limit", "A", "The account has no credit left.", { phase: 1 });
  },
};

export function execute(write, { name, args }) {
  if (!Object.hasOwn(OPERATIONS, name)) throw new Fault("unknown_operation", "A", "no such operation");
  OPERATIONS[name](write, args);
}
