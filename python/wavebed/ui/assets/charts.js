// The charts over time, by uPlot: one for each quantity, all with the same time axis and cursor.

import * as format from "./format.js";

const COLOURS = 8;
const STATES = ["los", "nlos", "blocked", "outage", "handover", "fallback"];

// The colours of the style sheet, looked up once for each scheme.
const found = new Map();
const css = (name) => {
  if (!found.has(name)) found.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return found.get(name);
};

// Links of one hop have one colour; the uplink is dashed.
export const styles = (names) => {
  const hops = [...new Set(names.map((name) => name.replace(/\.(down|up)$/, "")))];
  return names.map((name) => ({
    colour: `--s${hops.indexOf(name.replace(/\.(down|up)$/, "")) % COLOURS}`,
    dash: name.endsWith(".up") ? [5, 3] : [],
  }));
};

const line = (name, style, extra = {}) => ({
  label: name,
  stroke: () => css(style.colour),
  dash: style.dash,
  width: 1.5,
  points: { show: false },
  ...extra,
});

const KINDS = [
  {
    id: "throughput", title: "Delivered, and the rate of the link (thin)", height: 260, wide: true, states: true,
    axis: format.axis(["bit/s", "kbit/s", "Mbit/s", "Gbit/s"]), value: format.rate,
    series: (store, style) => store.head.links.flatMap((name, link) => [
      { ...line(name, style[link]), of: () => store.links[link].delivered_bps, link },
      {
        ...line(`${name}, rate`, style[link], { width: 1, alpha: 0.55, quiet: true }),
        of: () => store.links[link].rate_bps, link,
      },
    ]),
  },
  {
    id: "wait", title: "Time in the queue", axis: format.axis(["ms", "s"]), value: format.time,
    series: (store, style) => store.head.links.map((name, link) => (
      { ...line(name, style[link]), of: () => store.links[link].wait_ms, link })),
  },
  {
    id: "transit", title: "One-way delay, round trip (thick)", axis: format.axis(["ms", "s"]), value: format.time,
    series: (store) => {
      const style = styles(store.head.directions);
      return [
        ...store.head.directions.map((name, at) => ({ ...line(name, style[at]), of: () => store.transit[at] })),
        { ...line("round trip", { colour: "--ink", dash: [] }, { width: 2 }), of: () => store.roundTrip },
      ];
    },
  },
  {
    id: "queue", title: "Queue", axis: format.axis(["B", "kB", "MB", "GB"]), value: format.bytes,
    series: (store, style) => store.head.links.map((name, link) => (
      { ...line(name, style[link]), of: () => store.links[link].queued_bytes, link })),
  },
  {
    id: "drops", title: "Dropped", axis: format.axis(["/s", "k/s", "M/s"]), value: format.perSecond,
    series: (store, style) => store.head.links.map((name, link) => (
      { ...line(name, style[link]), of: () => store.links[link].drops, link })),
  },
  {
    id: "sinr", title: "SINR of the data", axis: format.axis(["dB"]), value: format.decibel, zero: false,
    needs: (store) => store.links.some((columns) => columns.sinr_db.some((value) => value !== null)),
    series: (store, style) => store.head.links.map((name, link) => (
      { ...line(name, style[link]), of: () => store.links[link].sinr_db, link })),
  },
];

