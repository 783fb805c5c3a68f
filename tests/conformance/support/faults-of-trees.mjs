// Faults about trees, planted in the server of examples/servers/node as those of faults.mjs are.
import { Write } from "../../../examples/servers/node/server.mjs";

/** Lets `change` see each write before one of these operations runs in it. */
const writes = (names, change) => (server) => {
  for (const name of names) {
    const run = server.operations[name];
    server.operations[name] = (write, args) => {
      const { class: className } = args ?? {};
      run(write, change({ write, args, cls: server.classes.get(className), server }) ?? args);
    };
  }
};
const puts = (change) => writes(["doc.put"], change);
/** Lets `change` see each part of an answer, with its subscription. */
const answers = (change) => (server) => {
  const { answer } = server;
  server.answer = (org, sub, ...rest) => {
    const part = answer.call(server, org, sub, ...rest);
    if (part && !part.fault) change(part, { org, sub, server });
    return part;
  };
};

/** Lets `change` see the result of each accepted operation before it is kept. */
const results = (change) => writes(["doc.put", "doc.patch", "doc.delete", "batch"], ({ write }) => {
  Object.defineProperty(write, "trees", { configurable: true, get: () => change(Object.getOwnPropertyDescriptor(Write.prototype, "trees").get.call(write), write) });
});

const isItems = ({ def }) => def.includes("/in@");

/** Each fault with the id of the check that finds it. */
export const ITEM_FAULTS = {
  "a class of items can be asked for as a whole": ["items.defs", (server) => {
    const { find } = server;
    server.find = (def) => find.call(server, def) ?? (def === "Line" ? { cls: server.classes.get("Line") } : undefined);
  }],
  "an item needs no parent": ["items.parent-first", puts(({ write, cls }) => {
    if (!cls?.parent) return;
    const { document } = write;
    write.document = (of, pk) => (of.items.length ? { links: [], data: {} } : document.call(write, of, pk));
  })],
  "a long key of an item is cut": ["items.key", puts(({ args, cls }) => {
    if (cls?.parent) return { ...args, data: { ...args.data, number: args.data.number?.slice(0, 255) } };
  })],
  "items outlive their parent": ["items.end-with-parent", (server) => (server.tree = () => ({ floor: 0, items: 0, n: 0, horizon: 0 }))],
  "no floor in a pull from 0": ["items.floor", answers((part, { sub: [, v] }) => {
    if (v === 0) delete part.floor;
  })],
  "a total from below the floor": ["items.counted-from-the-floor", answers((part, { org, server }) => {
    if (isItems(part)) part.total = server.db.table(`members ${org} ${part.def}`).size;
  })],
  "a write finds an item below the floor": ["items.below-the-floor", writes(["doc.put", "doc.patch"], ({ write, cls }) => {
    const { document } = write;
    write.document = (of, pk) => (cls?.parent === undefined || of !== cls ? document.call(write, of, pk) : write.get(`documents ${write.org} ${of.name}`, pk));
  })],
  "an item of the write that deletes its parent stays": ["items.at-the-floor", writes(["doc.delete"], ({ write }) => {
    write.endItems = (cls, pk, tree) => write.setTree(tree, { floor: write.now, items: 0 });
  })],
  "a single item ends at its own version": ["items.single-item", (server) => {
    const { changes } = server;
    server.changes = (org, found) => {
      const all = changes.call(server, org, found);
      if (!found.pk || !found.cls.parent) return all;
      return all.map((one) => ({ ...one, v: server.db.table(`documents ${org} ${found.cls.name}`).get(one.pk).v }));
    };
  }],
  "a floor is told once": ["items.answer-lost", (server) => {
    const told = new Set();
    answers((part, { sub }) => {
      if (told.has(sub.join()) && part.floor) delete part.floor;
      told.add(sub.join());
    })(server);
  }],
  "a tree is divided between replies": ["items.neighbours", (server) => (server.groups = (subs) => subs.map((sub) => [sub]))],
  "a large tree is taken back for ever": ["items.large-tree", (server) => {
    const { answerAll } = server;
    server.answerAll = (org, group, now, room, parts) => {
      const before = parts.length;
      const isWhole = answerAll.call(server, org, group, now, room, parts);
      if (!isWhole && group.length > 1) parts.length = before;
      return isWhole;
    };
  }],
  "a small page cuts a tree": ["items.small-page", (server) => (server.pageBytes = 1_000)],
  "the end of a parent is hinted at itself only": ["items.hints", (server) => {
    const { commit } = server;
    server.commit = (write) => {
      if ([...write.defs.keys()].some((def) => def.startsWith("Page@"))) for (const def of write.defs.keys()) if (def.includes("/in@")) write.defs.delete(def);
      commit.call(server, write);
    };
  }],
  "single items that ended with their parent are not hinted": ["items.single-hints", (server) => {
    const { commit } = server;
    server.commit = (write) => {
      if ([...write.defs.keys()].some((def) => def.startsWith("Page@"))) for (const def of write.defs.keys()) if (def.startsWith("Line@")) write.defs.delete(def);
      commit.call(server, write);
    };
  }],
  "a parent has an end": ["items.max-life", puts(({ args, cls }) => {
    if (cls?.items.length) return { ...args, data: { ...args.data, maxLife: undefined } };
  })],
  "a raw item has other properties": ["items.raw", (server) => (server.classes.get("Scan").raw = false)],
  "a parent has any number of items": ["items.too-many", puts(({ write }) => {
    const { setTree } = write;
    write.setTree = (tree, change) => {
      const kept = { ...change };
      delete kept.items;
      return setTree.call(write, tree, kept);
    };
  }), { quick: false }],
  "a purge of items moves no horizon": ["items.purged", (server) => {
    const { purge } = server;
    server.purge = () => {
      purge.call(server);
      server.db.put("meta", "horizon", 0);
    };
  }],
  "a floor is never told": ["histories.of-items", answers((part) => delete part.floor), { histories: "24", steps: "80" }],
  "a parent has a floor": ["watch.floor", answers((part) => {
    if (part.def.startsWith("Page@")) part.floor = 1;
  }), { only: "items.neighbours,watch" }],
};

