import { advice } from "escale/advice";
import { useEffect, useState } from "react";

import { leave } from "./account";
import { EscaleProvider, useStatus } from "./hooks";
import { PageState } from "./PageState";
import type { AppSession } from "./session";
import { SignIn } from "./SignIn";
import { Todos } from "./Todos";

interface Entered {
  session: AppSession;
  login: string;
}

export function App() {
  const [entered, setEntered] = useState<Entered>();
  const [notice, setNotice] = useState("");

  // This tab, another one or the server may end the session.
  useEffect(
    () =>
      entered?.session.status.subscribe(({ reason }) => {
        if (!reason) return;
        setEntered(undefined);
        setNotice(reason === "wiped" ? "Everything was removed from this device." : reason === "locked" ? "Locked." : "Please sign in again.");
      }),
    [entered],
  );

  return (
    <>
      {entered ? (
        <EscaleProvider session={entered.session}>
          <Account {...entered} />
          <Todos />
        </EscaleProvider>
      ) : (
        <SignIn notice={notice} onEnter={(session, login) => setEntered({ session, login })} />
      )}
      <PageState />
    </>
  );
}

/** The two ways out: a lock keeps the sealed data on the device, and leaving removes it. */
function Account({ session, login }: Entered) {
  const status = useStatus();
  const [error, setError] = useState<unknown>();
  const isUnsaved = (error as { code?: string } | undefined)?.code === "not_saved";

  return (
    <>
      <p className="account">
        <span>
          {login} {session.identity?.role === "read" && "(reads only)"}
        </span>
        <button onClick={() => void session.lock()}>Lock</button>
        <button onClick={() => void leave(session, login, isUnsaved).catch(setError)}>
          {isUnsaved ? "Remove it all the same" : "Remove from this device"}
        </button>
      </p>
      {error !== undefined && <p role="alert">{advice(error)}</p>}
      {status?.error?.code === "passphrase_changed" && <Changed session={session} />}
    </>
  );
}

/** The passphrase was changed on another device: the session works, and waits for the new one. */
function Changed({ session }: { session: AppSession }) {
  const [error, setError] = useState("");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const passphrase = String(new FormData(event.currentTarget).get("passphrase"));
        session.unlock(passphrase).catch((failure: unknown) => setError(advice(failure)));
      }}
    >
      <input name="passphrase" type="password" autoComplete="current-password" aria-label="New passphrase" placeholder="New passphrase" required />
      <button>Go on</button>
      <p role="alert">{error}</p>
    </form>
  );
}
