"""A server of the Escale protocol, written from docs/protocol.md and docs/schema.md alone.

It is for an author who writes a server. The names are those of the page, and the tables those of its pseudo-code:
SQLite holds everything, so a restart loses nothing. Python 3.11, with aiohttp for HTTP and sockets, and msgpack:

    pip install -r requirements.txt
    python server.py --schema schema.json --port 7700 --data data.sqlite

Invariant: a request is served without `await` between its operations, its `now` and its parts. No write of another
request comes between them, so that the parts are one snapshot.
"""
import argparse, asyncio, base64, collections, hashlib, hmac, json, re, secrets, signal, sqlite3, time
from urllib.parse import unquote

import msgpack
from aiohttp import WSMsgType, web

from forms import FORMS, SAFE, Packed, Unreadable, canonical, decode, normal

MIB = 1 << 20
DELTA_MS = 2000  # A write takes no time here, and there is one clock: the least that the page allows is 1,000.
AHEAD_MS = 1000  # A `now` is stored in steps of this length.
MINUTES_MAX = 150_119_987_579
ITEMS_MAX = 100_000
NAME = r"[A-Za-z][A-Za-z0-9]{0,63}"
DEF = re.compile(rf"({NAME})(?:/({NAME})@([-\w]{{22}})|@([-\w.:]{{1,1024}}))?", re.ASCII)
ORG = re.compile(r"[-\w.:]{1,1024}", re.ASCII)


# ---- Faults ----


class Fault(Exception):
    def __init__(self, code, kind, message="", status=400, phase=0, doc=None, passes=None):
        super().__init__(message)
        self.code, self.kind, self.message, self.status, self.phase, self.doc = code, kind, message, status, phase, doc
        # Whether the operation was not executed, so that its number stays free.
        self.passes = kind in "CXO" if passes is None else passes

    def value(self):
        doc = {"doc": self.doc} if self.doc else {}
        return {"code": self.code, "kind": self.kind, "phase": self.phase, "message": self.message, **doc}


def malformed(message):
    return Fault("malformed", "B", message)


def unreadable(mistake):
    return Fault("too_deep", "A", "nested too deep") if mistake.is_too_deep else malformed(str(mistake))


def bad_value(message):
    return Fault("bad_value", "A", message, phase=1)


def bad_key(message):
    return Fault("bad_key", "A", message, phase=1)


# ---- Schema ----


def is_count(value, least=0):
    return type(value) is int and least <= value <= SAFE


def is_text(value):
    return isinstance(value, str) and 0 < len(value.encode()) <= 1024


def sha_s(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[3:19]).decode().rstrip("=")


def is_texts(value):
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


INDEX_TYPES = {
    "hash": lambda value: isinstance(value, str),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) in (int, float),
    "string[]": is_texts,
    "boolean": lambda value: isinstance(value, bool),
}


class Class:
    def __init__(self, name, declared):
        self.name, self.key, self.raw = name, declared["key"], declared.get("raw", False)
        self.parent, self.items, self.is_numbered = declared.get("in"), [], declared.get("clock") == "sequence"
        self.sync, self.release = declared.get("sync", True), declared.get("release", 1)
        self.collections = declared.get("collections", {})
        indexes = declared.get("indexes", {}).items()
        self.indexes = [{"property": name, **({"type": index} if isinstance(index, str) else index)} for name, index in indexes]

    def join(self, classes):
        """Finds the class of the parents. Each item is a member of one collection for ever: its hash is the parent's pk."""
        if self.parent:
            self.parent = classes[self.parent]
            self.collections = {"in": {"key": self.key[: len(self.parent.key)]}}
            self.parent.items.append(self)
            self.is_numbered = self.parent.is_numbered

    @property
    def is_tree(self):
        """Whether each document has a tree of its own, which may be one of numbers only."""
        return bool(self.items) or (self.is_numbered and not self.parent)

    def tree(self, pk, links):
        """The tree of a document, as class and pk: an item is in its parent's, and knows it by its one link."""
        return (self.parent.name, min(links).split("@")[1]) if self.parent else (self.name, pk)

    def pk(self, org, key):
        if not is_texts(key) or len(key) != len(self.key):
            raise bad_key("a key is a list of texts")
        if any("/" in value for value in key[:-1]):
            raise bad_key("only the last key property may hold a slash")
        if self.parent and len("/".join(key[len(self.parent.key) :])) > 255:
            raise bad_key("the own part of an item's key has more than 255 characters")
        if self.name == "Hdr" and org != "ROOT":
            raise bad_key("only the org ROOT has a Hdr")
        if self.name == "Hdr":
            return "1"
        if self.name != "Org" or len(key) > 1:
            return sha_s("/".join(key))
        if not ORG.fullmatch(key[0]):
            raise bad_key("the code of an org is a name of an org")
        return key[0]

    def links(self, data):
        """The collections that hold a document, each as `name@hash`."""
        links = set()
        for name, collection in self.collections.items():
            values = [data.get(property) for property in collection["key"]]
            there = values[: values.index(None)] if None in values else values
            is_list = collection.get("list", False)
            if not all(is_texts(value) if is_list else isinstance(value, str) for value in there):
                raise bad_key(f"the properties of the collection {name} do not fit")
            if None in values:
                continue
            if any("/" in value for value in values[:-1]):
                raise bad_key(f"a slash in a property of the collection {name}")
            links |= {f"{name}@{sha_s(value)}" for value in (values[0] if is_list else ["/".join(values)])}
        return links

    def fixed(self, links):
        return {link for link in links if not self.collections.get(link.split("@")[0], {}).get("mutable", False)}

    def check(self, data):
        if len(msgpack.packb(data)) > MIB:
            raise Fault("too_large", "A", "the document has more than 1 MiB", phase=1)
        if any(name.startswith("_") for name in data):
            raise bad_value("a name that begins with _")
        if not is_count(data["release"], 1) or data["release"] > self.release:
            raise bad_value("release is none of the class")
        end = data.get("maxLife")
        if end is not None and self.is_tree:
            raise bad_value("a document with items or numbers has no end")
        if self.raw and not (isinstance(data.get("raw"), bytes) and set(data) <= {*self.key, "raw", "release", "maxLife"}):
            raise bad_value("a raw item has its key and the bytes of raw")
        if end is not None and not (is_count(end) and end <= MINUTES_MAX):
            raise bad_value("maxLife is no number of minutes")
        for index in self.indexes:
            value = data.get(index["property"])
            if value is not None and not INDEX_TYPES[index["type"]](value):
                raise bad_value(f"the index {index['property']} holds another type")


