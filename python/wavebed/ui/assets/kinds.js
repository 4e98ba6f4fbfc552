// The charts that there are: what each shows, and how its lines look.

import * as format from "./format.js";

const COLOURS = 8;

// The colours of the style sheet, looked up once for each scheme.
const found = new Map();
export const css = (name) => {
  if (!found.has(name)) found.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return found.get(name);
};
export const forget = () => found.clear();

// The device that a link of a bridge belongs to: NAME.HOP.down has one, HOP.down has none.
export const deviceOf = (name) => {
  const parts = name.split(".");
  return parts.length > 2 ? parts[0] : null;
};

// Links of one hop, or of one device, have one colour; the uplink is a thin line.
export const styles = (names) => {
  const key = (name) => deviceOf(name) ?? name.replace(/\.(down|up)$/, "");
  const keys = [...new Set(names.map(key))];
  return names.map((name) => {
    const up = name.endsWith(".up");
    return { colour: `--s${keys.indexOf(key(name)) % COLOURS}`, up, width: up ? 0.8 : 1.8 };
  });
};

// `of` returns the column of a store; a line without `link` cannot be hidden.
const line = (label, { colour, width }, of, more = {}) => ({ label, colour, width, alpha: 1, of, ...more });

const perLink = (column) => (store) => {
  const style = styles(store.head.links);
  return store.head.links.map((name, link) => line(name, style[link], (from) => from.links[link][column], { link }));
};

const throughput = (store) => {
  const style = styles(store.head.links);
  const rates = store.head.links.map((name, link) => (
    line(`${name}, rate`, style[link], (from) => from.links[link].rate_bps, { link, quiet: true, alpha: 0.4, width: style[link].up ? 0.8 : 1 })));
  return [...rates, ...perLink("delivered_bps")(store)];
};

const transit = (store) => {
  const style = styles(store.head.directions);
  return [
    ...store.head.directions.map((name, way) => line(name, style[way], (from) => from.transit[way])),
    line("round trip", { colour: "--ink", width: 2.2 }, (from) => from.roundTrip),
  ];
};

export const KINDS = [
  {
    id: "throughput", title: "Delivered; pale: the rate of the link", height: 260, wide: true, states: true,
    axis: format.axis(["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]), value: format.rate, lines: throughput,
  },
  { id: "wait", title: "Time in the queue", axis: format.axis(["ms", "s"]), value: format.time, lines: perLink("wait_ms") },
  { id: "transit", title: "One-way delay; thick: round trip", axis: format.axis(["ms", "s"]), value: format.time, lines: transit },
  { id: "queue", title: "Queue", axis: format.axis(["B", "kB", "MB", "GB"]), value: format.bytes, lines: perLink("queued_bytes") },
  { id: "drops", title: "Dropped", axis: format.axis(["/s", "k/s", "M/s"]), value: format.perSecond, lines: perLink("drops") },
  {
    id: "sinr", title: "SINR of the data", axis: format.axis(["dB"]), value: format.decibel, belowZero: true,
    needs: (store) => store.sinr, lines: perLink("sinr_db"),
  },
];

export const needed = (store) => KINDS.filter((kind) => !kind.needs || kind.needs(store));
