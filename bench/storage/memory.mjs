// The memory of a browser's processes while some work runs, as the system counts it.
import { readdirSync, readFileSync } from "node:fs";

const EVERY_MS = 25;

const read = (path) => {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // The process has ended.
    return "";
  }
};

/** The processes of the browser on a profile: `{ pid, isPage }`. */
function processesOf(profile) {
  const all = readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map((pid) => {
    const line = read(`/proc/${pid}/cmdline`).replaceAll("\0", " ");
    const parent = read(`/proc/${pid}/stat`).replace(/^.*\) \S /, "").split(" ")[0];
    return { pid, parent, line };
  });
  const found = new Map();
  const take = (process) => {
    if (found.has(process.pid)) return;
    found.set(process.pid, process);
    all.filter(({ parent }) => parent === process.pid).forEach(take);
  };
  all.filter(({ line }) => line.includes(profile)).forEach(take);
  // Chromium's renderers, and Firefox's processes for the content of tabs.
  return [...found.values()].map(({ pid, line }) => ({ pid, isPage: /--type=renderer| tab *$/.test(line) }));
}

/** Bytes that only this process has, and those that it shares with others without a file. */
function bytesOf(pid) {
  const status = read(`/proc/${pid}/status`);
  const of = (name) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1] ?? 0) * 1024;
  return { own: of("RssAnon"), shared: of("RssShmem") };
}

/** Runs some work; gives its result, and the most bytes above the start: of the page's processes, and of all. */
export async function watched(profile, work) {
  const processes = processesOf(profile);
  if (!processes.some(({ isPage }) => isPage)) throw new Error("no process of a page was found");
  const sample = () => {
    const sizes = processes.map(({ pid, isPage }) => ({ isPage, ...bytesOf(pid) }));
    const sum = (taken) => taken.reduce((total, { own }) => total + own, 0);
    return { page: sum(sizes.filter(({ isPage }) => isPage)), all: sum(sizes) };
  };
  const start = sample();
  const most = { ...start };
  const timer = setInterval(() => {
    const now = sample();
    for (const name of Object.keys(most)) most[name] = Math.max(most[name], now[name]);
  }, EVERY_MS);
  try {
    const result = await work();
    return { result, pageMemory: most.page - start.page, allMemory: most.all - start.all };
  } finally {
    clearInterval(timer);
  }
}
