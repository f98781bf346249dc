import { ask } from "./server.js";
import { length, pace } from "./times.js";

const PERIOD_MS = 4000;

/** Looks at the server every few seconds while somebody looks at the page; sends `locked`, `known`. */
export class Status extends EventTarget {
  constructor() {
    super();
    this.known = false;
    this.timer = null;
    document.addEventListener("visibilitychange", () => this.look());
  }

  /** Look now, and from time to time from now on. */
  async look() {
    clearTimeout(this.timer);
    if (document.hidden) return;
    try {
      const status = await ask("status");
      this.#show(status);
      if (!this.known) await this.#meet(status);
    } catch (failure) {
      this.#lost(failure);
      if (failure.status === 401) return; // until there is a key
    }
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), PERIOD_MS);
  }

  /** The first time, or again after the server was gone: another one may stand there now. */
  async #meet({ languages, translates }) {
    const { data } = await ask("v1/models");
    write("model", data[0].id);
    this.known = true;
    this.dispatchEvent(new CustomEvent("known", { detail: { model: data[0].id, languages, translates } }));
  }

  #show({ status, requests, queued_audio_s: queuedS, rtfx }) {
    const words = { full: "full", draining: "stopping", dead: "engine dead" };
    write("requests", words[status] ? `${requests}, ${words[status]}` : String(requests));
    write("waiting", queuedS ? `${length(queuedS)} of audio` : "nothing");
    write("speed", rtfx === null ? "–" : pace(rtfx));
  }

  #lost(failure) {
    this.known = false;
    for (const name of ["requests", "waiting", "speed"]) write(name, "–");
    write("model", failure.status === 401 ? "locked" : "no answer");
    if (failure.status === 401) this.dispatchEvent(new CustomEvent("locked", { detail: failure.message }));
  }
}

function write(name, text) {
  const place = document.getElementById(name);
  if (place.textContent !== text) place.textContent = text;
}
