// The server's own files, made of what it has sent: asking again would cost it the work once more.
// The rules are those of stentor/text/cues.py (without limits) and subtitles.py.

/** The shortest cue; players drop cues without length. */
const MIN_CUE_MS = 20;

/** Where Python's `splitlines` cuts. */
const LINE_END = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/;

export function toSrt(segments) {
  return cuesOf(segments)
    .map(({ startMs, endMs, text }, index) =>
      `${index + 1}\n${stamp(startMs, ",")} --> ${stamp(endMs, ",")}\n${text.replaceAll("-->", "→")}\n\n`)
    .join("");
}

export function toVtt(segments) {
  return "WEBVTT\n\n" + cuesOf(segments)
    .map(({ startMs, endMs, text }) => `${stamp(startMs, ".")} --> ${stamp(endMs, ".")}\n${escaped(text)}\n\n`)
    .join("");
}

/** As `verbose_json` has it, with the fields that a stream tells. */
export function toJson(segments, whole) {
  const told = {
    ...whole,
    text: textOf(segments),
    segments: segments.map(({ start, end, text }, id) => ({ id, start, end, text })),
    words: segments.flatMap((segment) => segment.words ?? []),
  };
  return JSON.stringify(told, null, 2) + "\n";
}

export function textOf(segments) {
  return segments.map((segment) => segment.text).join("").trim();
}

/** Cues that have length and do not overlap: one ends where the next begins at the latest. */
function cuesOf(segments) {
  const cues = [];
  for (const segment of segments) {
    const lines = segment.text.split(LINE_END).map((line) => line.trim());
    const text = lines.filter(Boolean).join("\n");
    if (!text) continue;
    let startMs = Math.max(0, Math.round(segment.start * 1000));
    const before = cues.at(-1);
    if (before) {
      before.endMs = Math.max(before.startMs + MIN_CUE_MS, Math.min(before.endMs, startMs));
      startMs = Math.max(startMs, before.endMs);
    }
    cues.push({ startMs, endMs: Math.max(startMs + MIN_CUE_MS, Math.round(segment.end * 1000)), text });
  }
  return cues;
}

function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function stamp(ms, separator) {
  const two = (number) => String(number).padStart(2, "0");
  const seconds = Math.floor(ms / 1000);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return `${two(hours)}:${two(minutes)}:${two(seconds % 60)}${separator}${String(ms % 1000).padStart(3, "0")}`;
}
