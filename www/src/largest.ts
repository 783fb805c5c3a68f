/**
 * The largest packages, page by page: live queries of the session, ordered by a size.
 *
 * The session answers from its indexes, so only the packages of one page become JavaScript objects. A page begins behind
 * the last package of the page before it, wherever that one is now. Its place among all is the difference of two counts.
 */

import type { Query } from "escale";
import { nextFrame } from "./dom";
import type { Package, schema } from "./schema";
import type { Session } from "./session";
import { topicId, topicMatch, type Topic } from "./topics";

/** Packages on a page. */
export const PAGE_SIZE = 20;

/** The size that orders the packages. */
export type Measure = "installedSize" | "size";

/** The packages to list, and their order. */
export interface Question {
  measure: Measure;
  /** The smallest size that is listed, in bytes. */
  minimum: number;
  /** The beginning of the names; empty for all. */
  prefix: string;
  /** Only packages of this followed topic. */
  topic: Topic | undefined;
}

/** One page, and its place among all. */
export interface Page {
  question: Question;
  docs: readonly Package[];
  /** The names of packages that changed or came since the same page was last shown. */
  changed: ReadonlySet<string>;
  /** The number of packages on the pages before. */
  before: number;
  /** The number of packages that the question matches. */
  total: number;
  /** The size of the largest of all, in bytes. */
  greatest: number;
}

/** The present list: nothing before the first answer, a page, or an error. */
export interface Listed {
  page: Page | undefined;
  /** Another page or another question is not answered yet; `page` is the one before. */
  waits: boolean;
  error: unknown;
}

type PackageQuery = Query<(typeof schema)["classes"]["Package"]>;
type Stop = () => void;

/** The last answer to each live query; `undefined` before the first one. */
interface Answers {
  docs?: readonly Package[];
  /** The number of packages from this page on. */
  rest?: number;
  total?: number;
  first?: readonly Package[];
}

/** A size of a package in bytes. Debian counts installed sizes in KiB. */
export function bytesOf(doc: Package, measure: Measure): number {
  return measure === "size" ? doc.size : doc.installedSize * 1024;
}

/** The pages of the largest packages. */
export class Largest {
  private question: Question = { measure: "installedSize", minimum: 0, prefix: "", topic: undefined };
  /** The last package of each page before this one. */
  private cursors: Package[] = [];
  private answers: Answers = {};
  private shown: Page | undefined;
  private error: unknown;
  /** The live queries of the question, and those of the page. */
  private readonly stops: { question: Stop[]; page: Stop[] } = { question: [], page: [] };
  private readonly listeners: ((listed: Listed) => void)[] = [];
  /** Whether the shown page answers the present question, from the present cursor. */
  private isSamePage = false;
  private isOpen = false;
  private scheduled = false;

  constructor(private readonly session: Session) {}

  /** Calls back with every new page, and when one is waited for. */
  onList(listener: (listed: Listed) => void): void {
    this.listeners.push(listener);
  }

  /** Begins the live queries. Until `close`, the session keeps their indexes in memory. */
  open(): void {
    if (this.isOpen) return;
    this.isOpen = true;
    this.askAll();
  }

  /** Ends the live queries. The question stays, and the page is the first one again. */
  close(): void {
    this.isOpen = false;
    this.cursors = [];
    this.shown = undefined;
    this.stop();
  }

  /** Changes a part of the question, and goes to the first page. */
  ask(change: Partial<Question>): void {
    const next = { ...this.question, ...change };
    if (isSame(this.question, next)) return;
    this.question = next;
    this.cursors = [];
    this.askAll();
  }

  /** The topic that the question is about. */
  get topic(): Topic | undefined {
    return this.question.topic;
  }

  /** Asks again, after an error. */
  retry(): void {
    this.askAll();
  }

