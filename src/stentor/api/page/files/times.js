/** Seconds as people write them: 0:07, 1:02:03. */
export function clock(seconds) {
  const whole = Math.floor(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  const last = String(whole % 60).padStart(2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${last}` : `${minutes}:${last}`;
}

/** A length in words that fit into a line: 7.2 s, 3 min, 2 h 5 min. */
export function length(seconds) {
  if (seconds < 90) return `${Number(seconds.toFixed(seconds < 10 ? 1 : 0))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  return minutes % 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${minutes / 60} h`;
}

/** Audio seconds per second. */
export function pace(rtfx) {
  return `${rtfx < 10 ? Number(rtfx.toFixed(1)) : Math.round(rtfx)}× real time`;
}
