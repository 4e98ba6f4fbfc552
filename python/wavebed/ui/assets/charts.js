// The charts over time: axes, grid and cursor by uPlot, lines by layers that grow; all have the same time axis and cursor.

import { css, forget, needed } from "./kinds.js";
import { Layer } from "./layer.js";
import { STATES } from "./store.js";

const STEP = 16000; // Points of all lines that a frame may draw of a layer that is made anew.
const LOOK_MS = 500; // Between two looks at the whole window for its extremes.

export class Charts {
  constructor(element) {
    this.element = element;
    this.charts = [];
    this.hidden = new Set();
    this.resize = new ResizeObserver(() => this.fit());
    this.resize.observe(element);
    this.seen = new IntersectionObserver((entries) => {
      for (const entry of entries) entry.target.chart.visible = entry.isIntersecting;
      this.again();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  clear() {
    for (const chart of this.charts) {
      this.seen.unobserve(chart.figure);
      chart.plot.destroy();
      chart.figure.remove(); // the map stays
    }
    this.charts = [];
  }

  show(store) {
    this.clear();
    this.store = store;
    this.radio = store.radio;
    for (const kind of needed(store)) {
      const chart = new Chart(kind, this);
      this.element.append(chart.figure);
      chart.begin();
      this.seen.observe(chart.figure);
      this.charts.push(chart);
    }
  }

  // Whether a chart has come to be needed since `show`.
  isOutdated() {
    return needed(this.store).length !== this.charts.length || this.store.radio !== this.radio;
  }

  // Draws the last `seconds` in the charts that can be seen. Of layers to be made anew, one is worked on in a frame.
  draw(seconds) {
    this.seconds = seconds;
    if (!this.store.length) return;
    let free = true;
    for (const chart of this.charts) {
      if (chart.visible && chart.draw(this.store, seconds, free)) free = false;
    }
    if (!free) this.again();
  }

  // Draws once more in the next frame, whether or not points come.
  again() {
    if (this.waits || !this.seconds) return;
    this.waits = requestAnimationFrame(() => {
      this.waits = null;
      if (this.charts.length) this.draw(this.seconds);
    });
  }

  // Shows the lines of a link, or hides them.
  toggle(link, shown) {
    if (shown) this.hidden.delete(link);
    else this.hidden.add(link);
    this.redraw(false);
  }

  fit() {
    for (const chart of this.charts) chart.fit();
    this.again();
  }

  redraw(colours = true) {
    if (colours) forget();
    for (const chart of this.charts) chart.renew(colours);
    this.again();
  }
}

class Chart {
  constructor(kind, charts) {
    Object.assign(this, { kind, charts, visible: true, layer: null, next: null, range: null, looked: 0, seen: 0 });
    this.figure = document.createElement("figure");
    this.figure.id = `chart-${kind.id}`;
    this.figure.chart = this;
    this.figure.classList.toggle("wide", Boolean(kind.wide));
    const title = document.createElement("figcaption");
    const name = document.createElement("b");
    name.textContent = kind.title;
    this.readout = document.createElement("span");
    this.readout.className = "readout";
    title.append(name, this.readout);
    this.figure.append(title);
    this.lines = kind.lines(charts.store);
    this.radio = kind.states ? charts.radio : -1;
  }

  // Makes the plot, once the figure has its place.
  begin() {
    this.plot = new uPlot(this.options(), [[0, 1]], this.figure);
    if (this.radio >= 0) this.figure.append(legend());
  }

  options() {
    const { kind } = this;
    const ticks = (_, at) => at.map((tick) => (tick < 0 ? "" : `${Number(tick.toFixed(2))} s`));
    const given = (_, least, most) => [least, most];
    const first = { auto: false, min: 0, max: 1 };
    return {
      width: this.width(), height: kind.height ?? 180, legend: { show: false }, pxAlign: false,
      cursor: { sync: { key: "time" }, drag: { x: false, y: false }, points: { show: false }, y: false },
      // Without a range a plot has no axes, and moves when they come.
      scales: { x: { ...first, time: false, range: given }, y: { ...first, range: given } },
      axes: [{ ...axis(), values: ticks, space: 70, size: 28 }, { ...axis(), values: kind.axis, size: 82 }],
      series: [{}],
      hooks: {
        setCursor: [() => this.read()],
        drawClear: [() => this.bands()],
        draw: [(plot) => this.layer?.put(plot.ctx, this.store, plot.bbox.left, plot.bbox.top)],
      },
    };
  }

  shown() {
    return this.lines.filter((each) => !this.charts.hidden.has(each.link));
  }

  // Draws what is new; returns whether it has worked on a layer that is made anew, or has to when it is free.
  draw(store, seconds, free) {
    this.store = store;
    this.measure(store, seconds);
    const { width, height } = this.plot.bbox;
    const view = { width, height, seconds, ratio: uPlot.pxRatio, low: this.range[0], high: this.range[1] };
    const key = JSON.stringify(view);
    const stale = this.layer?.key !== key || this.layer.lines !== this.drawn;
    if (stale && free) this.make(store, view, key);
    const { layer } = this;
    if (!layer) return true;
    if (layer !== this.next) layer.draw(store, Infinity);
    const [from, to] = layer.span(store);
    this.plot.batch(() => {
      this.plot.setData([[from, to]], false);
      this.plot.setScale("x", { min: from, max: to });
      this.plot.setScale("y", { min: layer.view.low, max: layer.view.high });
    });
    return stale;
  }

  // Goes on with the next layer, which takes the place of the shown one as soon as it has all points.
  make(store, view, key) {
    this.drawn ??= this.shown().map((each) => ({ ...each, stroke: css(each.colour) }));
    if (this.next?.key !== key || this.next.lines !== this.drawn) {
      this.next = Object.assign(new Layer(view, this.drawn), { key });
      this.layer ??= this.next;
    }
    if (!this.next.draw(store, Math.ceil(STEP / Math.max(1, this.drawn.length)))) return;
    this.layer = this.next;
    this.next = null;
  }

  // Keeps the range of values: it grows at once, and shrinks when much of it is empty, so that few layers are made anew.
  measure(store, seconds) {
    const now = performance.now();
    const whole = now - this.looked > LOOK_MS || this.store !== this.measured;
    if (whole) [this.looked, this.measured, this.least, this.most] = [now, this.store, Infinity, -Infinity];
    const from = Math.max(0, whole ? store.at(store.last - seconds) : this.seen - store.first);
    for (const each of this.shown()) {
      const values = each.of(store);
      for (let at = from; at < store.length; at += 1) {
        if (values[at] > this.most) this.most = values[at];
        if (values[at] < this.least) this.least = values[at];
      }
    }
    this.seen = store.first + store.length;
    const range = this.kind.belowZero ? around(this.range, this.least, this.most) : above(this.range, this.most);
    if (!this.range || range[0] !== this.range[0] || range[1] !== this.range[1]) this.range = range;
  }

  // The states of the first radio, behind the lines.
  bands() {
    const { layer, store, plot } = this;
    if (this.radio < 0 || !layer) return;
    const { ctx, bbox } = plot;
    const [start, stop] = layer.span(store);
    const codes = store.links[this.radio].state;
    const x = (at) => Math.max(0, (store.times[at] - start) / layer.each);
    ctx.save();
    ctx.globalAlpha = Number(css("--shade"));
    let from = store.at(start);
    for (let at = from + 1; at <= store.length && store.times[from] <= stop; at += 1) {
      if (at < store.length && codes[at] === codes[from]) continue;
      if (codes[from] > 1) {
        const left = x(Math.max(0, from - 1));
        ctx.fillStyle = css(`--${STATES[codes[from] - 1]}`);
        ctx.fillRect(bbox.left + left, bbox.top, Math.min(bbox.width, x(at - 1)) - left, bbox.height);
      }
      from = at;
    }
    ctx.restore();
  }

  // Tells the values at the cursor.
  read() {
    const { store } = this;
    const left = this.plot?.cursor.left;
    if (!store || left == null || left < 0) {
      this.readout.textContent = "";
      return;
    }
    const time = this.plot.posToVal(left, "x");
    const after = Math.min(store.at(time), store.length - 1);
    const at = after > 0 && time - store.times[after - 1] < store.times[after] - time ? after - 1 : after;
    const values = this.shown()
      .map((each) => [each, (each.told ?? each.of)(store)[at]])
      .filter(([each, value]) => !each.quiet && !Number.isNaN(value))
      .map(([each, value]) => `${each.label} ${this.kind.value(value)}`);
    this.readout.textContent = `${store.times[at].toFixed(2)} s: ${values.join(" · ") || "no packet"}`;
  }

  width() {
    const room = this.charts.element.clientWidth;
    const two = matchMedia("(min-width: 900px)").matches && !this.kind.wide;
    return Math.max(240, two ? Math.floor((room - 20) / 2) : room);
  }

  fit() {
    const width = this.width();
    if (this.plot.width !== width) this.plot.setSize({ width, height: this.kind.height ?? 180 });
  }

  // Draws all lines again, as others are shown or their colours have changed.
  renew(colours) {
    this.drawn = null;
    this.range = null;
    this.looked = 0;
    if (colours) this.plot.redraw(false, true);
  }
}

const above = (range, most) => {
  if (!(most > 0)) return [0, 1];
  if (range && range[1] >= most && most > 0.6 * range[1]) return range;
  return [0, most * 1.12];
};

const around = (range, least, most) => {
  if (!(most >= least)) return [-2, 12];
  const low = Math.min(least, 0);
  const fits = range && range[0] <= low && range[1] >= most && low - range[0] < 8 && most - range[1] > -8;
  return fits ? range : [low - 3, most + 3];
};

const axis = () => ({
  stroke: () => css("--soft"),
  font: "12px system-ui, sans-serif",
  grid: { stroke: () => css("--rule"), width: 1 },
  ticks: { show: false },
  gap: 6,
});

const legend = () => {
  const list = document.createElement("p");
  list.className = "states";
  for (const state of STATES.slice(1)) {
    const item = document.createElement("span");
    item.className = `state ${state}`;
    item.textContent = state;
    list.append(item);
  }
  return list;
};