# ---- Database ----

Tree = collections.namedtuple("Tree", "floor items n horizon", defaults=(0, 0, 0, 0))
TABLES = """
create table if not exists documents (org text, class text, pk text, v integer, deleted integer, max_life integer,
  links text, data blob, at integer, primary key (org, class, pk));
create index if not exists changes on documents (org, class, v, pk);
create table if not exists members (org text, def text, pk text, v integer, state text, at integer,
  primary key (org, def, pk));
create index if not exists member_changes on members (org, def, v, pk);
create table if not exists trees (org text, class text, pk text, floor integer, items integer, n integer, horizon integer,
  primary key (org, class, pk));
create table if not exists uniques (class text, property text, value text, org text, pk text);
create index if not exists unique_values on uniques (class, property, value);
create index if not exists unique_documents on uniques (org, class, pk);
create table if not exists sessions (org text, name text, account text, last integer, primary key (org, name));
create table if not exists operations (org text, account text, id text, v integer, refused integer, name text,
  result blob, at integer, primary key (org, account, id));
create table if not exists meta (epoch_ms integer, epoch_text text, highest integer, told integer, horizon integer,
  cursor_key blob);
"""


def row_of(pk, v, deleted, max_life, data):
    if deleted:
        return {"pk": pk, "v": v, "deleted": True}
    return {"pk": pk, "v": v, **({} if max_life is None else {"maxLife": max_life}), "data": Packed(data)}


