/** Plays the file that was chosen, from where it lies; nothing of it is asked from the server. */
export class Player extends EventTarget {
  constructor(place) {
    super();
    this.place = place;
    this.media = null;
    this.playable = false;
  }

  /** Take another file. */
  load(file) {
    if (this.media) URL.revokeObjectURL(this.media.src);
    const media = document.createElement(file.type.startsWith("video/") ? "video" : "audio");
    media.controls = true;
    media.playsInline = true;
    media.preload = "auto";
    media.setAttribute("aria-label", `Player for ${file.name}`);
    media.src = URL.createObjectURL(file);
    this.media = media;
    this.playable = true;
    media.addEventListener("loadedmetadata", () => measure(media), { once: true });
    media.addEventListener("durationchange", () => media === this.media && this.dispatchEvent(new Event("duration")));
    media.addEventListener("error", () => this.#refuse(media));
    media.addEventListener("seeked", () => this.#tell(media));
    media.addEventListener("play", () => this.#follow(media));
    this.place.replaceChildren(media);
  }

  get durationS() {
    return this.playable && Number.isFinite(this.media.duration) ? this.media.duration : null;
  }

  playFrom(seconds) {
    if (!this.playable) return;
    this.media.currentTime = seconds;
    this.#tell(this.media); // at once: whoever goes on with the arrow keys need not wait for the media
    // Refused where the page was not touched yet; the person can press play.
    this.media.play().catch(() => {});
  }

  #refuse(media) {
    if (media !== this.media) return;
    this.playable = false;
    const words = document.createElement("p");
    words.className = "hint";
    words.textContent = "This browser cannot play this kind of file. Its text can be read and saved all the same.";
    this.place.replaceChildren(words);
  }

  /** Tell the time at every frame while it plays; the media's own events come four times a second. */
  #follow(media) {
    const step = () => {
      if (media !== this.media) return;
      this.#tell(media);
      if (!media.paused && !media.ended) requestAnimationFrame(step);
    };
    step();
  }

  #tell(media) {
    if (media === this.media) this.dispatchEvent(new CustomEvent("time", { detail: media.currentTime }));
  }
}

/** What a browser has recorded itself does not say how long it is, until somebody looks for its end. */
function measure(media) {
  if (Number.isFinite(media.duration)) return;
  media.addEventListener("durationchange", () => (media.currentTime = 0), { once: true });
  media.currentTime = Number.MAX_SAFE_INTEGER;
}
