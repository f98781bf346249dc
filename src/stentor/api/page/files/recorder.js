import { clock } from "./times.js";

/** What browsers record, the best that this one knows first; the server takes any of them. */
const KINDS = [
  ["audio/webm;codecs=opus", "webm"],
  ["audio/ogg;codecs=opus", "ogg"],
  ["audio/mp4", "m4a"],
];

/** Records from the microphone; sends `recorded` with a file, `refused` with a sentence. */
export class Recorder extends EventTarget {
  constructor(button, label) {
    super();
    this.button = button;
    this.label = label;
    this.recording = null;
    button.addEventListener("click", () => (this.recording ? this.recording.stop() : this.#begin()));
  }

  async #begin() {
    if (!isSecureContext || !navigator.mediaDevices || !window.MediaRecorder) {
      this.#refuse(
        isSecureContext
          ? "This browser cannot record."
          : "Browsers give the microphone to secure pages only: open this one by https://, or on localhost. Files work here as well.",
      );
      return;
    }
    this.button.disabled = true; // until the person has answered the browser's question
    try {
      const sound = await navigator.mediaDevices.getUserMedia({ audio: true });
      this.#record(sound);
    } catch (error) {
      this.#refuse(
        { NotAllowedError: "The browser was not allowed to use the microphone.", NotFoundError: "No microphone was found." }[
          error.name
        ] ?? `The microphone cannot be used: ${error.message}.`,
      );
    } finally {
      this.button.disabled = false;
    }
  }

  #record(sound) {
    const [kind, ending] = KINDS.find(([type]) => MediaRecorder.isTypeSupported(type)) ?? ["", "bin"];
    const recording = new MediaRecorder(sound, kind ? { mimeType: kind } : {});
    const pieces = [];
    const began = performance.now();
    const show = () => (this.label.textContent = `Stop, ${clock((performance.now() - began) / 1000)}`);
    const ticking = setInterval(show, 500);
    recording.ondataavailable = ({ data }) => pieces.push(data);
    recording.onstop = () => {
      clearInterval(ticking);
      for (const track of sound.getTracks()) track.stop();
      this.recording = null;
      this.button.classList.remove("recording");
      this.label.textContent = "Record";
      const name = `recording ${new Date().toTimeString().slice(0, 5).replace(":", ".")}.${ending}`;
      const file = new File(pieces, name, { type: recording.mimeType });
      this.dispatchEvent(new CustomEvent("recorded", { detail: file }));
    };
    this.recording = recording;
    this.button.classList.add("recording");
    show();
    recording.start();
  }

  #refuse(words) {
    this.dispatchEvent(new CustomEvent("refused", { detail: words }));
  }
}