class Server:
    def __init__(self, options):
        with open(options.schema, encoding="utf-8") as file:
            self.classes = {name: Class(name, declared) for name, declared in json.load(file).items()}
        for cls in self.classes.values():
            cls.join(self.classes)
        self.options, self.told, self.listeners = options, 0, set()
        self.db = sqlite3.connect(options.data or ":memory:", isolation_level=None)
        self.db.executescript("pragma journal_mode = wal; pragma synchronous = normal;" + TABLES)
        if not self.one("select 1 from meta"):
            fresh = (self.clock(), secrets.token_hex(8), 0, 0, 0, secrets.token_bytes(32))
            self.db.execute("insert into meta values (?, ?, ?, ?, ?, ?)", fresh)
        if options.renew_epoch:
            later = max(self.clock(), self.meta("epoch_ms") + 1)
            self.db.execute("update meta set epoch_ms = ?, epoch_text = ?", (later, secrets.token_hex(8)))
        self.purge()

    def clock(self):
        return time.time_ns() // 1_000_000 + self.options.clock_offset_ms

    def one(self, sql, *values):
        return self.db.execute(sql, values).fetchone()

    def tree(self, org, name):
        found = self.one("select floor, items, n, horizon from trees where org = ? and class = ? and pk = ?", org, *name)
        return Tree(*found) if found else Tree()

    def set_tree(self, org, name, tree):
        self.db.execute("insert or replace into trees values (?, ?, ?, ?, ?, ?, ?)", (org, *name, *tree))

    def meta(self, column):
        return self.one(f"select {column} from meta")[0]

    def epoch(self):
        return list(self.one("select epoch_ms, epoch_text from meta"))

    def admit(self, token, org):
        """The account of a token that opens an org, and whether it may write. A token that is taken out of the file is
        withdrawn."""
        if self.options.tokens is None:
            return "", True
        with open(self.options.tokens, encoding="utf-8") as file:
            access = json.load(file).get(token)
        if access is None or access.get("until", SAFE) <= self.clock():
            raise Fault("unauthorized", "S", "the token is missing or unknown", 401)
        if org not in access["orgs"]:
            raise Fault("forbidden", "S", "the token does not open this org", 403)
        return access["account"], access["role"] != "read"

    def tell_now(self):
        """The `now` of a reply. A later one is stored ahead, so that no later write gets a lower version."""
        self.told = max(self.clock(), self.told, self.meta("highest"))
        if self.told > self.meta("told"):
            self.db.execute("update meta set told = ?", (self.told + AHEAD_MS,))
        return self.told

    # ---- Operations ----

    def operate(self, org, account, may_write, request, op):
        """Executes an operation in one transaction and returns its result. Raises a fault that passes if it was not
        executed."""
        self.db.execute("begin immediate")
        write = Write(self, org, account)
        try:
            result = self.operate_in(write, may_write, request, op)
            if write.defs:
                self.db.execute("update meta set highest = ?", (write.now,))
            self.db.execute("commit")
        except BaseException:
            self.db.execute("rollback")
            raise
        for listener in self.listeners if write.defs else ():
            listener(org, write.defs)
        return result

    def operate_in(self, write, may_write, request, op):
        org, account, name = write.org, write.account, request["session"]
        if request["epoch"] is not None and request["epoch"] != self.epoch():
            raise Fault("contention", "C", "another epoch")
        owner, last = self.one("select account, last from sessions where org = ? and name = ?", org, name) or (account, 0)
        if owner != account:
            raise Fault("session_reused", "A", "the session is another account's", passes=True)
        known = self.one("select name, result, refused from operations where org = ? and account = ? and id = ?", org, account, op["id"])
        if known:
            if known[0] not in (None, op["name"]):
                raise Fault("bad_value", "A", "the id has another name", passes=True)
            if op["seq"] == last + 1:
                self.db.execute("insert or replace into sessions values (?, ?, ?, ?)", (org, name, account, op["seq"]))
            return result_of(op["id"], *known[1:])
        if op["seq"] > last + 1:
            raise Fault("order_gap", "C", "operations before it are missing")
        if op["seq"] <= last:
            raise Fault("session_reused", "A", "the number is another operation's", passes=True)
        if "after" in op:
            write.earlier(op["after"])
        self.db.execute("savepoint effect")
        try:
            if not may_write:
                raise Fault("forbidden", "S", "the token may only read")
            self.execute(write, op["name"], normal(op["args"]))
            trees = write.trees()
            result = {"id": op["id"], "ok": {"v": write.given, **({"trees": trees} if trees else {})}}
        except Fault as fault:
            if fault.passes:
                raise
            self.db.execute("rollback to effect")
            write.given, write.defs = 0, {}
            result = {"id": op["id"], "fault": fault.value()}
        kept = (org, account, op["id"], write.given, "fault" in result, op["name"], msgpack.packb(result), self.clock())
        self.db.execute("insert into operations values (?, ?, ?, ?, ?, ?, ?, ?)", kept)
        self.db.execute("insert or replace into sessions values (?, ?, ?, ?)", (org, name, account, op["seq"]))
        return result

    def execute(self, write, name, args):
        if name == "batch":
            return self.batch(write, args)
        if name not in ("doc.put", "doc.patch", "doc.delete"):
            raise Fault("unknown_operation", "A", "no such operation")
        args = args if isinstance(args, dict) else {}
        expected = args.get("ifVersion")
        is_operation = isinstance(expected, dict) and isinstance(expected.get("op"), str)
        if not isinstance(args.get("class"), str) or not (expected is None or is_count(expected) or is_operation):
            raise bad_value("no class, or ifVersion is no version")
        cls = self.classes.get(args["class"])
        if cls is None:
            raise Fault("unknown_class", "N", "no such class")
        if name == "doc.put":
            data = args.get("data")
            if not isinstance(data, dict):
                raise bad_value("data is no map")
            pk = cls.pk(write.org, [data.get(property) for property in cls.key])
            old = write.document(cls, pk)
            if old and not old["deleted"] and any(old["data"][one] != data[one] for one in cls.key):
                raise Fault("key_mismatch", "A", "a document of the same pk has another key")
            write.expect(cls, pk, expected)
            return write.put(cls, pk, data)
        key, change, unset = args.get("key"), args.get("set"), args.get("unset") or []
        pk = cls.pk(write.org, key)
        if name == "doc.patch":
            if not isinstance(change, dict) or not is_texts(unset):
                raise bad_value("set is no map, or unset no list of names")
            if any(one in unset or change.get(one, value) != value for one, value in zip(cls.key, key)):
                raise Fault("key_mismatch", "A", "a patch cannot change the key")
        write.expect(cls, pk, expected)
        old = write.living(cls, pk)
        if name == "doc.delete":
            return write.delete(cls, pk, old)
        write.put(cls, pk, {**{one: value for one, value in old["data"].items() if one not in unset}, **change})

    def batch(self, write, args):
        ops = args.get("ops") if isinstance(args, dict) else None
        if not isinstance(ops, list):
            raise bad_value("ops is no list")
        if len(ops) > 500:
            raise Fault("too_large", "A", "more than 500 operations")
        for i, op in enumerate(ops):
            try:
                if not isinstance(op, dict) or not isinstance(op.get("name"), str) or "args" not in op or op["name"] == "batch":
                    raise bad_value("an operation has a name and arguments, and is no batch")
                self.execute(write, op["name"], op["args"])
            except Fault as fault:
                fault.message = f"operation {i} of the batch: {fault.message}"
                raise

    def complete(self, org, account, ops, results, fault):
        """Adds the results of operations that are known, from the one that was not executed on, and its fault once."""
        first, at, weight = len(results), None, len(msgpack.packb(results))
        for i, op in enumerate(ops[first:], first):
            known = self.one("select name, result, refused from operations where org = ? and account = ? and id = ?", org, account, op["id"])
            result = result_of(op["id"], *known[1:]) if known and known[0] in (None, op["name"]) else None
            weight += len(msgpack.packb(result)) if result else 0
            if result and weight <= 4 * MIB:
                results.append(result)
            elif known and i > first:
                if at is not None:
                    del results[at]
                return
            elif at is None:
                at = len(results)
                passing = fault if i == first else Fault("contention", "C", "it waits for another one")
                results.append({"id": op["id"], "fault": passing.value()})

    # ---- Pulls ----

    def sync(self, org, account, may_write, request):
        ops, results, fault, weight = request["ops"], [], None, 0
        for op in ops:
            if weight >= MIB:
                break
            try:
                results.append(self.operate(org, account, may_write, request, op))
            except Fault as passing:
                fault = passing
                break
            weight += len(msgpack.packb(results[-1]))
        now = self.tell_now()
        if fault:
            self.complete(org, account, ops, results, fault)
        parts, room = [], [self.options.page_bytes]
        for group in self.groups(request["subs"]):
            if not self.answer_all(org, group, now, room, parts):
                break
        owner, last = self.one("select account, last from sessions where org = ? and name = ?", org, request["session"]) or ("", 0)
        seq = last if owner == account else 0
        return {"p": 1, "epoch": self.epoch(), "now": now, "delta": DELTA_MS, "seq": seq, "results": results, "parts": parts}

    def exists(self, found):
        name, collection, _, pk = found.groups()
        cls = self.classes.get(name)
        if not cls or not cls.sync or (cls.parent and not collection and not pk):
            return False
        if cls.is_numbered and not (collection if cls.parent else pk):
            return False
        return collection is None or collection in cls.collections

    def tree_of(self, found):
        """The tree whose state a def shows, if it is that of a parent or of its items."""
        name, collection, hash, pk = found.groups()
        cls = self.classes.get(name)
        if not cls or not self.exists(found):
            return None
        if cls.parent:
            return (cls.parent.name, hash) if collection else None
        return (name, pk) if pk and cls.is_tree else None

    def groups(self, subs):
        """Neighbours of one tree are together. A def that is named again is left out: it would cost as much as another one."""
        groups, named, last = [], set(), None
        for sub in subs:
            if sub[0] in named:
                continue
            named.add(sub[0])
            tree = self.tree_of(DEF.fullmatch(sub[0]))
            if tree and tree == last:
                groups[-1].append(sub)
            else:
                groups.append([sub])
            last = tree
        return groups

    def answer_all(self, org, group, now, room, parts):
        """Answers the defs of one tree: all of them, or none if others came first. Whether each of them is whole."""
        before = len(parts)
        for sub in group:
            is_first = not any(part.get("rows") or part.get("left") for part in parts)
            part = self.answer(org, sub, now, room, is_first) if room[0] > 0 or is_first else None
            if part:
                parts.append(part)
            if part is None or "next" in part:
                if len(group) > 1 and before:
                    del parts[before:]
                return False
        return True

    def changes(self, org, found, floor):
        """The query for the changes of a def, and its values: pk, v, state, max_life, data."""
        name, collection, _, pk = found.groups()
        if collection:
            sql = """select m.pk as pk, m.v as v, m.state as state, d.max_life as max_life, d.data as data from members m
              left join documents d on d.org = m.org and d.class = ? and d.pk = m.pk where m.org = ? and m.def = ? and m.v >= ?"""
            return sql, (name, org, found.group(), floor)
        sql = """select pk, v, case when deleted then 'deleted' else 'alive' end as state, max_life, data from documents
          where org = ? and class = ?"""
        ended = self.end_of_item(org, self.classes[name], pk)
        if ended:
            return "select ? as pk, ? as v, 'deleted' as state, null as max_life, null as data", (pk, ended)
        return (sql + " and pk = ?", (org, name, pk)) if pk else (sql, (org, name))

    def end_of_item(self, org, cls, pk):
        """The floor above a stored item."""
        found = cls.parent and self.one("select v, links from documents where org = ? and class = ? and pk = ?", org, cls.name, pk)
        floor = self.tree(org, cls.tree(pk, json.loads(found[1]))).floor if found else 0
        return floor if found and found[0] < floor else None

    def answer(self, org, sub, now, room, is_first):
        name, v, *cursor = sub
        found = DEF.fullmatch(name)
        if not self.exists(found):
            return {"def": name, "fault": Fault("unknown_def", "N", "no such class or collection").value()}
        cls, of_tree = self.classes[found[1]], self.tree_of(found)
        tree = self.tree(org, of_tree) if of_tree else Tree()
        # A number is exact: of a time, a session may lack some changes.
        since = v + 1 if cls.is_numbered else v
        at = self.read_cursor(cursor[0], org, name, v) if cursor else [tree.n if cls.is_numbered else now, since, "", None]
        if at is None:
            return {"def": name, "fault": Fault("bad_cursor", "N", "no cursor of this answer").value()}
        first, after_v, after_pk, total = at
        gone_from = 0 if v else first + 1 if cls.is_numbered else first - DELTA_MS
        floor = tree.floor if cls.parent and found[2] else 0
        sql, values = self.changes(org, found, floor)
        over = "(max_life is not null and max_life * 60000 <= ?)"
        shown = f"select * from ({sql}) where ((state = 'alive' and not {over}) or v >= ?)"
        if total is None:
            total = self.one(f"select count(*) from ({shown}) where v >= ? and state <> 'left'", *values, now, gone_from, since)[0]
        part, last = {"def": name, "rows": [], "left": [], "total": total}, None
        if 0 < floor and v <= floor:
            part["floor"] = floor
        if cls.is_numbered:
            part["n"] = tree.n
        rows = self.db.execute(f"{shown} and (v, pk) > (?, ?) order by v, pk", (*values, now, gone_from, after_v, after_pk))
        for pk, at_v, state, max_life, data in rows:
            is_over = state == "deleted" or (max_life is not None and max_life * 60_000 <= now)
            item = [pk, at_v] if state == "left" else row_of(pk, at_v, is_over, max_life, data)
            size = len(msgpack.packb(item))
            if size > room[0] and (last or not is_first):
                if last is None:
                    return None
                room[0] = 0
                return {**part, "next": self.write_cursor([first, *last, total], org, name, v)}
            room[0] -= size
            last = (at_v, pk)
            part["left" if state == "left" else "rows"].append(item)
        if v == 0 or since < (tree.horizon if cls.is_numbered else self.meta("horizon")):
            alive = f"select pk from ({sql}) where state = 'alive' and not {over}"
            part["present"] = [pk for pk, in self.db.execute(alive, (*values, now))]
            room[0] -= 24 * len(part["present"])
        return part

    def signature(self, place, org, name, v):
        bound = json.dumps([org, name, v, self.epoch(), place.decode()])
        return base64.urlsafe_b64encode(hmac.digest(self.meta("cursor_key"), bound.encode(), "sha256"))

    def write_cursor(self, at, org, name, v):
        place = base64.urlsafe_b64encode(json.dumps(at).encode())
        return (place + b"." + self.signature(place, org, name, v)).decode()

    def read_cursor(self, cursor, org, name, v):
        place, _, signature = cursor.encode().partition(b".")
        if not cursor.isascii() or not hmac.compare_digest(signature, self.signature(place, org, name, v)):
            return None
        return json.loads(base64.urlsafe_b64decode(place))

    def purge(self):
        """Forgets tombstones and departures from before the horizon, and old results. Ids and numbers are kept."""
        now, retention = self.clock(), self.options.retention_ms
        horizon = max(self.meta("horizon"), now - retention)
        old = "select org, class, pk, v, deleted, links from documents where at < ? and (deleted or max_life * 60000 + ? <= ?)"
        self.db.execute("begin immediate")
        gone = [self.forget(*row) for row in self.db.execute(old, (horizon, retention, now)).fetchall()]
        gone += self.db.execute("delete from members where state = 'left' and at < ? returning 1", (horizon,)).fetchall()
        for org, name, pk, floor, n in self.db.execute("select org, class, pk, floor, n from trees where floor > 0").fetchall():
            if n or floor < horizon:
                gone += self.purge_tree(org, name, pk, floor, n)
        if gone:
            self.db.execute("update meta set horizon = ?", (horizon,))
        before = now - self.options.results_ms
        self.db.execute("update operations set result = null, name = null where result is not null and at <= ?", (before,))
        self.db.execute("commit")

    def forget(self, org, name, pk, v, deleted, links):
        """Forgets a document. Numbers are no times, so their trees have horizons of their own."""
        for link in json.loads(links):
            self.db.execute("delete from members where org = ? and def = ? and pk = ?", (org, f"{name}/{link}", pk))
        self.db.execute("delete from documents where org = ? and class = ? and pk = ?", (org, name, pk))
        cls = self.classes.get(name)
        if cls and (cls.parent or cls.is_numbered):
            of = cls.tree(pk, json.loads(links))
            tree = self.tree(org, of)
            items = tree.items - (1 if cls.parent and not deleted and v >= tree.floor else 0)
            self.set_tree(org, of, tree._replace(items=items, horizon=max(tree.horizon, v + 1) if cls.is_numbered else 0))

    def purge_tree(self, org, name, pk, floor, n):
        """Forgets items below a floor, of which the floor alone tells; and the tree, if its parent is forgotten."""
        gone = []
        for items in self.classes[name].items if name in self.classes else ():
            ended = (org, items.name, json.dumps([f"in@{pk}"]), floor)
            gone += self.db.execute("delete from documents where org = ? and class = ? and links = ? and v < ? returning 1", ended).fetchall()
            self.db.execute("delete from members where org = ? and def = ? and v < ?", (org, f"{items.name}/in@{pk}", floor))
        if not n and not self.one("select 1 from documents where org = ? and class = ? and pk = ?", org, name, pk):
            gone += self.db.execute("delete from trees where org = ? and class = ? and pk = ? returning 1", (org, name, pk)).fetchall()
        return gone


