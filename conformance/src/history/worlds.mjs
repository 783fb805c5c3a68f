// The documents that a random history writes, and the defs that it compares in the end.
import { inBox, keyOf, note, ofKind, shaS, tagged } from "../names.mjs";

const BOXES = ["in", "out"];
const TAGS = ["red", "blue"];

/** A write of one kind, with its operation. A patch changes the properties in `set`. */
function writeOf(kind, className, data, set = { n: data.n }) {
  const key = keyOf(className, data);
  if (kind === "put") return { kind, className, key, data, op: { name: "doc.put", args: { class: className, data } } };
  if (kind === "delete") return { kind, className, key, op: { name: "doc.delete", args: { class: className, key } } };
  return { kind, className, key, data: set, op: { name: "doc.patch", args: { class: className, key, set } } };
}

/** Documents that move between collections. */
const notes = {
  defs: ["Note", "Page", ...BOXES.map(inBox), ...TAGS.map(tagged), ofKind("x"), note("1")],
  write({ pick, below }) {
    const className = below(4) ? "Note" : "Page";
    const data = className === "Page" ? { book: pick(["b", "c"]), number: `${below(4)}` } : { id: `${below(6)}` };
    data.n = below(50);
    if (className === "Note") {
      if (below(3)) data.box = pick(BOXES);
      if (below(3)) data.tags = TAGS.filter(() => below(2));
      data.kind = Number(data.id) % 2 ? "x" : "y";
    }
    const set = className === "Note" && below(2) ? { box: pick(BOXES), n: data.n } : { n: data.n };
    return writeOf(pick(["put", "put", "put", "patch", "delete"]), className, data, set);
  },
};

const PAGES = ["0", "1"];

/** Parents that come and go with their items. */
const items = {
  defs: ["Page", ...PAGES.flatMap((page) => {
    const pk = shaS(`b/${page}`);
    return [`Page@${pk}`, `Line/in@${pk}`, `Title/in@${pk}`, `Line@${shaS(`b/${page}/1`)}`];
  })],
  write({ pick, below }) {
    const className = pick(["Page", "Page", "Line", "Line", "Line", "Title"]);
    const page = pick(PAGES);
    const data = className === "Page" ? { book: "b", number: page } : { book: "b", page };
    if (className === "Line") data.number = `${below(4)}`;
    data.n = below(50);
    return writeOf(pick(className === "Page" ? ["put", "put", "delete"] : ["put", "put", "put", "patch", "delete"]), className, data);
  },
};

const ACCOUNTS = ["a", "b"];

/** Trees that count their own versions, and a document next to them that does not. */
const numbers = {
  defs: ["Note", `Meter@${shaS("m")}`, ...ACCOUNTS.flatMap((id) => [`Account@${shaS(id)}`, `Entry/in@${shaS(id)}`, `Owner/in@${shaS(id)}`])],
  write({ pick, below }) {
    const className = pick(["Account", "Account", "Entry", "Entry", "Entry", "Owner", "Meter", "Note"]);
    const id = pick(ACCOUNTS);
    const keys = { Account: { id }, Entry: { account: id, number: `${below(4)}` }, Owner: { account: id }, Meter: { id: "m" }, Note: { id: "1" } };
    const data = { ...keys[className], n: below(50) };
    return writeOf(pick(className === "Account" ? ["put", "put", "delete"] : ["put", "put", "put", "patch", "delete"]), className, data);
  },
};

/** Each world with the parts of the schema language that it needs. */
export const WORLDS = {
  notes: { parts: [], ...notes },
  items: { parts: ["items"], ...items },
  numbers: { parts: ["items", "numbers"], ...numbers },
};
