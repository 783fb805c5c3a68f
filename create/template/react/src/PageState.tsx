import { advice } from "escale/advice";
import { register, type OfflineState } from "escale/offline";
import { useEffect, useState } from "react";

/** The page itself. The plugin in vite.config.ts has registered the worker in a build. */
export function PageState() {
  const [state, setState] = useState<OfflineState>();
  useEffect(() => (import.meta.env.PROD ? register().status.subscribe(setState) : undefined), []);
  if (!state) return null;
  return (
    <p>
      {state.error ? advice(state.error) : state.ready && "This page opens with no network."}
      {state.update && <button onClick={() => location.reload()}>Load the newer version</button>}
    </p>
  );
}
