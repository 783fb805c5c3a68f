/** The types of a schema declaration, and the types of documents, keys, matches and queries that follow from it. */

import type { Value } from "./raw.js";

/** The type of a declared property. */
export type PropertyType =
  | "string"
  | "integer"
  | "number"
  | "boolean"
  | "bytes"
  | "string[]"
  | "number[]"
  | "boolean[]"
  | "any"
  | "file"
  | "file[]";

/** The words that every value of a property, or every element of it, keeps. */
interface ValueRule {
  /** The only values. */
  readonly enum?: readonly (string | number | boolean)[];
  /** Of numbers. */
  readonly minimum?: number;
  readonly maximum?: number;
  /** Of strings, in Unicode characters. */
  readonly minLength?: number;
  readonly maxLength?: number;
}

/** The long form of a property: its type, and words of JSON Schema that its values keep. The server refuses others. */
export interface PropertyRule extends ValueRule {
  readonly type: PropertyType;
  /** Of lists. */
  readonly maxItems?: number;
  /** Of lists of strings or numbers. */
  readonly items?: ValueRule & { readonly type?: "string" | "number" };
}

/**
 * The type of an index and its queries. `hash`, `boolean`: equality; `string`, `integer`, `number`: equality and order;
 * `string[]`: contains.
 */
export type IndexType = "hash" | "string" | "integer" | "number" | "string[]" | "boolean";

/** A collection: the documents that have a given value in their key properties. */
export interface CollectionDeclaration {
  readonly key: readonly string[];
  /** The property is a list. A document is then a member once for each element. */
  readonly list?: boolean;
  /** A write may change the property. */
  readonly mutable?: boolean;
}

/** The long form of an index, if a type alone does not say everything. */
export interface IndexLong {
  readonly type: IndexType;
  /** The indexed property; by default the one with the index's name. */
  readonly property?: string;
  readonly global?: boolean;
  readonly unique?: boolean;
}

/** A class of documents. */
export interface ClassDeclaration {
  /** The properties that name a document; each holds a string. */
  readonly key: readonly [string, ...string[]];
  readonly sync?: boolean;
  /** The number of the data's structure; the default is 1. */
  readonly release?: number;
  readonly collections?: { readonly [name: string]: CollectionDeclaration };
  readonly indexes?: { readonly [name: string]: IndexType | IndexLong };
  /**
   * Types of properties, and rules that their values keep. If present, TypeScript knows documents to have no other
   * properties.
   */
  readonly properties?: { readonly [name: string]: PropertyType | PropertyRule };
  /** The properties that each document has. TypeScript knows all others, but the key, to be optional. */
  readonly required?: readonly string[];
  /** With `false`, documents have declared properties alone. */
  readonly additionalProperties?: boolean;
  /**
   * The unit of versions. With `"sequence"`, each document with its items counts its own: 1, 2, 3 and so on. Sessions
   * subscribe to such a class by document only. The classes that are `in` it have the same clock.
   */
  readonly clock?: "time" | "sequence";
  /** The class that each document belongs to: its key begins with the key of a document of that class. */
  readonly in?: string;
  /** A document holds its key and the bytes of `raw` alone. */
  readonly raw?: true;
  /** Only this device has the documents: no session sends them, and no server takes them. */
  readonly local?: true;
  /** The property by whose values the server counts documents and bytes (quotas). */
  readonly quota?: { readonly by: string };
  /** The level of restriction up to which accounts go on using the class. */
  readonly exempt?: 1 | 2;
  /** Who reads, creates, updates and deletes documents; without a word, every account of the org. The server decides. */
  readonly rights?: { readonly [right in "read" | "create" | "update" | "delete"]?: Rule };
}

/** A condition for a right: see docs/guides/rights.md. */
export type Rule =
  | "org"
  | "admin"
  | "none"
  | "parent"
  | { readonly own: string }
  | { readonly unset: string }
  | {
      readonly in: string;
      readonly by: string;
      readonly where?: { readonly [property: string]: readonly (string | number | boolean | null)[] };
    }
  | { readonly all: readonly Rule[] }
  | readonly Rule[];

