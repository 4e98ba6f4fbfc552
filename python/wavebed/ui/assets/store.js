// The points of the last minute in columns of numbers; a missing value is NaN. Their memory is taken once.

import { cellOf, deviceOf } from "./kinds.js";

export const WINDOW_S = 60;
export const STATES = ["los", "nlos", "blocked", "outage", "handover", "fallback"];
export const NUMBERS = ["offered_bps", "delivered_bps", "rate_bps", "wait_ms", "queued_bytes", "delay_ms", "loss", "sinr_db", "air_share"];

const FAIR_S = 1; // Over a shorter time, Jain's index shows who was served just now.
const ROOM = 1.25; // The oldest points are cut off once so many times the window are there.

export class Store {
  // `head` is the first event: the names of links, directions and columns.
  constructor(head) {
    this.head = head;
    this.most = Math.ceil((WINDOW_S * 1000) / head.every_ms) + 2;
    this.room = Math.ceil(this.most * ROOM) + 1;
    this.length = 0;
    this.first = 0; // The number of the first point that is kept, of all since the stream began.
    this.lost = 0;
    this.radio = -1; // The first link with a state of a radio.
    this.sinr = false; // Whether any link has had one.
    this.places = Object.fromEntries(head.columns.map((name, place) => [name, place]));
    const column = () => new Float64Array(this.room);
    this.ways = head.links.map((name) => (name.endsWith(".up") ? "up" : "down"));
    // The links of the devices of a cell in each direction.
    const of = cellOf(head.links) === null ? () => null : deviceOf(head.links);
    this.inCell = Object.fromEntries(["down", "up"].map((way) => [
      way, head.links.flatMap((name, link) => (of(name) !== null && this.ways[link] === way ? [link] : [])),
    ]));
    this.fairness = { down: column(), up: column() };
    this.times = column();
    this.roundTrip = column();
    this.transit = head.directions.map(column);
    this.links = head.links.map(() => ({
      ...Object.fromEntries([...NUMBERS, "drops", "air_top"].map((name) => [name, column()])), state: new Uint8Array(this.room),
    }));
    // A second radio lies beside the last leg: its delay is not part of the round trip.
    this.onPath = head.directions.map((name) => !name.includes("-second."));
  }

  columns() {
    return [this.times, this.roundTrip, ...Object.values(this.fairness), ...this.transit, ...this.links.flatMap(Object.values)];
  }

  add(points) {
    this.lost = points.lost;
    points.time_s.forEach((time, index) => this.put(time, points.links[index], points.transit_ms[index]));
  }

  put(time, rows, transit) {
    if (this.length === this.room) this.trim();
    const at = this.length;
    const top = { down: 0, up: 0 };
    const gap = at ? time - this.times[at - 1] : this.head.every_ms / 1000;
    this.times[at] = time;
    for (let link = 0; link < rows.length; link += 1) {
      const columns = this.links[link];
      for (const name of NUMBERS) columns[name][at] = rows[link][this.places[name]] ?? NaN;
      columns.drops[at] = (rows[link][this.places.dropped_segments] ?? NaN) / gap;
      // The air time of the links up to this one, of its direction: areas over each other.
      top[this.ways[link]] += rows[link][this.places.air_share] ?? 0;
      columns.air_top[at] = top[this.ways[link]];
      columns.state[at] = STATES.indexOf(rows[link][this.places.state]) + 1;
      if (columns.state[at] && (this.radio < 0 || link < this.radio)) this.radio = link;
      if (!Number.isNaN(columns.sinr_db[at])) this.sinr = true;
    }
    let whole = 0;
    for (let way = 0; way < transit.length; way += 1) {
      const value = transit[way] ?? NaN;
      this.transit[way][at] = value;
      if (this.onPath[way]) whole += value;
    }
    this.roundTrip[at] = whole;
    this.length += 1;
    for (const [way, links] of Object.entries(this.inCell)) this.fairness[way][at] = this.jain(links);
  }

  // Jain's index of the rates of these links over the last second, of those that delivered; NaN for fewer than two.
  jain(links) {
    const rates = links.map((link) => this.mean(link, "delivered_bps", FAIR_S)).filter((rate) => rate > 0);
    if (rates.length < 2) return NaN;
    const [sum, squares] = rates.reduce(([all, own], rate) => [all + rate, own + rate * rate], [0, 0]);
    return sum ** 2 / (rates.length * squares);
  }

  trim() {
    const over = this.length - this.most;
    for (const column of this.columns()) column.copyWithin(0, over, this.length);
    this.length -= over;
    this.first += over;
  }

  get last() {
    return this.times[this.length - 1];
  }

  // The index of the first point at or after a time.
  at(time) {
    let [low, high] = [0, this.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The mean of a column of a link over the last second, without missing values; null without any.
  mean(link, name, seconds = 1) {
    const column = this.links[link][name];
    let [sum, count] = [0, 0];
    for (let at = this.at(this.last - seconds); at < this.length; at += 1) {
      if (Number.isNaN(column[at])) continue;
      sum += column[at];
      count += 1;
    }
    return count ? sum / count : null;
  }

  // The last value of a column of a link; null where it is missing.
  value(link, name, at = this.length - 1) {
    const value = at < 0 ? NaN : this.links[link][name][at];
    return Number.isNaN(value) ? null : value;
  }

  state(link, at = this.length - 1) {
    return at < 0 ? null : STATES[this.links[link].state[at] - 1] ?? null;
  }

  // As it is now: later points do not come into it.
  copy() {
    const made = Object.assign(Object.create(Store.prototype), this);
    made.times = this.times.slice();
    made.roundTrip = this.roundTrip.slice();
    made.fairness = { down: this.fairness.down.slice(), up: this.fairness.up.slice() };
    made.transit = this.transit.map((column) => column.slice());
    made.links = this.links.map((columns) => Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, column.slice()])));
    return made;
  }
}