/** The same, about the clock `sequence`. */
export const NUMBER_FAULTS = {
  "a single item of a numbered class can be asked for": ["numbers.defs", (server) => {
    const { find } = server;
    server.find = (def) => {
      const found = find.call(server, def);
      return found || !def.startsWith("Entry@") ? found : { cls: server.classes.get("Entry"), pk: def.slice(6) };
    };
  }],
  "each document of a write takes a number": ["numbers.contiguous", writes(["doc.put"], ({ write, cls }) => {
    if (cls?.isNumbered) write.taken.clear();
  })],
  "one counter for all documents of a class": ["numbers.own-tree", writes(["doc.put", "doc.delete"], ({ write }) => {
    const { versionIn } = write;
    write.versionIn = (of, tree) => {
      if (of.name !== "Meter") return versionIn.call(write, of, tree);
      const all = [...write.db.table(`trees ${write.org}`)].filter(([name]) => name.startsWith("Meter "));
      write.setTree(tree, { n: Math.max(0, ...all.map(([, { n }]) => n)) + 1 });
      write.taken.add(tree);
      return write.tree(tree).n;
    };
  })],
  "a put that changes nothing takes a number": ["numbers.no-change", writes(["doc.put"], ({ write }) => {
    write.keep = (cls, tree) => void write.versionIn(cls, tree);
  })],
  "one number for all trees of a write": ["numbers.two-trees", results((trees) => trees.map(([name, pk]) => [name, pk, trees[0][2]]))],
  "a purge forgets the numbers": ["numbers.go-on", (server) => {
    const { purge } = server;
    server.purge = () => {
      purge.call(server);
      for (const [table, rows] of server.db.tables) if (table.startsWith("trees ")) rows.clear();
    };
  }],
  "n is the highest version of the def": ["numbers.n", answers((part) => {
    if (part.n !== undefined) part.n = Math.max(0, ...part.rows.map(({ v }) => v));
  })],
  "changes at the asked number": ["numbers.above", (server) => {
    const { answer } = server;
    server.answer = (org, [def, v, ...cursor], ...rest) => {
      const isNumbered = server.find(def)?.cls.isNumbered;
      return answer.call(server, org, [def, isNumbered && !cursor.length && v > 0 ? v - 1 : v, ...cursor], ...rest);
    };
  }],
  "all pages have the number of the first one": ["numbers.first", (server) => {
    const firsts = new Map();
    answers((part, { sub: [, , cursor] }) => {
      if (part.n !== undefined) part.n = firsts.get(cursor) ?? part.n;
      if (part.next) firsts.set(part.next, part.n);
    })(server);
  }],
  "no number for a tree that stays as it is": ["numbers.results", results((trees, write) => trees.filter(([name, pk]) => write.taken.has(`${name} ${pk}`)))],
  "the result of numbered documents alone is 0": ["numbers.result-alone", (server) => {
    const { sync } = server;
    server.sync = (...args) => {
      const reply = sync.apply(server, args);
      const results = reply.results.map((one) => (one.ok?.trees?.length ? { ...one, ok: { ...one.ok, v: 0 } } : one));
      return { ...reply, results };
    };
  }],
  "a kept result has no numbers": ["numbers.kept-result", (server) => {
    const { commit } = server;
    server.commit = (write) => {
      for (const change of write.changes.values()) {
        const [table, , row] = change;
        if (table.startsWith("operations") && row.result.ok) change[2] = { ...row, result: { ...row.result, ok: { v: row.result.ok.v } } };
      }
      commit.call(server, write);
    };
  }],
  "an operation is compared by its time": ["numbers.if-version", writes(["doc.put", "doc.patch"], ({ args, write }) => {
    const { op } = args.ifVersion ?? {};
    const known = op && write.get(`operations ${write.org}`, `${write.account} ${op}`);
    if (known?.result.ok) return { ...args, ifVersion: undefined };
  })],
  "a forgotten result holds": ["numbers.if-version-forgotten", writes(["doc.patch"], ({ args, write }) => {
    const { op } = args.ifVersion ?? {};
    if (op && !write.get(`operations ${write.org}`, `${write.account} ${op}`)?.result) return { ...args, ifVersion: undefined };
  })],
  "two writes take one number": ["numbers.parallel", writes(["doc.put"], ({ write, cls }) => {
    const { setTree } = write;
    if (cls?.name === "Entry") write.setTree = (tree, { n, ...change }) => setTree.call(write, tree, { ...change, ...(n && { n: n % 5 ? n : n - 1 }) });
  })],
  "each part has a number of its own": ["numbers.one-state", answers((part) => {
    if (part.n !== undefined && isItems(part)) part.n += 1;
  })],
  "hints have the time as their version": ["numbers.hints", (server) => {
    const { commit } = server;
    server.commit = (write) => {
      for (const def of write.defs.keys()) write.defs.set(def, write.now);
      commit.call(server, write);
    };
  }],
  "an item past its life is a row": ["numbers.end-of-a-life", (server) => {
    const { answer } = server;
    server.answer = (org, sub, now, ...rest) => answer.call(server, org, sub, 0, ...rest);
  }],
  "the horizon of a tree is that of its org": ["numbers.purge", (server) => {
    const { purge } = server;
    server.purge = () => {
      purge.call(server);
      for (const [table, rows] of server.db.tables) {
        if (table.startsWith("trees ")) for (const [name, tree] of rows) rows.set(name, { ...tree, horizon: 0 });
      }
    };
  }],
  "a change has the number before": ["histories.of-numbers", (server) => {
    const { answer } = server;
    server.answer = (org, [def, v, ...cursor], ...rest) => {
      const isNumbered = server.find(def)?.cls.isNumbered;
      return answer.call(server, org, [def, isNumbered && !cursor.length && v > 0 ? v + 1 : v, ...cursor], ...rest);
    };
  }, { histories: "24", steps: "80" }],
  "a numbered part has no number": ["watch.number", answers((part) => delete part.n), { only: "numbers.defs,watch" }],
};
