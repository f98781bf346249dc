import { clock } from "./times.js";

/**
 * The text, line by line, each with its time; sends `hear` with the second from which somebody wants to hear.
 *
 * One line is in the tab order; the arrow keys go from line to line and from word to word.
 */
export class Transcript extends EventTarget {
  constructor(list) {
    super();
    this.list = list;
    list.addEventListener("click", (event) => this.#click(event));
    list.addEventListener("keydown", (event) => this.#key(event));
    list.addEventListener("focusin", (event) => this.#enter(event.target.closest("li")));
    this.clear();
  }

  clear() {
    this.segments = [];
    this.lines = [];
    this.words = []; // {start, end, element}, in order; a whole line where the server told no words
    this.word = null;
    this.list.replaceChildren();
  }

  add(segment) {
    const line = document.createElement("li");
    const time = document.createElement("button");
    time.type = "button";
    time.className = "time";
    time.textContent = clock(segment.start);
    time.setAttribute("aria-label", `Play from ${clock(segment.start)}`);
    time.tabIndex = this.lines.length ? -1 : 0;
    const text = document.createElement("p");
    this.words.push(...spelt(segment, text));
    line.append(time, text);
    line.dataset.start = segment.start;
    this.lines.push(line);
    this.segments.push(segment);
    this.list.append(line);
  }

  /** Mark the word that is heard at a time. */
  mark(seconds) {
    const index = this.words.findLastIndex((word) => word.start <= seconds + 0.001);
    const word = index >= 0 && seconds < this.#heardUntil(index) ? this.words[index] : null;
    if (word === this.word) return;
    const [from, to] = [lineOf(this.word), lineOf(word)];
    this.word?.element.classList.remove("heard");
    word?.element.classList.add("heard");
    this.word = word;
    if (from === to) return;
    // Whoever has scrolled away reads something else.
    const follows = !from || inView(from);
    from?.removeAttribute("aria-current");
    to?.setAttribute("aria-current", "true");
    if (to && follows) to.scrollIntoView({ block: "nearest" });
  }

  /** A word stays marked through a short pause, so that the mark does not flicker. */
  #heardUntil(index) {
    const [word, next] = [this.words[index], this.words[index + 1]];
    return Math.max(word.end, Math.min(next?.start ?? word.end, word.end + 0.6)) + 0.05;
  }

  #click(event) {
    if (!getSelection().isCollapsed) return; // text was marked, to be copied
    const word = event.target.closest("[data-start]");
    if (word) this.#hear(Number(word.dataset.start));
  }

  #key(event) {
    const line = event.target.closest("li");
    if (event.altKey || event.ctrlKey || event.metaKey || !line) return;
    const at = this.lines.indexOf(line);
    const lines = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: this.lines.length - 1 };
    const words = { ArrowRight: 1, ArrowLeft: -1 };
    if (event.key in lines) this.lines[lines[event.key]]?.querySelector("button").focus();
    else if (event.key in words) this.#stride(words[event.key], line);
    else return;
    event.preventDefault();
  }

  /** Hear the word after or before the one that is marked, or the first of a line. */
  #stride(by, line) {
    const marked = this.word ? this.words.indexOf(this.word) + by : -1;
    const first = this.words.findIndex(({ element }) => lineOf({ element }) === line);
    const word = this.words[marked >= 0 ? marked : first];
    if (!word) return;
    lineOf(word).querySelector("button").focus();
    this.#hear(word.start);
  }

  #enter(line) {
    for (const other of this.lines) other.querySelector("button").tabIndex = other === line ? 0 : -1;
  }

  #hear(seconds) {
    this.dispatchEvent(new CustomEvent("hear", { detail: seconds }));
  }
}

/** Write a segment's text, its words each in an element of its own, and tell which they are. */
function spelt(segment, place) {
  const text = segment.text.trim();
  const words = [];
  let at = 0;
  for (const { word, start, end } of segment.words ?? []) {
    const begin = text.indexOf(word, at);
    if (!word || begin < 0) continue;
    const element = document.createElement("span");
    element.textContent = word;
    element.dataset.start = start;
    place.append(text.slice(at, begin), element);
    words.push({ start, end, element });
    at = begin + word.length;
  }
  place.append(text.slice(at));
  return words.length ? words : [{ start: segment.start, end: segment.end, element: place }];
}

function lineOf(word) {
  return word?.element.closest("li") ?? null;
}

function inView(element) {
  const { top, bottom } = element.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}
