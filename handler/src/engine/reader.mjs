// The parts of a reply, from one snapshot of the storage (docs/protocol.md, "Pull").
import { Fault } from "./fault.mjs";
import { bytesOf, fromBase64Url, hmac, toBase64Url } from "./hash.mjs";
import { findDef, treeOf } from "./schema.mjs";
import { documentOf, NO_TREE, rowOf, TREES } from "./tables.mjs";
import { sizeOf } from "./values.mjs";

/** Changes that are read at once. The bound of a reply is its weight. */
const PAGE = 200;
/** Keys that are read at once, for `present`. */
const KEYS = 10_000;

export class Reader {
  constructor({ classes, locals, deltaMs, pageBytes }) {
    Object.assign(this, { classes, locals, deltaMs, pageBytes });
  }
  find(def) {
    return findDef(this.classes, def);
  }
  /** A fault in place of a part, such as `withdrawn` or `forbidden`; nothing if the account may read the def. */
  refusal() {
    return undefined;
  }
  /** The fault of a def that there is not. Only devices have the documents of a local class. */
  unknown(def) {
    const isLocal = this.locals.has(def.split(/[/@]/)[0]);
    return isLocal ? new Fault("unknown_class", "N", "the class is local") : new Fault("unknown_def", "N", "no such class or collection");
  }
  /** The weight of a row or departure, and of the list of the living members. */
  weigh(item) {
    return sizeOf(item) + 8;
  }
  weighMembers(count) {
    return 24 * count;
  }
  /** The parts of a reply: `snapshot` is `{ tx, org, caller, now, epoch, cursorKey, horizon }`. */
  *parts(snapshot, subs, page = this.pageBytes) {
    const [parts, room] = [[], { bytes: this.pageBytes }];
    // The caller's bound is not one of the tree that comes first: its defs would no longer be one state.
    let cut = this.pageBytes - Math.min(page, this.pageBytes);
    for (const [i, group] of this.groups(subs).entries()) {
      if (i > 0 || this.find(group[0][0])?.tree === undefined) [room.bytes, cut] = [room.bytes - cut, 0];
      if (!(yield* this.answerAll(snapshot, group, room, parts))) break;
    }
    return parts;
  }
  /** Neighbours of one tree are together. A def that is named again is left out: it would cost as much as another one. */
  groups(subs) {
    const groups = [];
    const named = new Set();
    let last;
    for (const sub of subs) {
      if (named.has(sub[0])) continue;
      named.add(sub[0]);
      const tree = this.find(sub[0])?.tree;
      if (tree !== undefined && tree === last) groups.at(-1).push(sub);
      else groups.push([sub]);
      last = tree;
    }
    return groups;
  }
  /** Answers the defs of one tree: all of them, or none if others came first. Whether each of them is whole. */
  *answerAll(snapshot, group, room, parts) {
    const before = parts.length;
    for (const sub of group) {
      const isFirst = parts.every(({ rows = [], left = [] }) => !rows.length && !left.length);
      const part = room.bytes > 0 || isFirst ? yield* this.answer(snapshot, sub, room, isFirst) : undefined;
      if (part) parts.push(part);
      if (part && part.next === undefined) continue;
      if (group.length > 1 && before > 0) parts.length = before;
      return false;
    }
    return true;
  }
  *tree({ tx, org }, name) {
    const [row] = name === undefined ? [] : yield tx.get(org, TREES, [name]);
    return row?.value ?? NO_TREE;
  }
  /** At most so many changes of a def behind a place, ascending by (v, pk). */
  *changes(snapshot, { cls, table, pk }, after, limit) {
    const { tx, org } = snapshot;
    const named = ([key, row]) => ({ ...row.value, pk: key, v: row.v, state: row.state, ends: row.ends });
    if (pk) {
      const [row] = yield tx.get(org, cls.name, [pk]);
      if (!row) return [];
      const { floor } = cls.parent ? yield* this.tree(snapshot, treeOf(cls, pk, row.value.links)) : NO_TREE;
      const { v, deleted } = documentOf(row, floor);
      const change = deleted ? { pk, v, state: "deleted" } : named([pk, row]);
      return isBehind(change, after) ? [change] : [];
    }
    const rows = yield tx.page(org, table, { after, limit });
    if (table === cls.name) return rows.map(named);
    const living = rows.filter(([, { state }]) => state === "alive").map(([key]) => key);
    const documents = living.length ? yield tx.get(org, cls.name, living) : [];
    const data = new Map(living.map((key, i) => [key, documents[i]?.value]));
    return rows.map(([key, row]) => ({ ...named([key, row]), ...data.get(key) }));
  }
  /** How many changes from `since` on an answer lists, and deletions from `gone` on. */
  *total(snapshot, found, { since, gone, now }) {
    if (!found.pk) return yield snapshot.tx.count(snapshot.org, found.table, { since, gone, now });
    const changes = yield* this.changes(snapshot, found, [since, ""], 1);
    return changes.filter((change) => change.v >= gone || isAlive(change, now)).length;
  }
  /** The living members of a def, from the floor on. */
  *present(snapshot, found, floor, now) {
    if (found.pk) return (yield* this.changes(snapshot, found, [0, ""], 1)).filter((change) => isAlive(change, now)).map(({ pk }) => pk);
    const all = [];
    for (let after = [floor, ""]; ; ) {
      const page = yield snapshot.tx.page(snapshot.org, found.table, { after, limit: KEYS, bare: true });
      for (const [pk, row] of page) if (isAlive(row, now)) all.push(pk);
      if (page.length < KEYS) return all;
      after = [page.at(-1)[1].v, page.at(-1)[0]];
    }
  }
  /** The part of a def, or nothing if not one row had room. */
  *answer(snapshot, [def, v, cursor], room, isFirst) {
    const { org, now } = snapshot;
    const refused = this.refusal(snapshot.caller, def, org);
    if (refused) return { def, fault: refused.toMap() };
    const found = this.find(def);
    if (!found) return { def, fault: this.unknown(def).toMap() };
    const { floor, n, horizon } = { ...(yield* this.tree(snapshot, found.tree)), ...(!found.isItems && { floor: 0 }) };
    const { isNumbered } = found.cls;
    // A number is exact: of a time, a session may lack some changes.
    const since = isNumbered ? v + 1 : v;
    const at = cursor === undefined ? { first: isNumbered ? n : now, after: [since, ""] } : this.readCursor(snapshot, cursor, def, v);
    if (!at) return { def, fault: new Fault("bad_cursor", "N", "no cursor of this answer").toMap() };
    const gone = v > 0 ? 0 : isNumbered ? at.first + 1 : at.first - this.deltaMs;
    const total = at.total ?? (yield* this.total(snapshot, found, { since: Math.max(since, floor), gone, now }));
    const part = { def, rows: [], left: [], total, ...(floor > 0 && v <= floor && { floor }), ...(isNumbered && { n }) };
    let last;
    for (let after = at.after[0] < floor ? [floor, ""] : at.after; after; ) {
      const changes = yield* this.changes(snapshot, found, after, PAGE);
      for (const change of changes) {
        const isLiving = isAlive(change, now);
        if (!isLiving && change.v < gone) continue;
        const item = change.state === "left" ? [change.pk, change.v] : rowOf(change.pk, { ...change, deleted: !isLiving });
        const size = this.weigh(item);
        if (size > room.bytes && (last || !isFirst)) {
          if (!last) return undefined;
          room.bytes = 0;
          return { ...part, next: this.writeCursor(snapshot, { first: at.first, after: last, total }, def, v) };
        }
        room.bytes -= size;
        last = [change.v, change.pk];
        (change.state === "left" ? part.left : part.rows).push(item);
      }
      after = changes.length < PAGE ? undefined : [changes.at(-1).v, changes.at(-1).pk];
    }
    if (v === 0 || since < (isNumbered ? horizon : snapshot.horizon)) {
      part.present = yield* this.present(snapshot, found, floor, now);
      room.bytes -= this.weighMembers(part.present.length);
    }
    return part;
  }
  /** The living documents of a class, ascending by pk, each with the defs that hold it. */
  *documents(snapshot, cls) {
    const { tx, org, now } = snapshot;
    const found = [];
    for (let after = [0, ""]; after; ) {
      const page = yield tx.page(org, cls.name, { after, limit: KEYS });
      for (const [pk, row] of page) {
        const { floor } = cls.parent ? yield* this.tree(snapshot, treeOf(cls, pk, row.value.links)) : NO_TREE;
        const { links, data } = row.value;
        if (isAlive(row, now) && row.v >= floor) found.push({ pk, v: row.v, data, defs: [cls.name, `${cls.name}@${pk}`, ...links.map((link) => `${cls.name}/${link}`)] });
      }
      after = page.length < KEYS ? undefined : [page.at(-1)[1].v, page.at(-1)[0]];
    }
    return found.sort((a, b) => (a.pk < b.pk ? -1 : 1));
  }
  sign({ org, epoch, cursorKey }, place, def, v) {
    return toBase64Url(hmac(cursorKey, bytesOf(JSON.stringify([org, def, v, epoch, place]))));
  }
  writeCursor(snapshot, at, def, v) {
    const place = toBase64Url(bytesOf(JSON.stringify([at.first, at.total, ...at.after])));
    return `${place}.${this.sign(snapshot, place, def, v)}`;
  }
  readCursor(snapshot, cursor, def, v) {
    const [place, signature] = cursor.split(".");
    if (cursor !== `${place}.${signature}` || signature !== this.sign(snapshot, place, def, v)) return undefined;
    const [first, total, ...after] = JSON.parse(new TextDecoder().decode(fromBase64Url(place)));
    return { first, total, after };
  }
}

const isBehind = ({ v, pk }, after) => v > after[0] || (v === after[0] && pk > after[1]);
const isAlive = ({ state, ends }, now) => state === "alive" && !(ends !== undefined && ends <= now);
