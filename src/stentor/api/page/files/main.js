// The page: what stands between a person, a file and the server. Each part is in a module of its own.

import { Player } from "./player.js";
import { Recorder } from "./recorder.js";
import { Failure, key, stream } from "./server.js";
import { Status } from "./status.js";
import { textOf, toJson, toSrt, toVtt } from "./subtitles.js";
import { length, pace } from "./times.js";
import { Transcript } from "./transcript.js";

const part = (id) => document.getElementById(id);

const transcript = new Transcript(part("segments"));
const player = new Player(part("player"));
const recorder = new Recorder(part("record"), part("record-label"));
const status = new Status();

let file = null; // what was chosen
let whole = {}; // what the server said of all of it: task, language, duration
let running = null; // the AbortController of the request under way
let counting = null; // the timer until a full server may be asked again
let model = null;

/** Hear the file that was chosen; whatever was under way is cancelled. */
async function hear() {
  running?.abort();
  const control = (running = new AbortController());
  const began = performance.now();
  transcript.clear();
  whole = { task: part("task").value === "translations" ? "translate" : "transcribe" };
  say("");
  begin();
  try {
    await stream(`v1/audio/${part("task").value}`, formOf(file), {
      signal: control.signal,
      onUpload: (share) => control === running && uploaded(share),
      onEvent: (event) => control === running && take(event),
    });
    if (control === running) end(summary((performance.now() - began) / 1000));
  } catch (failure) {
    if (control !== running) return; // another file took its place
    if (control.signal.aborted) end("Cancelled. The server stops working on it.");
    else fail(failure);
  }
}

function formOf(file) {
  const form = new FormData();
  if (model) form.append("model", model);
  if (part("language").value && part("task").value === "transcriptions") form.append("language", part("language").value);
  if (part("prompt").value.trim()) form.append("prompt", part("prompt").value);
  for (const word of part("keywords").value.split(",")) if (word.trim()) form.append("keywords[]", word.trim());
  if (part("vad").checked) form.append("chunking_strategy", "auto");
  form.append("stream", "true");
  form.append("response_format", "verbose_json");
  form.append("timestamp_granularities[]", "word");
  form.append("file", file); // last: the rest is checked before it comes
  return form;
}

function take(event) {
  if (event.type === "transcript.text.segment") {
    const atEnd = innerHeight + scrollY >= document.body.scrollHeight - 4;
    transcript.add(event);
    heard();
    part("downloads").hidden = false;
    part("keys-hint").hidden = !player.playable;
    if (atEnd) scrollTo(0, document.body.scrollHeight);
  } else if (event.type === "transcript.text.done") {
    const { task, language, duration } = event;
    whole = { task, language, duration };
  }
}

function begin() {
  part("work").hidden = false;
  part("name").textContent = file.name;
  for (const name of ["skip", "player"]) part(name).hidden = false;
  for (const name of ["downloads", "keys-hint"]) part(name).hidden = true;
  swap("again", "cancel");
  wait(0);
  part("state").textContent = "Sending";
  progress(0);
}

function uploaded(share) {
  progress(share);
  if (share === 1) {
    part("state").textContent = "Listening";
    heard();
    status.look();
  }
}

function end(words) {
  running = null;
  part("state").textContent = words;
  part("progress").hidden = true;
  swap("cancel", "again");
  setTimeout(() => status.look(), 300); // the server's books are closed a moment after the answer is
}

function fail(failure) {
  end(transcript.segments.length ? "Broken off. What had come so far stands below." : "");
  part("player").hidden = !transcript.segments.length;
  say(failure.message);
  if (failure.status === 401) unlock();
  else if (failure.retryAfterS) wait(failure.retryAfterS);
  if (!(failure instanceof Failure)) throw failure; // a mistake of ours: into the console as well
}

/** The server has said when to come back: count the seconds down. */
function wait(seconds) {
  clearTimeout(counting);
  part("again").disabled = seconds > 0;
  part("again").textContent = seconds > 0 ? `Again in ${seconds} s` : "Again";
  if (seconds > 0) counting = setTimeout(() => wait(seconds - 1), 1000);
}

