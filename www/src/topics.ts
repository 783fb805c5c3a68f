/**
 * The topics that a visitor can follow: a section, a tag, or the whole class. They are known before anything is loaded.
 */

import catalogue from "./catalogue.json";

/** A topic to follow. */
export interface Topic {
  kind: "all" | "section" | "tag";
  /** The section or the tag; empty for the whole class. */
  name: string;
}

/** A `match` for the session. */
export type Match = { section: string } | { tags: string } | Record<string, never>;

/** A topic, and the number of packages that Debian counts in it. */
export interface Choice {
  topic: Topic;
  size: number;
}

/** The whole class. */
export const ALL: Topic = { kind: "all", name: "" };

/** The number of packages in all. */
export const TOTAL = catalogue.total;

/** Every section, by name. */
export const SECTIONS: Choice[] = choices("section", catalogue.sections);

/** The most frequent tags, the most frequent first. */
export const TAGS: Choice[] = choices("tag", catalogue.tags);

/** A few good topics to begin with: small, and known to everyone. */
export const SUGGESTIONS: Topic[] = [
  { kind: "section", name: "games" },
  { kind: "section", name: "fonts" },
  { kind: "section", name: "editors" },
  { kind: "tag", name: "works-with::audio" },
];

function choices(kind: "section" | "tag", pairs: readonly (readonly (string | number)[])[]): Choice[] {
  return pairs.map(([name, size]) => ({ topic: { kind, name: String(name) }, size: Number(size) }));
}

/** A topic as a string: equal topics give equal strings. */
export function topicId(topic: Topic): string {
  return topic.kind === "all" ? "all" : `${topic.kind}-${topic.name}`;
}

/** The text shown for a topic. */
export function topicLabel(topic: Topic): string {
  return topic.kind === "all" ? "Everything" : topic.name;
}

/** The match of a topic. */
export function topicMatch(topic: Topic): Match {
  if (topic.kind === "all") return {};
  return topic.kind === "section" ? { section: topic.name } : { tags: topic.name };
}

/** The number of packages that a topic should hold; `undefined` if the catalogue does not list it. */
export function expectedSize(topic: Topic): number | undefined {
  if (topic.kind === "all") return TOTAL;
  const list = topic.kind === "section" ? SECTIONS : TAGS;
  return list.find((choice) => choice.topic.name === topic.name)?.size;
}
