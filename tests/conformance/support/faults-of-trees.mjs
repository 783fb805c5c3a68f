// Faults about trees, planted in the server of examples/servers/node as those of faults.mjs are.

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
  "items outlive their parent": ["items.end-with-parent", (server) => (server.tree = () => ({ floor: 0, items: 0 }))],
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
  "the end of a parent is hinted at itself only": ["items.hints", (server) => {
    const { commit } = server;
    server.commit = (write) => {
      if ([...write.defs].some((def) => def.startsWith("Page@"))) for (const def of write.defs) if (def.includes("/in@")) write.defs.delete(def);
      commit.call(server, write);
    };
  }],
  "a parent has an end": ["items.max-life", puts(({ args, cls }) => {
    if (cls?.items.length) return { ...args, data: { ...args.data, maxLife: undefined } };
  })],
  "a raw item has other properties": ["items.raw", (server) => (server.classes.get("Scan").raw = false)],
  "a parent has any number of items": ["items.too-many", puts(({ write }) => {
    const { setTree } = write;
    write.setTree = (tree, { items, ...change }) => setTree.call(write, tree, change);
  }), { quick: false }],
  "a purge of items moves no horizon": ["items.purged", (server) => {
    const { purge } = server;
    server.purge = () => {
      purge.call(server);
      server.db.put("meta", "horizon", 0);
    };
  }],
  "a floor is never told": ["histories.of-items", answers((part) => delete part.floor), { histories: "4", steps: "80" }],
  "a parent has a floor": ["watch.floor", answers((part) => {
    if (part.def.startsWith("Page@")) part.floor = 1;
  }), { only: "items.neighbours,watch" }],
};