def result_of(id, result, refused):
    if result is None:
        fault = Fault("internal", "B", "the reason of its refusal is too old") if refused else Fault("forgotten", "N", "its result is too old")
        return {"id": id, "fault": fault.value()}
    found = msgpack.unpackb(result)
    doc = found.get("fault", {}).get("doc", {})
    if "data" in doc:
        doc["data"] = Packed(doc["data"])
    return found


class Write:
    """The effect of one operation. `defs` are those that it concerns, before or after, with their versions."""

    def __init__(self, server, org, account):
        self.server, self.db, self.org, self.account = server, server.db, org, account
        self.given, self.defs, self.taken, self.kept = 0, {}, set(), {}
        self.now = max(server.clock(), server.told, server.meta("told"), server.meta("highest") + 1)

    def document(self, cls, pk):
        sql = "select v, deleted, max_life, links, data from documents where org = ? and class = ? and pk = ?"
        found = self.server.one(sql, self.org, cls.name, pk)
        if found is None:
            return None
        v, deleted, max_life, links, packed = found
        floor = self.tree(cls.tree(pk, json.loads(links))).floor if cls.parent else 0
        if v < floor:  # It is deleted, at the floor.
            v, deleted = floor, True
        return {"v": v, "deleted": deleted, "links": set(json.loads(links)), "data": msgpack.unpackb(packed), "row": row_of(pk, v, deleted, max_life, packed)}

    def tree(self, name):
        return self.server.tree(self.org, name)

    def set_tree(self, name, **change):
        self.server.set_tree(self.org, name, self.tree(name)._replace(**change))

    def version_in(self, cls, tree):
        """The version of all that it writes in a tree. With the clock `sequence`, it takes the tree's next number once."""
        if not cls.is_numbered:
            return self.now
        if tree not in self.taken:
            self.set_tree(tree, n=self.tree(tree).n + 1)
            self.taken.add(tree)
        return self.tree(tree).n

    def keep(self, cls, tree, v):
        """A document stays as it is, and its version counts."""
        if cls.is_numbered:
            self.kept[tree] = max(v, self.kept.get(tree, 0))
        else:
            self.given = max(self.given, v)

    def trees(self):
        """The numbers of the trees that it wrote in, or was asked to."""
        return [[*tree, self.tree(tree).n if tree in self.taken else self.kept[tree]] for tree in sorted(self.taken | self.kept.keys())]

    def created(self, cls, tree, v):
        """A parent begins a tree; an item is one more in it."""
        if cls.items:
            self.set_tree(tree, floor=v, items=0)
        if cls.parent and self.tree(tree).items >= ITEMS_MAX:
            raise Fault("too_large", "A", "the parent has too many items", phase=1)
        if cls.parent:
            self.set_tree(tree, items=self.tree(tree).items + 1)

    def end_items(self, cls, pk, v):
        """All items end with their parent. Nothing is written of them, except of those that this write itself has put.
        Sockets hear of each."""
        for items in cls.items:
            self.defs[f"{items.name}/in@{pk}"] = v
            ended = "select pk, v = ? and not deleted from documents where org = ? and class = ? and links = ?"
            for item, is_own in self.db.execute(ended, (v, self.org, items.name, json.dumps([f"in@{pk}"]))).fetchall():
                self.defs[f"{items.name}@{item}"] = v
                if is_own:
                    self.delete(items, item, self.document(items, item))
        self.set_tree((cls.name, pk), floor=v, items=0)

    def living(self, cls, pk):
        old = self.document(cls, pk)
        if old is None or old["deleted"]:
            raise Fault("not_found", "N", "no such document", phase=1)
        return old

    def store(self, cls, pk, v, deleted, links, data):
        kept = (self.org, cls.name, pk, v, deleted, data.get("maxLife"), json.dumps(sorted(links)), msgpack.packb(data), self.now)
        self.db.execute("insert or replace into documents values (?, ?, ?, ?, ?, ?, ?, ?, ?)", kept)
        self.wrote(cls, pk, v)

    def wrote(self, cls, pk, v):
        self.given = self.now
        self.defs |= {cls.name: v, f"{cls.name}@{pk}": v}

    def member(self, cls, link, pk, v, state):
        name = f"{cls.name}/{link}"
        self.db.execute("insert or replace into members values (?, ?, ?, ?, ?, ?)", (self.org, name, pk, v, state, self.now))
        self.defs[name] = v

    def earlier(self, id):
        """The version of an operation that was accepted."""
        sql = "select v, refused from operations where org = ? and account = ? and id = ?"
        found = self.server.one(sql, self.org, self.account, id)
        if found is None or found[1]:
            raise Fault("order_held", "C", "the earlier operation was refused, or is not known")
        return found[0]

    def earlier_number(self, id, tree):
        """The number that an operation has in a tree. No version is at most -1."""
        packed, = self.server.one("select result from operations where org = ? and account = ? and id = ?", self.org, self.account, id)
        if packed is None:
            raise Fault("order_held", "C", "its numbers are too old")
        trees = msgpack.unpackb(packed)["ok"].get("trees", [])
        return next((n for name, parent, n in trees if (name, parent) == tree), -1)

    def expect(self, cls, pk, expected):
        if expected is None:
            return
        old = self.document(cls, pk)
        is_gone = old is None or old["deleted"]
        if isinstance(expected, dict):
            v = self.earlier(expected["op"])
            if cls.is_numbered:
                v = self.earlier_number(expected["op"], cls.tree(pk, old["links"]) if old else None)
            holds = (old is not None and old["v"] <= v) or (v == 0 and is_gone)
        else:
            holds = is_gone if expected == 0 else old is not None and old["v"] == expected
        if not holds:
            doc = old["row"] if old else {"pk": pk, "v": 0, "deleted": True}
            raise Fault("version_conflict", "A", "the document has another version", phase=1, doc=doc)

    def put(self, cls, pk, given):
        data = {"release": cls.release, **given}
        cls.check(data)
        old, links = self.document(cls, pk), cls.links(data)
        before = old["links"] if old else set()
        if cls.parent:
            self.living(cls.parent, min(links).split("@")[1])
        if old and not old["deleted"]:
            if canonical(old["data"]) == canonical(data):
                return self.keep(cls, cls.tree(pk, links), old["v"])
            if cls.fixed(before) != cls.fixed(links):
                raise Fault("immutable_key", "A", "a collection is not mutable", phase=1)
        self.take_values(cls, pk, data)
        tree = cls.tree(pk, links)
        v = self.version_in(cls, tree)
        if old is None or old["deleted"]:
            self.created(cls, tree, v)
        for link in before - links:
            self.member(cls, link, pk, v, "left")
        for link in links:
            self.member(cls, link, pk, v, "alive")
        self.store(cls, pk, v, False, links, data)

    def take_values(self, cls, pk, data):
        self.db.execute("delete from uniques where org = ? and class = ? and pk = ?", (self.org, cls.name, pk))
        for index in cls.indexes:
            name, value = index["property"], data.get(index["property"])
            if not index.get("unique") or value is None:
                continue
            text = json.dumps(value)
            holders = self.db.execute("select org from uniques where class = ? and property = ? and value = ?", (cls.name, name, text))
            if any(org == self.org or index.get("global") for org, in holders.fetchall()):
                raise Fault("not_unique", "A", f"the index {name} is unique", phase=1)
            self.db.execute("insert into uniques values (?, ?, ?, ?, ?)", (cls.name, name, text, self.org, pk))

    def delete(self, cls, pk, old):
        self.take_values(cls, pk, {})
        tree = cls.tree(pk, old["links"])
        v = self.version_in(cls, tree)
        for link in old["links"]:
            self.member(cls, link, pk, v, "deleted")
        if cls.sync:
            self.store(cls, pk, v, True, old["links"], {name: old["data"][name] for name in cls.key})
            if cls.parent:
                self.set_tree(tree, items=self.tree(tree).items - 1)
            return self.end_items(cls, pk, v) if cls.items else None
        for link in old["links"]:
            self.db.execute("delete from members where org = ? and def = ? and pk = ?", (self.org, f"{cls.name}/{link}", pk))
        self.db.execute("delete from documents where org = ? and class = ? and pk = ?", (self.org, cls.name, pk))
        self.wrote(cls, pk, v)


