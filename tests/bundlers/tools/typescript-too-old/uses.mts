import { open } from "escale";

export const session = open({ org: "demo", mode: "avion", passphrase: "x" });
