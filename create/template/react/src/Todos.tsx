import { advice } from "escale/advice";
import { useState, type FormEvent } from "react";

import { useLive, useRefused, useSession, useStatus } from "./hooks";
import { add, describe, HOME, remove, toggle } from "./session";

export function Todos() {
  const session = useSession();
  const { docs, error } = useLive("Todo", HOME);
  const status = useStatus();
  const [text, setText] = useState("");

  function submit(event: FormEvent) {
    event.preventDefault();
    add(session, text);
    setText("");
  }

  return (
    <>
      <form onSubmit={submit}>
        <input aria-label="New to-do" placeholder="New to-do" required value={text} onChange={(event) => setText(event.target.value)} />
        <button>Add</button>
      </form>
      <ul>
        {docs.map((todo) => (
          <li key={todo.id}>
            <label>
              <input type="checkbox" checked={todo.done} onChange={() => toggle(session, todo)} /> {todo.text}
            </label>
            <button onClick={() => remove(session, todo)}>Delete</button>
          </li>
        ))}
      </ul>
      <Refused />
      <p role="status">{status && describe(status)}</p>
      {error && <p role="alert">{advice(error)}</p>}
    </>
  );
}

/** Writes that the server refused for good wait for the user. */
function Refused() {
  const refused = useRefused();
  return (
    <ul aria-label="Refused by the server">
      {refused.map((operation) => (
        <li key={operation.id}>
          <label>{advice(operation.error)}</label>
          <button onClick={() => void operation.retry()}>Try again</button>
          <button onClick={() => void operation.discard()}>Discard</button>
        </li>
      ))}
    </ul>
  );
}