# ---- Requests ----


def check_request(message):
    if not isinstance(message, dict) or not is_count(message.get("p")):
        raise malformed("p is no number")
    if message["p"] != 1:
        raise Fault("wrong_protocol", "D", "this server speaks protocol 1")
    session, epoch, ops, subs = message.get("session"), message.get("epoch"), message.get("ops", []), message.get("subs", [])
    if not is_text(session) or not isinstance(ops, list) or not isinstance(subs, list):
        raise malformed("session, ops or subs")
    if epoch is not None:
        if not isinstance(epoch, list) or len(epoch) != 2 or not is_count(epoch[0]) or not isinstance(epoch[1], str) or len(epoch[1].encode()) > 1024:
            raise malformed("epoch")
    if len(ops) > 500 or len(subs) > 1000:
        raise Fault("too_large", "A", "more than 500 operations, or than 1,000 subscriptions", 413)
    for op in ops:
        is_good = isinstance(op, dict) and is_text(op.get("id")) and is_text(op.get("name")) and "args" in op
        if not is_good or not is_count(op.get("seq"), 1) or not is_count(op.get("at")) or ("after" in op and not is_text(op["after"])):
            raise malformed("an operation")
        normal(op["args"])
    for sub in subs:
        is_good = isinstance(sub, list) and 2 <= len(sub) <= 3 and is_def(sub[0]) and is_count(sub[1])
        if not is_good or (len(sub) == 3 and not is_text(sub[2])):
            raise malformed("a subscription is a def, a version, and perhaps a cursor")
    return {"session": session, "epoch": epoch, "ops": ops, "subs": subs}


