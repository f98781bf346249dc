// All that the page says to its server, and what comes back, errors included.

const KEY = "stentor-api-key";

/** Why the server did not do what it was asked: in its own words, or in ours where it has none. */
export class Failure extends Error {
  constructor(message, { status = 0, retryAfterS = null } = {}) {
    super(message);
    Object.assign(this, { status, retryAfterS });
  }
}

/** The API key, for as long as the tab is open. */
export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => sessionStorage.setItem(KEY, value),
};

/** GET some JSON. */
export async function ask(path) {
  let answer;
  try {
    answer = await fetch(path, { headers: credentials(), cache: "no-store" });
  } catch {
    throw new Failure("The server does not answer.");
  }
  if (!answer.ok) throw failureOf(answer.status, await answer.text(), answer.headers.get("retry-after"));
  return answer.json();
}

/**
 * Post a form and get a stream of events. Not `fetch`, which does not tell how far an upload has come.
 *
 * @param {string} path Where to.
 * @param {FormData} form Its fields, `file` last.
 * @param {{signal: AbortSignal, onUpload: (share: number) => void, onEvent: (event: object) => void}} options
 *   `signal` cancels; `onUpload` is told the share that is sent, 1 at the end.
 * @returns {Promise<void>} Rejects with a `Failure`, or with the signal's reason.
 */
export function stream(path, form, { signal, onUpload, onEvent }) {
  return new Promise((resolve, reject) => {
    const call = new XMLHttpRequest();
    const events = new EventReader(onEvent);
    const read = () => {
      if (call.status === 200) events.read(call.responseText);
    };
    call.upload.onprogress = ({ loaded, total }) => onUpload(total ? loaded / total : 0);
    call.upload.onload = () => onUpload(1);
    call.onprogress = read;
    call.onload = () => {
      if (call.status !== 200) {
        reject(failureOf(call.status, call.responseText, call.getResponseHeader("retry-after")));
        return;
      }
      read();
      if (events.failure) reject(events.failure);
      else if (events.done) resolve();
      else reject(new Failure("The answer ended before it was whole."));
    };
    call.onerror = () =>
      reject(new Failure(events.begun ? "The connection broke before the text was whole." : "The server does not answer."));
    call.onabort = () => reject(signal.reason);
    signal.addEventListener("abort", () => call.abort(), { once: true });
    call.open("POST", path);
    for (const [name, value] of Object.entries(credentials())) call.setRequestHeader(name, value);
    call.send(form);
  });
}

/** Reads server-sent events out of a text that grows. */
export class EventReader {
  begun = false;
  done = false;
  failure = null;
  #onEvent;
  #read = 0;

  constructor(onEvent) {
    this.#onEvent = onEvent;
  }

  read(text) {
    for (let end; (end = text.indexOf("\n\n", this.#read)) >= 0; this.#read = end + 2) {
      const block = text.slice(this.#read, end);
      if (!block.startsWith("data: ")) continue; // a comment, which keeps the connection open
      this.begun = true;
      this.#take(block.slice("data: ".length));
    }
  }

  #take(data) {
    if (data === "[DONE]") {
      this.done = true;
      return;
    }
    const event = JSON.parse(data);
    if (event.error) this.failure = new Failure(sentence(event.error.message));
    else this.#onEvent(event);
  }
}

function credentials() {
  return key.get() ? { Authorization: `Bearer ${key.get()}` } : {};
}

function failureOf(status, body, retryAfter) {
  const seconds = Number.parseInt(retryAfter ?? "", 10);
  const retryAfterS = Number.isNaN(seconds) ? null : seconds;
  try {
    return new Failure(sentence(JSON.parse(body).error.message), { status, retryAfterS });
  } catch {
    return new Failure(`The server, or what stands before it, answered with status ${status}.`, { status, retryAfterS });
  }
}

function sentence(text) {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}