/** Put a button where another was, with the focus if that had it. */
function swap(from, to) {
  const focused = document.activeElement === part(from);
  part(to).hidden = false;
  if (focused) part(to).focus();
  part(from).hidden = true;
}

function summary(seconds) {
  if (!transcript.segments.length) return "Nothing was said in it.";
  return `${length(whole.duration)} heard in ${length(seconds)}, ${pace(whole.duration / seconds)}`;
}

/** Show how far the text reaches into the file, whose length the browser may find out after its first words came. */
function heard() {
  const end = transcript.segments.at(-1)?.end;
  progress(end && player.durationS ? end / player.durationS : null);
}

/** Show how far it has come, 0 to 1; null where nobody knows. */
function progress(share) {
  const bar = part("progress");
  bar.hidden = false;
  if (share === null) bar.removeAttribute("value");
  else bar.value = Math.min(100, Math.round(share * 100));
}

function say(words) {
  part("alert").textContent = words;
  if (words) part("alert").scrollIntoView({ block: "nearest" });
}

function choose(chosen) {
  if (!chosen) return;
  file = chosen;
  player.load(file);
  hear();
}

function unlock() {
  part("key-section").hidden = false;
  part("key").focus();
}

function save(format) {
  const { segments } = transcript;
  const make = { srt: () => toSrt(segments), vtt: () => toVtt(segments), json: () => toJson(segments, whole) };
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([make[format]()]));
  link.download = `${file.name.replace(/\.[^.]*$/, "")}.${format}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

async function copy() {
  const button = part("copy");
  try {
    await navigator.clipboard.writeText(textOf(transcript.segments));
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  } catch (error) {
    say(`The browser did not let the text be copied: ${error.message}.`);
  }
}

/** Offer what the model can do, and no more. */
function offer({ languages, translates }) {
  const names = new Intl.DisplayNames(["en"], { type: "language" });
  const named = languages.map((code) => [names.of(code) ?? code, code]).sort();
  const detect = languages.length > 1 ? [new Option("Detect", "")] : [];
  const before = part("language").value;
  part("language").replaceChildren(...detect, ...named.map(([name, code]) => new Option(name, code)));
  if (languages.includes(before)) part("language").value = before;
  part("task").querySelector("[value=translations]").disabled = !translates;
  if (!translates) part("task").value = "transcriptions";
}

part("choose").addEventListener("click", () => part("file").click());
part("file").addEventListener("change", (event) => {
  choose(event.target.files[0]);
  event.target.value = ""; // the same file may be chosen once more
});
part("cancel").addEventListener("click", () => running?.abort());
part("again").addEventListener("click", hear);
part("copy").addEventListener("click", copy);
part("copy").hidden = !navigator.clipboard;
part("downloads").addEventListener("click", (event) => {
  const format = event.target.dataset.format;
  if (format) save(format);
});
part("options").addEventListener("submit", (event) => event.preventDefault());
part("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key.set(part("key").value.trim());
  part("key").value = "";
  part("key-section").hidden = true;
  say("");
  status.look();
  if (file && !running && !transcript.segments.length) hear();
});

transcript.addEventListener("hear", ({ detail }) => player.playFrom(detail));
player.addEventListener("duration", () => running && transcript.segments.length && heard());
player.addEventListener("time", ({ detail }) => transcript.mark(detail));
recorder.addEventListener("recorded", ({ detail }) => choose(detail));
recorder.addEventListener("refused", ({ detail }) => say(detail));
status.addEventListener("locked", ({ detail }) => {
  if (key.get()) say(detail); // it was tried
  unlock();
});
status.addEventListener("known", ({ detail }) => {
  model = detail.model;
  offer(detail);
});

addEventListener("dragover", (event) => {
  if (!event.dataTransfer.types.includes("Files")) return; // text, into one of the fields
  event.preventDefault();
  part("drop").classList.add("over");
});
addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) part("drop").classList.remove("over");
});
addEventListener("drop", (event) => {
  if (!event.dataTransfer.files.length) return;
  event.preventDefault();
  part("drop").classList.remove("over");
  choose(event.dataTransfer.files[0]);
});

status.look();