def is_def(value):
    return isinstance(value, str) and DEF.fullmatch(value) is not None


def read_path(request):
    path = request.rel_url.raw_path.split("/")
    if (len(path) >= 4 and path[-2] == "file") or (len(path) >= 3 and path[-1] == "files"):
        raise Fault("not_supported", "A", "there are no files", 501)
    if len(path) < 3 or path[-1] not in ("sync", "live"):
        raise Fault("not_found", "N", "no such path", 404)
    org = unquote(path[-2], errors="replace")
    if not ORG.fullmatch(org):
        raise Fault("unknown_org", "N", "no name of an org", 404)
    return org, path[-1]


def headers_for(request):
    """This server lets pages of any origin call. Without the exposed header they cannot read Retry-After."""
    return {
        "Cache-Control": "no-store",
        "Access-Control-Allow-Origin": request.headers.get("Origin", "*"),
        "Access-Control-Expose-Headers": "Retry-After",
        "Vary": "Origin",
    }


def preflight(request):
    headers = {
        **headers_for(request),
        "Access-Control-Allow-Methods": "POST, GET",
        "Access-Control-Allow-Headers": "Authorization, Content-Type",
        "Access-Control-Max-Age": "600",
    }
    if "Access-Control-Request-Private-Network" in request.headers:
        headers["Access-Control-Allow-Private-Network"] = "true"
    return web.Response(status=204, headers=headers)