export class Charts {
  constructor(element) {
    this.element = element;
    this.charts = [];
    this.hidden = new Set();
    this.resize = new ResizeObserver(() => this.fit());
    this.resize.observe(element);
    this.seen = new IntersectionObserver((entries) => {
      for (const entry of entries) entry.target.chart.visible = entry.isIntersecting;
      if (this.seconds) this.draw(this.seconds);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  clear() {
    for (const chart of this.charts) {
      this.seen.unobserve(chart.figure);
      chart.plot.destroy();
    }
    this.charts = [];
    this.element.replaceChildren();
  }

  show(store) {
    this.clear();
    this.store = store;
    const style = styles(store.head.links);
    this.radio = store.head.links.findIndex((_, link) => store.links[link].state.some((state) => state !== null));
    for (const kind of KINDS) {
      if (!kind.needs || kind.needs(store)) this.add(kind, style);
    }
    this.apply();
  }

  // Whether a chart has come to be needed, or not any more, since `show`.
  isOutdated() {
    const sinr = KINDS.find((kind) => kind.id === "sinr").needs(this.store);
    const radio = this.store.links.some((columns) => columns.state.some((state) => state !== null));
    return sinr !== this.charts.some((chart) => chart.kind.id === "sinr") || radio !== this.radio >= 0;
  }

  add(kind, style) {
    const figure = document.createElement("figure");
    figure.id = `chart-${kind.id}`;
    figure.classList.toggle("wide", Boolean(kind.wide));
    const title = document.createElement("figcaption");
    const name = document.createElement("b");
    name.textContent = kind.title;
    const readout = document.createElement("span");
    readout.className = "readout";
    title.append(name, readout);
    figure.append(title);
    this.element.append(figure);
    const series = kind.series(this.store, style);
    const chart = { kind, figure, readout, series, visible: true };
    chart.plot = new uPlot(this.options(chart), [[], ...series.map(() => [])], figure);
    if (kind.states && this.radio >= 0) figure.append(legend());
    figure.chart = chart;
    this.seen.observe(figure);
    this.charts.push(chart);
  }

  options(chart) {
    const { kind, series } = chart;
    const low = kind.zero === false;
    return {
      width: this.width(kind), height: kind.height ?? 180, legend: { show: false }, pxAlign: false,
      cursor: { sync: { key: "time" }, drag: { x: false, y: false }, points: { show: false }, y: false },
      scales: {
        x: { time: false, auto: false },
        y: { range: (_, least, most) => (low ? [Math.min(least ?? 0, 0) - 2, (most ?? 10) + 2] : [0, most > 0 ? most * 1.08 : 1]) },
      },
      axes: [
        { ...axis(), values: (_, ticks) => ticks.map((tick) => (tick < 0 ? "" : `${Number(tick.toFixed(2))} s`)), space: 70, size: 28 },
        { ...axis(), values: kind.axis, size: 82 },
      ],
      series: [{}, ...series],
      hooks: {
        setCursor: [(plot) => this.read(chart, plot.cursor.idx)],
        drawClear: kind.states ? [() => chart.plot && this.bands(chart)] : [],
      },
    };
  }

  // The states of the first radio, behind the lines.
  bands(chart) {
    const { states } = chart;
    if (!states || !states.length) return;
    const { plot } = chart;
    const { ctx, bbox } = plot;
    const times = plot.data[0];
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.globalAlpha = Number(css("--shade"));
    let from = 0;
    for (let at = from + 1; at <= times.length; at += 1) {
      if (at < times.length && states[at] === states[from]) continue;
      if (states[from] !== null && states[from] !== "los") {
        const left = plot.valToPos(times[Math.max(0, from - 1)], "x", true);
        const right = plot.valToPos(times[at - 1], "x", true);
        ctx.fillStyle = css(`--${states[from]}`);
        ctx.fillRect(left, bbox.top, right - left, bbox.height);
      }
      from = at;
    }
    ctx.restore();
  }

  read(chart, index) {
    const data = chart.plot?.data;
    const time = index == null || !data ? undefined : data[0][index];
    if (time === undefined) {
      chart.readout.textContent = "";
      return;
    }
    const values = chart.series
      .map((each, at) => [each, data[at + 1][index]])
      .filter(([each, value]) => !each.quiet && !this.hidden.has(each.link) && value != null)
      .map(([each, value]) => `${each.label} ${chart.kind.value(value)}`);
    chart.readout.textContent = `${time.toFixed(2)} s: ${values.join(" · ") || "no packet"}`;
  }

  // Draws the last `seconds` in the charts that can be seen.
  draw(seconds) {
    this.seconds = seconds;
    const times = this.store.times;
    if (!times.length) return;
    const from = this.store.since(seconds);
    const last = times[times.length - 1];
    for (const chart of this.charts) {
      if (!chart.visible) continue;
      if (chart.kind.states && this.radio >= 0) chart.states = this.store.links[this.radio].state.slice(from);
      const data = [times.slice(from), ...chart.series.map((each) => each.of().slice(from))];
      chart.plot.setData(data, false);
      chart.plot.setScale("x", { min: last - seconds, max: last });
    }
  }

  // Shows the lines of a link, or hides them.
  toggle(link, shown) {
    if (shown) this.hidden.delete(link);
    else this.hidden.add(link);
    this.apply();
  }

  apply() {
    for (const { plot, series } of this.charts) {
      series.forEach((each, at) => {
        const show = !this.hidden.has(each.link);
        if (each.link !== undefined && plot.series[at + 1].show !== show) plot.setSeries(at + 1, { show });
      });
    }
  }

  width(kind) {
    const room = this.element.clientWidth;
    const two = matchMedia("(min-width: 900px)").matches && !kind.wide;
    return Math.max(240, two ? Math.floor((room - 20) / 2) : room);
  }

  fit() {
    for (const { plot, kind } of this.charts) {
      const width = this.width(kind);
      if (plot.width !== width) plot.setSize({ width, height: kind.height ?? 180 });
    }
  }

  redraw() {
    found.clear();
    for (const { plot } of this.charts) plot.redraw(false, true);
  }
}

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
