// Recordings on the machine of the laboratory, and the window of this page as a file.

import { ask } from "./feed.js";
import * as format from "./format.js";
import { NUMBERS } from "./store.js";

const WORDS = {
  running: "running", stopped: "stopped", ended: "the laboratory ended", full: "the file is full", failed: "could not be written",
};

export class Recordings {
  constructor(section, said) {
    this.list = section.querySelector("ul");
    this.button = section.querySelector("#record");
    this.hint = section.querySelector("#record-hint");
    this.said = said;
    this.button.addEventListener("click", () => this.press());
    section.querySelector("#save").addEventListener("click", () => this.save());
  }

  show(lab, store, every, possible) {
    Object.assign(this, { lab, store, every });
    this.button.disabled = !possible;
    this.hint.textContent = possible ? "" : "Recordings need a folder: wavebed ui --record-to DIR";
  }

  async update() {
    try {
      const { recordings } = await ask("GET", "/api/recordings");
      this.running = recordings.find((each) => each.state === "running" && each.lab === this.lab);
      this.button.textContent = this.running ? "Stop recording" : "Start recording";
      this.button.classList.toggle("on", Boolean(this.running));
      this.list.replaceChildren(...recordings.reverse().map(item));
    } catch {
      // The server is gone: the page says so by its stream.
    }
  }

  async press() {
    try {
      const done = this.running
        ? await ask("POST", `/api/recordings/${this.running.id}/stop`)
        : await ask("POST", `/api/labs/${encodeURIComponent(this.lab)}/recordings`, { every_ms: this.every });
      this.said(`${done.file}: ${WORDS[done.state]}`);
    } catch (error) {
      this.said(error.message);
    }
    await this.update();
  }

  // The points that this page holds, as the recordings have them.
  save() {
    const { store } = this;
    const text = (value) => (Number.isNaN(value) ? "" : String(value));
    const rows = [`time_s,link,${NUMBERS.join(",")},state`];
    for (let at = 0; at < store.length; at += 1) {
      store.head.links.forEach((link, place) => {
        const values = NUMBERS.map((name) => text(store.links[place][name][at]));
        rows.push(`${store.times[at]},${link},${values.join(",")},${store.state(place, at) ?? ""}`);
      });
    }
    const address = URL.createObjectURL(new Blob([`${rows.join("\r\n")}\r\n`], { type: "text/csv" }));
    const anchor = document.createElement("a");
    anchor.href = address;
    anchor.download = `${this.lab}.csv`;
    anchor.click();
    URL.revokeObjectURL(address);
  }
}

const item = (recording) => {
  const element = document.createElement("li");
  const anchor = document.createElement("a");
  anchor.href = `/api/recordings/${recording.id}`;
  anchor.textContent = recording.file;
  const lost = recording.lost ? `, ${format.count(recording.lost)} samples lost` : "";
  element.append(anchor, ` ${WORDS[recording.state]}, ${format.count(recording.points)} points, ${format.bytes(recording.bytes)}${lost}`);
  return element;
};
