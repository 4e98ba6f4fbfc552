// The table of links, and the dialog that changes them.

import { ask } from "./feed.js";
import * as format from "./format.js";
import { styles } from "./kinds.js";

const CELLS = [
  ["radio", (store, link) => store.state(link)],
  ["delivered", (store, link) => format.rate(store.mean(link, "delivered_bps"))],
  ["rate", (store, link) => format.rate(store.value(link, "rate_bps"))],
  ["queue", (store, link) => format.bytes(store.value(link, "queued_bytes"))],
  ["wait", (store, link) => format.time(store.mean(link, "wait_ms"))],
  ["delay", (store, link) => format.time(store.value(link, "delay_ms"))],
  ["loss", (store, link) => format.fraction(store.value(link, "loss"))],
  ["dropped", (store, link) => format.perSecond(store.mean(link, "drops"))],
];

export class Links {
  // `told` has `toggle(link, shown)` and `said(text)`.
  constructor(table, dialog, told) {
    this.body = table.tBodies[0];
    this.dialog = dialog;
    this.form = dialog.querySelector("form");
    this.told = told;
    this.takes = new Map();
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.apply();
    });
    this.form.querySelector("[value=cancel]").addEventListener("click", () => dialog.close());
  }

  show(lab, store) {
    this.lab = lab;
    this.store = store;
    const style = styles(store.head.links);
    this.rows = store.head.links.map((name, link) => this.row(name, link, style[link]));
    this.body.replaceChildren(...this.rows.map((row) => row.element));
  }

  row(name, link, style) {
    const element = document.createElement("tr");
    element.dataset.link = name;
    const head = document.createElement("th");
    head.scope = "row";
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = true;
    box.style.setProperty("--c", `var(${style.colour})`);
    box.classList.toggle("up", style.up);
    box.setAttribute("aria-label", `Show ${name} in the charts`);
    box.addEventListener("change", () => this.told.toggle(link, box.checked));
    label.append(box, name);
    head.append(label);
    element.append(head);
    const cells = CELLS.map(([title]) => {
      const cell = element.insertCell();
      cell.dataset.title = title;
      cell.className = title;
      return cell;
    });
    const last = element.insertCell();
    last.className = "act";
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Change";
    button.setAttribute("aria-label", `Change ${name}`);
    button.disabled = true;
    button.addEventListener("click", () => this.open(name));
    last.append(button);
    return { element, cells, button, box, name };
  }

  // Shows the lines of a link, or hides them.
  toggle(link, shown) {
    this.rows[link].box.checked = shown;
    this.told.toggle(link, shown);
  }

  // Writes what has changed; the cells stay the same, so that a selection does too.
  update() {
    this.rows.forEach(({ cells }, link) => {
      CELLS.forEach(([title, text], at) => {
        const value = text(this.store, link) ?? "";
        const cell = cells[at];
        if (cell.textContent === value) return;
        cell.textContent = value;
        if (title === "radio") cell.dataset.state = value;
      });
    });
  }

  // Takes the slow part of the state: totals, and the changes that each link takes.
  total(state) {
    for (const link of state.links) {
      this.takes.set(link.name, link.takes);
      const row = this.rows.find((each) => each.name === link.name);
      if (!row) continue;
      row.button.disabled = link.takes.length === 0;
      row.button.title = link.takes.length ? "" : "this link has no stage that can be changed";
      const reasons = Object.entries(link.dropped_segments).filter(([, segments]) => segments > 0);
      const text = reasons.map(([reason, segments]) => `${reason.replaceAll("_", " ")} ${format.count(segments)}`);
      row.cells[CELLS.length - 1].title = text.join(", ") || "none so far";
    }
  }

  // Opens the dialog for one link, or for all of them.
  open(name) {
    const takes = new Set(name ? this.takes.get(name) : [...this.takes.values()].flat());
    this.form.reset();
    this.name = name;
    this.form.querySelector("h2").textContent = name ? `Change ${name}` : "Change all links";
    for (const label of this.form.querySelectorAll("[data-key]")) label.hidden = label.dataset.key !== "outage" && !takes.has(label.dataset.key);
    this.tell("");
    this.dialog.showModal();
  }

  tell(error) {
    this.form.querySelector(".error").textContent = error;
  }

  async apply() {
    const change = {};
    for (const key of ["rate", "delay", "loss", "outage"]) {
      const value = this.form.elements[key].value.trim();
      if (value) change[key] = value;
    }
    const file = this.form.elements.pattern.files[0];
    if (file && file.size > 4_000_000) {
      this.tell(`pattern: ${file.name} has more than 4 MB`);
      return;
    }
    if (file) change.pattern = await file.text();
    if (!Object.keys(change).length) {
      this.dialog.close();
      return;
    }
    const at = `/api/labs/${encodeURIComponent(this.lab)}/links${this.name ? `/${encodeURIComponent(this.name)}` : ""}`;
    try {
      await ask("PATCH", at, change);
      this.dialog.close();
      const what = Object.entries(change).map(([key, value]) => `${key} ${key === "pattern" ? file.name : value}`);
      this.told.said(`${this.name ?? "all links"}: ${what.join(", ")}`);
    } catch (error) {
      this.tell(error.message);
    }
  }
}
