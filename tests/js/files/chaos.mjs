// Calls that fail: of the network, of the database, and of the cipher. The k-th one alone, or all from then on: the page
// has ended there.
import { IDBFactory, IDBObjectStore } from "fake-indexeddb";

const CIPHER = ["digest", "encrypt", "decrypt", "sign", "importKey"];
const DATABASE = ["put", "get", "delete", "getKey", "getAllKeys", "clear"];

/** Counts the calls while it is armed, and lets some fail. */
export class Chaos {
  count = 0;
  #at = Infinity;
  #how = "once";
  #isArmed = false;
  #undo = [];

  constructor(t) {
    for (const name of CIPHER) this.#wrap(crypto.subtle, name, (call) => this.#isHit() ? Promise.reject(new DOMException("planted", "OperationError")) : call());
    for (const name of DATABASE) {
      this.#wrap(IDBObjectStore.prototype, name, (call, store) => {
        const isHit = this.#isHit();
        if (isHit && this.#how !== "abort") throw new DOMException("planted", "UnknownError");
        const request = call();
        if (isHit) store.transaction.abort();
        return request;
      });
    }
    this.#wrap(IDBFactory.prototype, "open", (call) => {
      if (this.#isHit()) throw new DOMException("planted", "UnknownError");
      return call();
    });
    this.#wrap(globalThis, "fetch", async (call) => {
      const isHit = this.#isHit();
      if (isHit && this.#how !== "abort") throw new TypeError("planted");
      const response = await call();
      // The request arrived, and its answer is lost.
      if (isHit) throw new TypeError("planted");
      return response;
    });
    t.after(() => this.#undo.forEach((undo) => undo()));
  }

  /** From now on: `once`, `abort` (once, after its effect), or `dead`. */
  arm(at, how) {
    [this.count, this.#at, this.#how, this.#isArmed] = [0, at, how, true];
  }

  disarm() {
    this.#isArmed = false;
  }

  /** Whether a call has failed. */
  get isHit() {
    return this.count > this.#at;
  }

  #isHit() {
    if (!this.#isArmed) return false;
    const place = this.count++;
    return this.#how === "dead" ? place >= this.#at : place === this.#at;
  }

  #wrap(target, name, wrapped) {
    const own = Object.getOwnPropertyDescriptor(target, name);
    const original = target[name];
    const value = function (...args) {
      return wrapped(() => original.apply(this, args), this);
    };
    Object.defineProperty(target, name, { value, configurable: true, writable: true });
    this.#undo.push(() => (own ? Object.defineProperty(target, name, own) : delete target[name]));
  }
}
