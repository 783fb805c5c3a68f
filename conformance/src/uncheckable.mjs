/** The sections of docs/protocol.md that no check can see from outside, each with the reason. */
export const UNCHECKABLE = {
  restrictions: "a server may have none, and only an administrator of yours can restrict an account of the kit",
  "operations-that-never-succeed": "it needs an operation that fails while it runs, and the built-in ones do not",
  "registered-operations": "it describes the inside of the reference server",
  "the-journal": "it describes the database of the reference server",
  "choices-of-the-reference-server": "another server may choose otherwise",
  "a-server-in-pseudo-code": "it is one server that keeps to the other sections",
};
