import { show } from "./page.js";

show(async () => {
  const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  const seen = await new Promise((resolve) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = ({ message }) => resolve({ message: `the worker did not start: ${message}` });
  });
  return { worker: seen };
});
