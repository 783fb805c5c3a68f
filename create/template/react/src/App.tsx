import { advice } from "escale/advice";
import { useState, type FormEvent } from "react";

import { EscaleProvider } from "./hooks";
import { PageState } from "./PageState";
import { openSession, type AppSession } from "./session";
import { Todos } from "./Todos";

export function App() {
  const [session, setSession] = useState<AppSession>();
  return (
    <>
      {session ? (
        <EscaleProvider session={session}>
          <Todos />
        </EscaleProvider>
      ) : (
        <Unlock onOpen={setSession} />
      )}
      <PageState />
    </>
  );
}

function Unlock({ onOpen }: { onOpen: (session: AppSession) => void }) {
  const [passphrase, setPassphrase] = useState("");
  const [isOpening, setOpening] = useState(false);
  const [error, setError] = useState("");

  async function open(event: FormEvent) {
    event.preventDefault();
    setOpening(true);
    try {
      onOpen(await openSession(passphrase));
    } catch (failure) {
      // The cause and the cure, for the developer.
      console.error(failure);
      setError(advice(failure));
    } finally {
      setOpening(false);
    }
  }

  return (
    <form onSubmit={(event) => void open(event)}>
      <input
        type="password"
        autoComplete="current-password"
        aria-label="Passphrase"
        placeholder="Passphrase"
        required
        value={passphrase}
        onChange={(event) => setPassphrase(event.target.value)}
      />
      <button disabled={isOpening}>Open</button>
      <p role="alert">{error}</p>
    </form>
  );
}
