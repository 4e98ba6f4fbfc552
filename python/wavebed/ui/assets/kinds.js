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

// The name of the cell that links belong to, as in CELL.DEVICE.down; null without one. Links of a bridge are DEVICE.HOP.down,
// and HOP.down for all others.
export const cellOf = (names) => {
  const parts = names.map((name) => name.split("."));
  const hops = new Set(parts.filter((each) => each.length === 2).map(([hop]) => hop));
  const own = parts.filter((each) => each.length > 2);
  const second = new Set(own.map((each) => each[1]));
  const one = new Set(own.map(([first]) => first)).size === 1 && second.size > 1;
  return one && ![...second].some((name) => hops.has(name)) ? own[0][0] : null;
};

// Returns the device that a link belongs to, of a bridge or a cell; null for a hop that all have.
export const deviceOf = (names) => {
  const cell = cellOf(names);
  return (name) => {
    const parts = name.split(".");
    if (parts.length < 3) return null;
    return cell === null ? parts[0] : parts.slice(1, -1).join(".");
  };
};

// Links of one hop, or of one device, have one colour; the uplink is a thin line.
export const styles = (names) => {
  const of = deviceOf(names);
  const key = (name) => of(name) ?? name.replace(/\.(down|up)$/, "");
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

const oneWay = (store) => {
  const style = styles(store.head.directions);
  return store.head.directions.map((name, way) => line(name, style[way], (from) => from.transit[way]));
};
const roundTrip = line("round trip", { colour: "--ink", width: 2.2 }, (from) => from.roundTrip);

// The air time of the devices of a cell in one direction: the highest area first, each covers those behind it.
const slots = (way) => (store) => {
  const { links } = store.head;
  const [of, style] = [deviceOf(links), styles(links)];
  const own = links.map((name, link) => ({ device: of(name), link })).filter(({ device, link }) => device && store.ways[link] === way);
  return own.reverse().map(({ device, link }) => line(device, { ...style[link], width: 1 }, (from) => from.links[link].air_top, {
    area: true, told: (from) => from.links[link].air_share,
  }));
};

const fairness = () => [
  line("downlink", { colour: "--ink", width: 2.2 }, (from) => from.fairness.down),
  line("uplink", { colour: "--ink", width: 0.8 }, (from) => from.fairness.up),
];

const inCell = (store) => cellOf(store.head.links) !== null;

export const KINDS = [
  {
    id: "throughput", title: "Delivered; pale: the rate of the link", height: 260, wide: true, states: true,
    axis: format.axis(["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]), value: format.rate, lines: throughput,
  },
  {
    id: "slots-down", title: "Who has the slots, downlink", axis: format.share, value: format.fraction, needs: inCell, lines: slots("down"),
  },
  {
    id: "slots-up", title: "Who has the slots, uplink", axis: format.share, value: format.fraction, needs: inCell, lines: slots("up"),
  },
  {
    id: "fairness", title: "Fairness of the rates of active devices over 1 s: Jain's index",
    axis: format.numbers, value: format.number, needs: inCell, lines: fairness,
  },
  { id: "wait", title: "Time in the queue", axis: format.axis(["ms", "s"]), value: format.time, lines: perLink("wait_ms") },
  {
    id: "transit", title: "One-way delay; thick: round trip", axis: format.axis(["ms", "s"]), value: format.time,
    needs: (store) => !inCell(store), lines: (store) => [...oneWay(store), roundTrip],
  },
  // Each device of a cell has a round trip of its own.
  { id: "transit", title: "One-way delay", axis: format.axis(["ms", "s"]), value: format.time, needs: inCell, lines: oneWay },
  { id: "queue", title: "Queue", axis: format.axis(["B", "kB", "MB", "GB"]), value: format.bytes, lines: perLink("queued_bytes") },
  { id: "drops", title: "Dropped", axis: format.axis(["/s", "k/s", "M/s"]), value: format.perSecond, lines: perLink("drops") },
  {
    id: "sinr", title: "SINR of the data", axis: format.axis(["dB"]), value: format.decibel, belowZero: true,
    needs: (store) => store.sinr, lines: perLink("sinr_db"),
  },
];

export const needed = (store) => KINDS.filter((kind) => !kind.needs || kind.needs(store));