async def read_body(request):
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise Fault("too_large", "A", "the body has more than 4 MiB", 413)


async def handle(server, request):
    if request.method == "OPTIONS":
        return preflight(request)
    form, status = request.headers.get("Content-Type", "").split(";")[0].strip().lower(), 200
    try:
        org, endpoint = read_path(request)
        if endpoint == "live":
            if not web.WebSocketResponse().can_prepare(request).ok:
                raise malformed("a socket is opened by an upgrade")
            return await Socket(server, org).serve(request)
        if request.method != "POST":
            raise Fault("not_found", "N", "the method is POST", 405)
        bearer = re.fullmatch("Bearer (.+)", request.headers.get("Authorization", ""))
        account, may_write = server.admit(bearer and bearer[1], org)
        if form not in FORMS:
            raise malformed("the Content-Type is neither msgpack nor JSON")
        message = check_request(decode(form, await read_body(request)))
        reply = server.sync(org, account, may_write, message)
    except (Fault, Unreadable) as error:
        fault = unreadable(error) if isinstance(error, Unreadable) else error
        status, reply = fault.status, fault.value()
    headers = {**headers_for(request), "Content-Type": form if form in FORMS else "application/json"}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return web.Response(status=status, headers=headers, body=FORMS[headers["Content-Type"]][1](reply))


