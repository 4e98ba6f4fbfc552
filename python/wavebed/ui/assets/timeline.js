// The timeline of a laboratory: its stretches as a bar with the position, and what controls it.

import { ask } from "./feed.js";
import * as format from "./format.js";

const COLOURS = 8;
const SPEEDS = [0.1, 0.5, 1, 2, 5, 10];
const LAST_MS = 1; // A position is before the end: so long at least.

const make = (kind, className, text) => {
  const element = document.createElement(kind);
  element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
};

// Writes a value only if it is another one: what has not changed is not drawn again.
const put = (element, name, value) => {
  if (element[name] !== value) element[name] = value;
};

export class Timeline {
  constructor(section, dialog, said) {
    Object.assign(this, { section, dialog, said, key: "", state: null, held: false, asked: 0 });
    const find = (name) => section.querySelector(`.${name}`);
    this.stretches = find("stretches");
    this.names = find("names");
    this.range = find("position");
    this.readout = find("readout");
    this.play = find("play");
    this.speed = find("speed");
    this.loop = find("loop");
    this.form = dialog.querySelector("form");
    this.listen(find("set"));
  }

  listen(set) {
    // What it says: a sample that was under way at the last action may tell of the time before that.
    this.play.addEventListener("click", () => this.act(this.play.textContent === "Pause" ? "pause" : "play"));
    this.speed.addEventListener("change", () => this.act("speed", this.speed.value));
    this.loop.addEventListener("click", () => this.act("loop", this.state.loop ? "off" : "on"));
    // While a finger holds the position, samples do not move it.
    this.range.addEventListener("input", () => {
      this.held = true;
      this.readout.textContent = this.text(Number(this.range.value));
    });
    this.range.addEventListener("change", () => {
      this.held = false;
      this.act("seek", `${Math.min(Math.round(this.range.value * 1000), this.length * 1000 - LAST_MS)}ms`);
    });
    for (const end of ["pointerup", "blur"]) this.range.addEventListener(end, () => setTimeout(() => (this.held = false)));
    set.addEventListener("click", () => this.open());
    this.dialog.querySelector("[value=cancel]").addEventListener("click", () => this.dialog.close());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.edit();
    });
  }

  // Whether time goes on in it.
  get runs() {
    return this.state.playing && !this.state.ended;
  }

  // Takes what a look told that began when `asked` was this: it may be older than the answer to an action since.
  looked(lab, state, asked) {
    if (asked === this.asked) this.show(lab, state);
  }

  // Takes the whole state of the timeline of a laboratory; null where there is none.
  show(lab, state) {
    this.lab = lab;
    this.state = state;
    this.section.hidden = !state;
    if (!state) return;
    this.length = state.duration_ns / 1e9;
    const key = JSON.stringify([lab, state.duration_ns, state.stretches]);
    if (key !== this.key) this.build(key);
    this.now = { position_s: state.position_ns / 1e9, stretch: state.stretch, playing: state.playing, speed: state.speed };
    this.update();
    this.draw();
  }

  build(key) {
    Object.assign(this, { key, drawn: NaN });
    const { stretches } = this.state;
    const from = (at) => (at < stretches.length ? stretches[at].start_ns / 1e9 : this.length);
    this.range.max = this.length;
    this.range.step = this.length / 1000;
    this.bars = stretches.map((stretch, at) => {
      const bar = make("span", "stretch");
      bar.style.left = `${(100 * from(at)) / this.length}%`;
      bar.style.width = `${(100 * (from(at + 1) - from(at))) / this.length}%`;
      bar.style.setProperty("--c", `var(--s${at % COLOURS})`);
      return bar;
    });
    this.stretches.replaceChildren(...this.bars);
    this.buttons = stretches.map((stretch, at) => {
      const button = make("button", "", stretch.name);
      button.type = "button";
      button.style.setProperty("--c", `var(--s${at % COLOURS})`);
      button.title = `${format.clock(from(at))} to ${format.clock(from(at + 1))}`;
      button.addEventListener("click", () => this.act("seek", stretch.name));
      return button;
    });
    this.names.replaceChildren(...this.buttons);
    this.form.elements.stretch.replaceChildren(...stretches.map(({ name }) => new Option(name, name)));
  }

  // Takes where it is at the last of some points.
  move(now) {
    if (!this.state || !now) return;
    this.now = now;
    Object.assign(this.state, { playing: now.playing, speed: now.speed, ended: now.position_s >= this.length });
  }

  // Moves the position, once it is at another pixel.
  draw() {
    if (!this.state || this.held) return;
    const pixel = this.length / Math.max(1, this.range.clientWidth * devicePixelRatio);
    if (Math.abs(this.now.position_s - this.drawn) < pixel) return;
    this.drawn = this.now.position_s;
    this.range.value = this.drawn;
  }

  text(position) {
    const at = this.state.stretches.findLastIndex(({ start_ns: start }) => start / 1e9 <= position);
    const end = this.state.ended ? ", ended" : this.state.playing ? "" : ", paused";
    return `${this.state.stretches[at].name}, ${format.clock(position)} of ${format.clock(this.length)}${end}`;
  }

  // Writes what has changed of names and controls.
  update() {
    if (!this.state) return;
    const { state, now } = this;
    put(this.play, "textContent", this.runs ? "Pause" : "Play");
    put(this.play, "ariaLabel", this.runs ? "Pause the timeline" : "Play the timeline");
    put(this.loop, "ariaPressed", String(state.loop));
    this.speeds(state.speed);
    const at = state.stretches.findIndex(({ name }) => name === now.stretch);
    this.buttons.forEach((button, place) => put(button, "ariaCurrent", place === at ? "true" : null));
    this.bars.forEach((bar, place) => put(bar, "className", place === at ? "stretch now" : "stretch"));
    if (this.held) return;
    const text = this.text(now.position_s);
    put(this.readout, "textContent", text);
    put(this.range, "ariaValueText", text);
  }

  // The speeds to choose from, with the present one.
  speeds(speed) {
    if (this.speed.dataset.now === String(speed)) return;
    this.speed.dataset.now = String(speed);
    const all = [...new Set([...SPEEDS, speed])].sort((one, other) => one - other);
    this.speed.replaceChildren(...all.map((each) => new Option(`${each}×`, each, false, each === speed)));
  }

  async ask(action, value = null) {
    const lab = this.lab;
    this.asked += 1;
    const state = await ask("POST", `/api/labs/${encodeURIComponent(lab)}/timeline`, { action, value });
    this.asked += 1;
    if (lab === this.lab) this.show(lab, state);
  }

  async act(action, value) {
    try {
      await this.ask(action, value);
      this.said("");
    } catch (error) {
      this.said(error.message);
      this.speed.dataset.now = "";
      this.drawn = NaN;
    }
  }

  // Opens the dialog for a stretch: the present one at first.
  open() {
    this.form.reset();
    this.form.elements.stretch.value = this.now.stretch;
    this.form.querySelector(".error").textContent = "";
    this.dialog.showModal();
  }

  async edit() {
    const { stretch, direction } = this.form.elements;
    const done = [];
    try {
      for (const key of ["rate", "delay", "loss"]) {
        const value = this.form.elements[key].value.trim();
        if (!value) continue;
        await this.ask("set", `${stretch.value}.${direction.value}${key}=${value}`);
        done.push(`${direction.value}${key} ${value}`);
      }
      this.dialog.close();
      if (done.length) this.said(`${stretch.value}: ${done.join(", ")}`);
    } catch (error) {
      this.form.querySelector(".error").textContent = error.message;
    }
  }
}
