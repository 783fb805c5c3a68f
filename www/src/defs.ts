/**
 * Translates the defs that a session lists back to the topics that this page names.
 *
 * A def holds a hash of the value. So this module hashes every candidate and compares: first the catalogue, then every
 * section and tag of the held documents.
 */

import type { Session } from "./session";
import { ALL, SECTIONS, TAGS, type Topic } from "./topics";

/** base64url of bytes 3 to 19 of the SHA-256 of a text. */
export async function shaS(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  const binary = String.fromCharCode(...new Uint8Array(digest).slice(3, 19));
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** The topics of the defs that the session is subscribed to. A def without a matching topic is left out. */
export async function topicsOf(session: Session): Promise<Map<string, Topic>> {
  const found = new Map<string, Topic>();
  const unknown = new Set(session.subscriptions());
  const take = (def: string, topic: Topic): void => {
    if (unknown.delete(def)) found.set(def, topic);
  };
  take("Package", ALL);
  if (unknown.size === 0) return found;
  for (const { topic } of [...SECTIONS, ...TAGS]) take(await defOf(topic), topic);
  if (unknown.size === 0) return found;
  for (const topic of await topicsHeld(session)) take(await defOf(topic), topic);
  return found;
}

/** The def of a topic that is a collection. */
export async function defOf(topic: Topic): Promise<string> {
  const collection = topic.kind === "section" ? "section" : "tags";
  return `Package/${collection}@${await shaS(topic.name)}`;
}

/** Ends the subscription to a package and its items of a class. Nothing happens if the session is over. */
export async function leaveItems(session: Session, className: "Note" | "Attachment", name: string): Promise<void> {
  const pk = await shaS(name);
  const held = session.status.phase === "closed" ? [] : session.subscriptions();
  for (const def of [`Package@${pk}`, `${className}/in@${pk}`]) if (held.includes(def)) session.unsubscribe(def);
}

async function topicsHeld(session: Session): Promise<Topic[]> {
  const sections = new Set<string>();
  const tags = new Set<string>();
  for (const doc of await session.query("Package").docs()) {
    sections.add(doc.section);
    for (const tag of doc.tags) tags.add(tag);
  }
  return [
    ...[...sections].map((name): Topic => ({ kind: "section", name })),
    ...[...tags].map((name): Topic => ({ kind: "tag", name })),
  ];
}
