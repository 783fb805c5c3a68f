// Tokens: requests and sockets without the right to enter or to write.
import { check } from "../../check.mjs";
import { uuid } from "../../names.mjs";

const op = () => ({ id: uuid(), seq: 1, name: "doc.put", args: { class: "Note", data: { id: "a" } }, at: 1 });

export const tokens = [
  check("tokens.unauthorized", {
    at: "faults",
    says: "the token is missing or unknown; with `WWW-Authenticate: Bearer`",
    hint: "401 for an unknown token; 403 for one that is known and does not open the org.",
    needs: ["token"],
  }, async (kit) => {
    for (const token of [undefined, "kit-unknown"]) {
      const headers = token === undefined ? { Authorization: undefined } : { Authorization: `Bearer ${token}` };
      const answer = await kit.exchange({ headers, message: { p: 1, session: "s", ops: [op()] } });
      kit.isRefused(answer, 401, "unauthorized");
      kit.expect(/bearer/i.test(answer.headers["www-authenticate"] ?? ""), "WWW-Authenticate: Bearer");
    }
    kit.equal((await kit.session().pull("Note")).present, [], "present");
  }),
  check("tokens.foreign", {
    at: "operations-without-the-right-to-write",
    says: "403 `forbidden` for a *whole request* says that the token does not open the org. The server has then looked at no operation.",
    hint: "403 whether the org exists or not.",
    needs: ["token", "tokenForeign"],
  }, async (kit) => {
    const session = kit.session({ token: kit.options.tokenForeign });
    kit.isRefused(await session.ask({ ops: [op()] }), 403, "forbidden");
    await kit.session().put("Note", { id: "b" });
    kit.isRefused(await session.ask({ ops: [op()] }), 403, "forbidden");
    kit.equal((await kit.session().pull("Note")).present.length, 1, "the number of documents");
  }),
  check("tokens.read-only", {
    at: "operations-without-the-right-to-write",
    says: "By the role it follows from the role again, under any number.",
    hint: "`forbidden` (S) stands in the result; pulls are answered.",
    needs: ["token", "tokenRead"],
  }, async (kit) => {
    const session = kit.session({ token: kit.options.tokenRead });
    const { op, exchange } = await session.refused("forbidden", "doc.put", { class: "Note", data: { id: "a" } });
    kit.equal(exchange.reply.seq, 1, "seq");
    const again = await session.sync({ ops: [op] });
    kit.isFault(again.reply.results[0]?.fault ?? {}, "forbidden", again);
    kit.equal((await session.pull("Note")).present, [], "present");
  }),
  check("tokens.socket", {
    at: "socket",
    says: "the token is missing, unknown, withdrawn, or does not open the org",
    hint: "Close with 4401, not with 1008: the session then asks for another token.",
    needs: ["token"],
  }, async (kit) => {
    for (const token of [undefined, "kit-unknown", ...(kit.options.tokenForeign ? [kit.options.tokenForeign] : [])]) {
      const socket = kit.socket();
      await socket.send({ session: "s", ...(token !== undefined && { token }), subs: ["Note"] });
      const { code } = await socket.closes(5000);
      kit.equal(code, 4401, "the code of the close", socket);
    }
    const socket = kit.socket();
    await socket.subscribe(["Note"]);
    await socket.send({ session: socket.name, subs: ["Page"] });
    const { v } = await kit.session().put("Page", { book: "b", number: "1" });
    await socket.hint("Page", v);
  }),
  check("tokens.withdrawn", {
    at: "socket",
    says: "the token is missing, unknown, withdrawn, or does not open the org",
    hint: "Check the token again before each hint, and every few seconds.",
    needs: ["token", "tokenEnds", "withdraw"],
    isAlone: true,
  }, async (kit) => {
    const token = kit.options.tokenEnds;
    const socket = kit.socket({ token });
    await socket.subscribe(["Note"]);
    await kit.session({ token }).pull("Note");
    await kit.hooks.withdraw();
    await kit.session().put("Note", { id: "a" });
    const { code } = await socket.closes(10_000);
    kit.equal(code, 4401, "the code of the close", socket);
    kit.equal(socket.hintsOf("Note"), [], "hints after the token was withdrawn", socket);
    kit.isRefused(await kit.session({ token }).ask({}), 401, "unauthorized");
  }),
];