# ---- Sockets ----


class Socket:
    """One socket. Everything that it sends goes through one queue, so that frames keep their order."""

    def __init__(self, server, org):
        self.server, self.org, self.token, self.form = server, org, None, None
        self.defs, self.outgoing = set(), asyncio.Queue()
        self.web = web.WebSocketResponse(max_msg_size=MIB, compress=False)

    def hear(self, org, defs):
        hints = [[name, defs[name]] for name in sorted(defs.keys() & self.defs)] if org == self.org else []
        if hints:
            self.outgoing.put_nowait({"hints": hints})

    async def serve(self, request):
        await self.web.prepare(request)
        request.app["sockets"].add(self)
        self.server.listeners.add(self.hear)
        sender = asyncio.create_task(self.send_all())
        try:
            message = await self.web.receive(timeout=10)
            while message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                self.take(message)
                message = await self.web.receive()
        except TimeoutError:
            await self.web.close(code=1008, message=b"timeout")
        except Fault as fault:
            await self.close(fault)
        except Unreadable as mistake:
            await self.close(unreadable(mistake))
        finally:
            sender.cancel()
            self.server.listeners.discard(self.hear)
            request.app["sockets"].discard(self)
        return self.web

    def take(self, message):
        self.form = "application/json" if message.type == WSMsgType.TEXT else "application/msgpack"
        body = message.data.encode() if message.type == WSMsgType.TEXT else message.data
        found = decode(self.form, body)
        if not isinstance(found, dict):
            raise malformed("a message is a map")
        self.token = found.get("token", self.token)
        self.server.admit(self.token, self.org)
        session, subs = found.get("session"), found.get("subs")
        if not is_text(session) or not isinstance(subs, list) or not all(is_def(name) for name in subs):
            raise malformed("session or subs")
        if len(subs) > 1000:
            raise Fault("too_large", "A", "more than 1,000 subscriptions")
        live = [name for name in subs if self.server.exists(DEF.fullmatch(name))]
        fault = Fault("unknown_def", "N", "no such class or collection").value()
        refused = [[name, fault] for name in subs if name not in set(live)]
        self.defs = set(live)
        head = {"epoch": self.server.epoch(), "highest": self.server.meta("highest")}
        self.outgoing.put_nowait({"live": live, **({"refused": refused} if refused else {}), **head})

    async def send_all(self):
        """Sends hints as they come, and a sign of life. A token may be withdrawn: it is checked before each of them."""
        beat = 0
        while True:
            try:
                message = await asyncio.wait_for(self.outgoing.get(), 2)
            except TimeoutError:
                beat, message = beat + 1, {}
            try:
                if self.form:
                    self.server.admit(self.token, self.org)
                if self.form and (message or beat % 4 == 0):
                    encoded = FORMS[self.form][1](message)
                    await (self.web.send_str(encoded.decode()) if self.form.endswith("json") else self.web.send_bytes(encoded))
            except Fault as fault:
                return await self.close(fault)
            except ConnectionError:
                return

    async def close(self, fault):
        await self.web.close(code=4401 if fault.kind == "S" else 1008, message=fault.code.encode())


# ---- Start ----


async def run(options):
    server = Server(options)
    app = web.Application(client_max_size=4 * MIB)
    app["sockets"] = set()
    app.router.add_route("*", "/{path:.*}", lambda request: handle(server, request))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", options.port).start()
    print(f"listening on http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    stopping = asyncio.Event()
    for name in signal.SIGTERM, signal.SIGINT:
        asyncio.get_running_loop().add_signal_handler(name, stopping.set)
    while not stopping.is_set():
        try:
            await asyncio.wait_for(stopping.wait(), 60)
        except TimeoutError:
            server.purge()
    await asyncio.gather(*(socket.web.close(code=1012, message=b"stopping") for socket in list(app["sockets"])))
    await runner.cleanup()


def main():
    parser = argparse.ArgumentParser(description="A server of the Escale protocol.")
    parser.add_argument("--schema", required=True)
    parser.add_argument("--port", type=int, default=7700)
    parser.add_argument("--data")
    parser.add_argument("--tokens")
    parser.add_argument("--retention-ms", type=int, default=365 * 86_400_000)
    parser.add_argument("--results-ms", type=int, default=90 * 86_400_000)
    parser.add_argument("--page-bytes", type=int, default=MIB)
    parser.add_argument("--clock-offset-ms", type=int, default=0)
    parser.add_argument("--renew-epoch", action="store_true")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
