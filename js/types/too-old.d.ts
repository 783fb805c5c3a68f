// The types for TypeScript before 5.3, which would infer wrong types of documents in silence. Each use is an error that
// says so.

/** Escale needs TypeScript 5.3 or later. */
export interface EscaleNeedsTypeScript53OrLater {
  readonly "Escale needs TypeScript 5.3 or later": unique symbol;
}
export declare const defineOperations: EscaleNeedsTypeScript53OrLater;
export declare const defineSchema: EscaleNeedsTypeScript53OrLater;
export declare const init: EscaleNeedsTypeScript53OrLater;
export declare const open: EscaleNeedsTypeScript53OrLater;
export declare const rehearsal: EscaleNeedsTypeScript53OrLater;
export declare const wipe: EscaleNeedsTypeScript53OrLater;