  /** Goes to the next page. False if there is none, or if this one is not answered yet. */
  next(): boolean {
    const { page, waits } = this.listed();
    const last = page?.docs.at(-1);
    if (waits || !page || !last || !hasNext(page)) return false;
    this.cursors.push(last);
    this.askPage();
    return true;
  }

  /** Goes to the page before. False if this is the first one. */
  previous(): boolean {
    if (!this.cursors.pop()) return false;
    this.askPage();
    return true;
  }

  private askAll(): void {
    if (!this.isOpen) return;
    this.stop();
    this.answers = {};
    this.attempt(() => {
      const query = this.query();
      this.stops.question.push(
        query.liveCount((total) => this.take({ total })),
        query.limit(1).live((first) => this.take({ first })),
      );
      this.askPage();
    });
  }

  private askPage(): void {
    if (!this.isOpen) return;
    end(this.stops.page);
    delete this.answers.docs;
    delete this.answers.rest;
    this.isSamePage = false;
    this.attempt(() => {
      const cursor = this.cursors.at(-1);
      const query = cursor ? this.query().after(cursor) : this.query();
      this.stops.page.push(
        query.limit(PAGE_SIZE).live((docs) => this.takeDocs(docs)),
        query.liveCount((rest) => this.take({ rest })),
      );
    });
    this.schedule();
  }

  private takeDocs(docs: readonly Package[]): void {
    // All packages of this page have left, or became smaller: the page before is the last one now.
    if (docs.length === 0 && this.cursors.length > 0) this.previous();
    else this.take({ docs });
  }

  private take(answer: Answers): void {
    Object.assign(this.answers, answer);
    this.schedule();
  }

  private query(): PackageQuery {
    const { measure, minimum, prefix, topic } = this.question;
    let query = this.session.query("Package");
    if (topic) query = query.in(topicMatch(topic));
    if (prefix !== "") query = query.where("name", "startsWith", prefix);
    if (minimum > 0) query = query.where(measure, ">=", measure === "size" ? minimum : Math.ceil(minimum / 1024));
    return query.orderBy(measure, "desc");
  }

  /** An error ends the queries: half of an answer is none. */
  private attempt(task: () => void): void {
    this.error = undefined;
    try {
      task();
    } catch (error) {
      this.stop();
      this.shown = undefined;
      this.error = error;
      this.schedule();
    }
  }

  private stop(): void {
    end(this.stops.question);
    end(this.stops.page);
  }

  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    nextFrame(() => {
      this.scheduled = false;
      if (!this.isOpen) return;
      this.draw();
      const listed = this.listed();
      for (const listener of this.listeners) listener(listed);
    });
  }

  /** Makes the page, once every query is answered. */
  private draw(): void {
    const { docs, rest, total, first } = this.answers;
    if (docs === undefined || rest === undefined || total === undefined || first === undefined) return;
    const { measure } = this.question;
    const known = new Set(this.isSamePage ? this.shown?.docs : docs);
    this.shown = {
      question: this.question,
      docs,
      changed: new Set(docs.filter((doc) => !known.has(doc)).map(({ name }) => name)),
      // Two counts of one burst arrive one after the other: a page never begins before the first package.
      before: Math.max(0, total - rest),
      total,
      greatest: Math.max(0, ...first.map((doc) => bytesOf(doc, measure))),
    };
    this.isSamePage = true;
  }

  private listed(): Listed {
    return { page: this.shown, waits: this.error === undefined && !this.isSamePage, error: this.error };
  }
}

/** Whether there are packages behind a page. */
export function hasNext({ before, docs, total }: Page): boolean {
  return docs.length > 0 && before + docs.length < total;
}

function isSame(a: Question, b: Question): boolean {
  const ids = [a.topic, b.topic].map((topic) => topic && topicId(topic));
  return a.measure === b.measure && a.minimum === b.minimum && a.prefix === b.prefix && ids[0] === ids[1];
}

function end(stops: Stop[]): void {
  for (const stop of stops.splice(0)) stop();
}
