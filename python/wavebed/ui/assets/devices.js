// The table of devices: a row for each device of a bridge or a cell, over all its links in both directions.

import { cellOf, deviceOf, styles } from "./kinds.js";
import * as format from "./format.js";

// The worst state of a radio on the way, to show one for several hops.
const WORST = ["outage", "handover", "blocked", "fallback", "nlos", "los"];

const sum = (values) => (values.length && values.every((value) => value !== null) ? values.reduce((all, value) => all + value, 0) : null);

const dark = (store, link, at) => store.links[link].rate_bps[at] === 0 || store.state(link, at) === "outage";

// Seconds of the last `seconds` in which one of the links carried nothing.
const outage = (store, links, seconds) => {
  let all = 0;
  for (let at = Math.max(1, store.at(store.last - seconds)); at < store.length; at += 1) {
    if (links.some((link) => dark(store, link, at))) all += store.times[at] - store.times[at - 1];
  }
  return all;
};

// What a link adds to the delay of a packet now: its delay, where it has such a stage, and the mean wait.
const added = (store, link) => {
  const [delay, wait] = [store.value(link, "delay_ms"), store.mean(link, "wait_ms")];
  return delay === null && wait === null ? null : (delay ?? 0) + (wait ?? 0);
};

const CELLS = [
  ["radio", (store, { links }) => WORST.find((state) => links.some((link) => store.state(link) === state))],
  ["down", (store, { down }) => format.rate(down.length ? store.mean(down.at(-1), "delivered_bps") : null)],
  ["up", (store, { up }) => format.rate(up.length ? store.mean(up.at(-1), "delivered_bps") : null)],
  ["queue", (store, { links }) => format.bytes(sum(links.map((link) => store.value(link, "queued_bytes"))))],
  ["round trip", (store, { links, shared }) => format.time(sum([...links, ...shared].map((link) => added(store, link))))],
  ["dropped", (store, { links }) => format.perSecond(sum(links.map((link) => store.mean(link, "drops"))))],
  ["outage", (store, { links }, seconds) => {
    const lasted = outage(store, links, seconds);
    if (store.length && links.some((link) => dark(store, link, store.length - 1))) return "now";
    return lasted ? format.time(lasted * 1000) : format.none;
  }],
];

// The devices that these links belong to; none where no link is a device's. All packets of a cell take its shared hops.
export const devices = (names) => {
  const found = new Map();
  const of = deviceOf(names);
  const rest = cellOf(names) === null ? "all others" : "shared hops";
  names.forEach((name, link) => {
    const device = of(name) ?? rest;
    if (!found.has(device)) found.set(device, { name: device, links: [], down: [], up: [] });
    const entry = found.get(device);
    entry.links.push(link);
    (name.endsWith(".up") ? entry.up : entry.down).push(link);
  });
  const shared = cellOf(names) === null ? [] : found.get(rest)?.links ?? [];
  const list = [...found.values()].map((each) => ({ ...each, shared: each.name === rest ? [] : shared }));
  const others = list.findIndex((each) => each.name === rest);
  if (others >= 0) list.push(...list.splice(others, 1));
  return list.length > 1 || others < 0 ? list : [];
};

export class Devices {
  // `toggle(link, shown)` shows the lines of a link, or hides them.
  constructor(section, details, toggle) {
    this.section = section;
    this.details = details;
    this.body = section.querySelector("tbody");
    this.toggle = toggle;
    this.rows = [];
  }

  show(store) {
    this.store = store;
    const list = devices(store.head.links);
    this.section.hidden = list.length === 0;
    // The rows of devices are the summary; without devices the links are shown themselves.
    this.details.open = list.length === 0;
    this.details.querySelector("summary").hidden = list.length === 0;
    this.details.querySelector("summary").textContent = `All ${store.head.links.length} links`;
    const style = styles(store.head.links);
    this.rows = list.map((device) => this.row(device, style[device.links[0]].colour));
    this.body.replaceChildren(...this.rows.map((row) => row.element));
  }

  row(device, colour) {
    const element = document.createElement("tr");
    element.dataset.device = device.name;
    const head = document.createElement("th");
    head.scope = "row";
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.checked = true;
    box.style.setProperty("--c", `var(${colour})`);
    box.setAttribute("aria-label", `Show ${device.name} in the charts`);
    box.addEventListener("change", () => device.links.forEach((link) => this.toggle(link, box.checked)));
    label.append(box, device.name);
    head.append(label);
    element.append(head);
    const cells = CELLS.map(([title]) => {
      const cell = element.insertCell();
      cell.dataset.title = title;
      cell.className = title.replace(" ", "-");
      return cell;
    });
    return { element, cells, device };
  }

  // Writes what has changed.
  update(seconds) {
    for (const { cells, device } of this.rows) {
      CELLS.forEach(([title, text], at) => {
        const value = text(this.store, device, seconds) ?? "";
        const cell = cells[at];
        if (cell.textContent === value) return;
        cell.textContent = value;
        if (title === "radio" || title === "outage") cell.dataset.state = title === "radio" ? value : value === "now" ? "outage" : "";
      });
    }
  }
}