/** The classes of an application: a JSON object, equal to the server's schema file. */
export interface SchemaDeclaration {
  readonly [className: string]: ClassDeclaration;
}

/** A schema without any word that {@link ClassDeclaration} does not know: a misspelt word is a type error. */
export type Exact<S> = {
  readonly [C in keyof S]: S[C] & { readonly [K in Exclude<keyof S[C], keyof ClassDeclaration>]: never };
};

/** The names of the classes of a schema. */
export type ClassName<S extends SchemaDeclaration> = keyof S & string;

/** A reference to a file: its bytes are not in the document. */
export interface FileRef {
  /** The name of the file's bytes: of their SHA-256, or of that of the digests of its chunks. */
  readonly sha: string;
  /** Its bytes. */
  readonly size: number;
  readonly type?: string;
  readonly name?: string;
  /** A digest of the whole, for the application's own use. */
  readonly digest?: string;
}

interface Held {
  string: string;
  integer: number;
  number: number;
  boolean: boolean;
  bytes: Uint8Array;
  "string[]": readonly string[];
  "number[]": readonly number[];
  "boolean[]": readonly boolean[];
  any: Value;
  file: FileRef;
  "file[]": readonly FileRef[];
}

type Collections<D extends ClassDeclaration> = D extends { readonly collections: infer C } ? C : object;
type Indexes<D extends ClassDeclaration> = D extends { readonly indexes: infer I } ? I : object;
type Properties<D extends ClassDeclaration> = D extends { readonly properties: infer P } ? P : object;

type KeyProperty<D extends ClassDeclaration> = D["key"][number];
type Declared<D extends ClassDeclaration> = Exclude<keyof Properties<D> & string, KeyProperty<D>>;

type CollectionProperty<C, List extends boolean> = {
  [N in keyof C]: C[N] extends { readonly key: readonly (infer P extends string)[] }
    ? C[N] extends { readonly list: true }
      ? List extends true
        ? P
        : never
      : List extends true
        ? never
        : P
    : never;
}[keyof C];

type TypeOfIndex<I> = I extends { readonly type: infer T } ? T : I;

type IndexProperty<I, Type extends IndexType> = {
  [N in keyof I]: TypeOfIndex<I[N]> extends Type
    ? I[N] extends { readonly property: infer P extends string }
      ? P
      : N & string
    : never;
}[keyof I];

type ListProperty<D extends ClassDeclaration> = Exclude<
  CollectionProperty<Collections<D>, true> | IndexProperty<Indexes<D>, "string[]">,
  KeyProperty<D> | Declared<D>
>;
type NumberProperty<D extends ClassDeclaration> = Exclude<
  IndexProperty<Indexes<D>, "integer" | "number">,
  KeyProperty<D> | Declared<D> | ListProperty<D>
>;
type BooleanProperty<D extends ClassDeclaration> = Exclude<
  IndexProperty<Indexes<D>, "boolean">,
  KeyProperty<D> | Declared<D> | ListProperty<D> | NumberProperty<D>
>;
type StringProperty<D extends ClassDeclaration> = Exclude<
  CollectionProperty<Collections<D>, false> | IndexProperty<Indexes<D>, "hash" | "string">,
  Declared<D> | ListProperty<D> | NumberProperty<D> | BooleanProperty<D>
>;

type Flat<T> = { readonly [K in keyof T]: T[K] };

type TypeOfProperty<P> = P extends { readonly enum: readonly (infer E)[] }
  ? E
  : P extends { readonly type: infer T extends keyof Held }
  ? Held[T]
  : P extends keyof Held
  ? Held[P]
  : Value;

/** The properties that each document of a class has. */
export type RequiredProperty<D extends ClassDeclaration> =
  | KeyProperty<D>
  | (D extends { readonly required: readonly (infer R extends string)[] } ? R : never);

