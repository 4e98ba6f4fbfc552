// The maps of the scenes from above, with the UEs and what moves at the time of the last point. Devices of one scene share
// a map.

const SVG = "http://www.w3.org/2000/svg";
const WIDEN = 1; // Obstacles widen the map on each side by at most this multiple of what base stations and UE take.
const LABEL_PX = 12; // Labels are not smaller on the screen, whatever the scale of the map.

const make = (name, attributes, parent) => {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent?.append(element);
  return element;
};

// Where a movement is at a time of its scene.
export const place = (movement, time) => {
  const times = movement.time_s;
  const after = times.findIndex((each) => each > time);
  if (after === 0) return [movement.x_m[0], movement.y_m[0]];
  if (after < 0) return [movement.x_m.at(-1), movement.y_m.at(-1)];
  const part = (time - times[after - 1]) / (times[after] - times[after - 1]);
  const between = (values) => values[after - 1] + part * (values[after] - values[after - 1]);
  return [between(movement.x_m), between(movement.y_m)];
};

// The time of the scene at a time of the laboratory; null after its end.
export const sceneTime = (map, seconds) => {
  const time = map.start_s + seconds;
  if (time < map.duration_s) return time;
  if (map.end === "repeat") return time % map.duration_s;
  return map.end === "hold" ? map.duration_s : null;
};

// The maps that differ in nothing but the device, together.
export const worlds = (maps) => {
  const found = new Map();
  for (const map of maps) {
    const { hop, ue, replaced, ...world } = map;
    const key = JSON.stringify(world);
    found.set(key, [...(found.get(key) ?? []), map]);
  }
  return [...found.values()];
};

const extent = (map, ues) => {
  const xs = [...map.stations.map((station) => station.x_m), ...ues.flatMap((ue) => ue.x_m)];
  const ys = [...map.stations.map((station) => station.y_m), ...ues.flatMap((ue) => ue.y_m)];
  const box = { left: Math.min(...xs), right: Math.max(...xs), low: Math.min(...ys), high: Math.max(...ys) };
  const span = Math.max(box.right - box.left, box.high - box.low, 1) * WIDEN;
  const inner = { ...box };
  for (const [x, y] of map.obstacles.flatMap((obstacle) => obstacle.outline_m)) {
    box.left = Math.min(box.left, Math.max(x, inner.left - span));
    box.right = Math.max(box.right, Math.min(x, inner.right + span));
    box.low = Math.min(box.low, Math.max(y, inner.low - span));
    box.high = Math.max(box.high, Math.min(y, inner.high + span));
  }
  const longest = Math.max(box.right - box.left, box.high - box.low, 1);
  const pad = 0.06 * longest;
  const lack = (size) => Math.max(0, 0.25 * longest - size) / 2;
  const [wide, tall] = [lack(box.right - box.left), lack(box.high - box.low)];
  return { left: box.left - pad - wide, right: box.right + pad + wide, low: box.low - pad - tall, high: box.high + pad + tall };
};

const text = ({ x, y, width, height }) => `${x} ${y} ${width} ${height}`;

// The box around two others; a margin is kept around the second where it reaches out of the first.
const around = (one, other, margin) => {
  const x = Math.min(one.x, other.x - margin);
  const y = Math.min(one.y, other.y - margin);
  const right = Math.max(one.x + one.width, other.x + other.width + margin);
  const low = Math.max(one.y + one.height, other.y + other.height + margin);
  return { x, y, width: right - x, height: low - y };
};

class SceneMap {
  constructor(members, parent) {
    const [map] = members;
    this.map = map;
    this.members = members;
    this.figure = document.createElement("figure");
    const title = document.createElement("figcaption");
    const name = document.createElement("b");
    name.textContent = map.title;
    this.time = document.createElement("span");
    this.time.className = "readout";
    title.append(name, this.time);
    const box = extent(map, members.map((member) => member.ue));
    this.box = { x: box.left, y: -box.high, width: box.right - box.left, height: box.high - box.low };
    this.unit = Math.max(this.box.width, this.box.height) / 100;
    this.labels = [];
    this.svg = make("svg", {
      viewBox: text(this.box), role: "img",
      "aria-label": `Map of ${map.title}: base stations, obstacles and ${members.length > 1 ? `${members.length} devices` : "the UE"}`,
    });
    this.figure.append(title, this.svg);
    parent.append(this.figure);
    this.obstacles = map.obstacles.map((obstacle) => this.obstacle(obstacle));
    for (const { ue } of members) this.path(ue);
    for (const station of map.stations) this.station(station);
    const size = members.length > 1 ? 1.1 : 1.7;
    this.ues = members.map(({ hop }) => {
      const ue = make("circle", { class: "ue", r: size * this.unit, "stroke-width": 0.3 * size * this.unit }, this.svg);
      make("title", {}, ue).textContent = hop;
      return ue;
    });
    new ResizeObserver(() => this.fit()).observe(this.figure);
  }

