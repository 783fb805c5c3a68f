import { advice } from "escale/advice";
import { useState, type FormEvent } from "react";

import { recover, signIn, signUp } from "./account";
import type { AppSession } from "./session";

type Way = "in" | "up" | "code";
const TITLES: { [way in Way]: string } = { in: "Sign in", up: "Create an account", code: "Use the recovery code" };
const WAYS = Object.keys(TITLES) as Way[];

/** Three ways in: with the passphrase, as a new account, and by the recovery code. */
export function SignIn({ notice, onEnter }: { notice: string; onEnter: (session: AppSession, login: string) => void }) {
  const [way, setWay] = useState<Way>("in");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState("");
  /** The code of a new account, and what goes on once the user has kept it. */
  const [made, setMade] = useState<{ code: string; goOn: () => void }>();

  async function submit(event: FormEvent<HTMLFormElement>) {
    event.preventDefault();
    const entries = new FormData(event.currentTarget);
    const [login = "", passphrase = "", code = ""] = ["login", "passphrase", "code"].map((name) => String(entries.get(name) ?? ""));
    setBusy(true);
    setError("");
    try {
      if (way === "code") await recover(login, code, passphrase);
      const shown = way === "up" ? await signUp(login, passphrase) : "";
      const session = await signIn(login, passphrase);
      if (shown) setMade({ code: shown, goOn: () => onEnter(session, login) });
      else onEnter(session, login);
    } catch (failure) {
      // The cause and the cure, for the developer.
      console.error(failure);
      setError(advice(failure));
    } finally {
      setBusy(false);
    }
  }

  if (made) {
    return (
      <>
        <p>
          Print or copy this recovery code. It is the only way in if the passphrase is forgotten, and it is shown only now:
          <br />
          <code>{made.code}</code>
        </p>
        <button onClick={made.goOn}>I have kept it</button>
      </>
    );
  }
  return (
    <>
      {notice && <p role="status">{notice}</p>}
      <form className="column" onSubmit={(event) => void submit(event)}>
        <input name="login" autoComplete="username" aria-label="Name" placeholder="Name" required />
        {way === "code" && <input name="code" autoComplete="off" aria-label="Recovery code" placeholder="Recovery code" required />}
        <input
          name="passphrase"
          type="password"
          autoComplete={way === "in" ? "current-password" : "new-password"}
          aria-label="Passphrase"
          placeholder={way === "in" ? "Passphrase" : "New passphrase: five random words"}
          required
        />
        <button disabled={isBusy}>{TITLES[way]}</button>
        <p role="alert">{error}</p>
      </form>
      <p className="account">
        {WAYS.filter((other) => other !== way).map((other) => (
          <button key={other} onClick={() => (setWay(other), setError(""))}>
            {TITLES[other]}
          </button>
        ))}
      </p>
    </>
  );
}