/** All but these properties are optional. */
type Needing<T, R> = Flat<{ [K in keyof T as K extends R ? K : never]: T[K] } & { [K in keyof T as K extends R ? never : K]?: T[K] | undefined }>;

type Known<D extends ClassDeclaration> = Needing<
  Record<KeyProperty<D> | StringProperty<D>, string> &
    Record<NumberProperty<D>, number> &
    Record<BooleanProperty<D>, boolean> &
    Record<ListProperty<D>, readonly string[]> & { [P in Declared<D>]: TypeOfProperty<Properties<D>[P]> },
  RequiredProperty<D>
>;

/** A document of a declared class. TypeScript trusts the schema: documents are checked when they are written, not when read. */
export type DocumentOf<D extends ClassDeclaration> = D extends { readonly raw: true }
  ? Flat<Record<KeyProperty<D>, string> & { raw: Uint8Array }>
  : D extends { readonly properties: object }
  ? Known<D>
  : Open<Known<D> & { readonly [other: string]: unknown }>;

/** Undeclared properties hold any value. Intersecting with `Value` at once would spoil the declared ones. */
type Open<T> = { readonly [K in keyof T]: unknown extends T[K] ? Value | undefined : T[K] };

/** The key of a document: the values of its key properties, in the order of the declaration. */
export type KeyOf<D extends ClassDeclaration> = StringFor<D["key"]>;

type StringFor<Names extends readonly string[]> = { readonly [I in keyof Names]: string };

type CollectionMatch<C> = {
  [N in keyof C]: C[N] extends { readonly key: readonly (infer P extends string)[] }
    ? { readonly [K in P]: string }
    : never;
}[keyof C];

/**
 * Selects documents of a class: `{}` all of them, `{ key: [..] }` one, or the properties of a collection its members. Of
 * a class with `in`, the key of a parent selects its items.
 */
export type MatchOf<D extends ClassDeclaration> =
  | { readonly key: KeyOf<D> }
  | (D extends { readonly in: string }
      ? ItemsMatch<D["key"]>
      : { readonly [none: string]: never } | CollectionMatch<Collections<D>>);

/** The key of a parent, by the names of the item's first key properties. Their number is the core's to check. */
type ItemsMatch<Key extends readonly string[]> = Key extends readonly [...infer Rest extends readonly string[], infer Last extends string]
  ? { readonly [K in Rest[number] | Last]: string } | (Rest extends readonly [] ? never : ItemsMatch<Rest>)
  : never;

/** The names of the indexes of a class. */
export type IndexName<D extends ClassDeclaration> = keyof Indexes<D> & string;

interface Comparison {
  hash: ["==" | "in", string];
  string: ["==" | "<" | "<=" | ">" | ">=" | "startsWith" | "in", string];
  integer: ["==" | "<" | "<=" | ">" | ">=", number];
  number: ["==" | "<" | "<=" | ">" | ">=", number];
  "string[]": ["contains", string];
  boolean: ["==", boolean];
}

type ComparisonOf<D extends ClassDeclaration, I extends IndexName<D>> =
  TypeOfIndex<Indexes<D>[I]> extends keyof Comparison ? Comparison[TypeOfIndex<Indexes<D>[I]>] : never;

/** The operators of an index. */
export type OperatorOf<D extends ClassDeclaration, I extends IndexName<D>> = ComparisonOf<D, I>[0];

/** The type that an index compares with: `in` takes a list. */
export type OperandOf<D extends ClassDeclaration, I extends IndexName<D>, O = unknown> = O extends "in"
  ? readonly ComparisonOf<D, I>[1][]
  : ComparisonOf<D, I>[1];

/** The data of a document of an older release, as a migration takes and returns it. */
export type MigratedData = Record<string, unknown>;

/** Converts data of the previous release to this one. It may change its argument, or return another map. */
export type Migration = (data: MigratedData) => MigratedData;

/** Migrations by class; each is listed under the release that it leads to. */
export type Migrations<S> = { readonly [C in keyof S]?: { readonly [release: number]: Migration } };