  // Gives labels a size that can be read, and widens the map by labels that reach out of it.
  fit() {
    let view = this.box;
    for (let turn = 0; turn < 2; turn += 1) {
      this.svg.setAttribute("viewBox", text(view));
      const scale = this.svg.getScreenCTM()?.a;
      if (!scale) return;
      const size = Math.max(3 * this.unit, LABEL_PX / scale);
      for (const label of this.labels) label.setAttribute("font-size", size);
      view = this.labels.map((label) => label.getBBox()).reduce((box, label) => around(box, label, this.unit), this.box);
    }
    this.svg.setAttribute("viewBox", text(view));
  }

  obstacle(obstacle) {
    const group = make("g", { class: `obstacle ${obstacle.kind}` }, this.svg);
    const points = obstacle.outline_m.map(([x, y]) => `${x},${-y}`).join(" ");
    const width = obstacle.outline_m.length > 2 ? 0.25 * this.unit : 0.9 * this.unit;
    make(obstacle.outline_m.length > 2 ? "polygon" : "polyline", { points, "stroke-width": width }, group);
    make("title", {}, group).textContent = obstacle.name;
    return { ...obstacle, group };
  }

  path(ue) {
    const points = ue.x_m.map((x, at) => `${x},${-ue.y_m[at]}`).join(" ");
    make("polyline", { class: "walk", points, "stroke-width": 0.4 * this.unit, "stroke-dasharray": `${this.unit} ${this.unit}` }, this.svg);
  }

  station(station) {
    const size = 1.8 * this.unit;
    const [x, y] = [station.x_m, -station.y_m];
    make("polygon", { class: "station", points: `${x},${y - size} ${x + size},${y + size} ${x - size},${y + size}` }, this.svg);
    const isRight = x > this.box.x + 0.7 * this.box.width;
    const label = make("text", {
      class: "name", x: x + (isRight ? -1.3 : 1.3) * size, y, "text-anchor": isRight ? "end" : "start", "font-size": 3 * this.unit,
    }, this.svg);
    label.textContent = station.name;
    this.labels.push(label);
  }

  // Takes a state of the radio for each device.
  move(seconds, states) {
    const time = sceneTime(this.map, seconds);
    const isReplaced = this.members.every((member) => member.replaced);
    this.figure.classList.toggle("over", time === null || isReplaced);
    if (isReplaced || time === null) {
      this.time.textContent = time === null ? "the pattern has ended" : "the link follows another rate now";
      return;
    }
    this.time.textContent = `${time.toFixed(1)} of ${this.map.duration_s} s`;
    this.ues.forEach((ue, at) => {
      const [x, y] = place(this.members[at].ue, time);
      ue.setAttribute("cx", x);
      ue.setAttribute("cy", -y);
      ue.dataset.state = this.members[at].replaced ? "" : states[at] ?? "";
    });
    for (const { movement, present_s, group } of this.obstacles) {
      if (movement) {
        const [dx, dy] = place(movement, time);
        group.setAttribute("transform", `translate(${dx} ${-dy})`);
      }
      const there = !present_s.length || present_s.some(([from, to]) => time >= from && time <= to);
      group.classList.toggle("away", !there);
    }
  }
}

export class Maps {
  constructor(section) {
    this.section = section;
    this.list = section.querySelector(".maps");
    this.key = "";
    this.maps = [];
  }

  // Takes the maps of a laboratory; the same ones as before stay.
  show(maps) {
    const key = JSON.stringify(maps);
    if (key === this.key) return;
    this.key = key;
    this.list.replaceChildren();
    this.maps = worlds(maps).map((members) => new SceneMap(members, this.list));
    this.section.hidden = maps.length === 0;
  }

  draw(store, seconds) {
    for (const map of this.maps) {
      const links = map.members.map(({ hop }) => store.head.links.indexOf(`${hop}.down`));
      map.move(seconds, links.map((link) => (link < 0 ? null : store.state(link))));
    }
  }
}
