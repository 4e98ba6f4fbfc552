"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const colours = () => dark.matches ? data.dark : data.colours;
const LEFT = 66, RIGHT = 26, TOP = 8, BOTTOM = 44;
let view = [0, data.end], hover = null, drag = null;
const panels = data.panels.map((panel) => {
  const box = document.createElement("div");
  box.className = "panel";
  const canvas = document.createElement("canvas");
  canvas.style.height = panel.height + "px";
  box.append(canvas);
  document.getElementById("panels").append(box);
  return { ...panel, canvas };
});
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function ticks(low, high, count) {
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((m) => m * power >= raw) * power, out = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high * (1 + 1e-12) + 1e-12; k++) out.push(+(k * step).toPrecision(12));
  return out;
}
function find(edges, x) {
  let low = 0, high = edges.length - 1;
  if (x < edges[0] || x > edges[high]) return -1;
  while (high - low > 1) { const mid = (low + high) >> 1; if (edges[mid] <= x) low = mid; else high = mid; }
  return low;
}
function say(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1000 ? value.toFixed(0) : size >= 1 ? +value.toPrecision(4) + "" : value.toPrecision(3);
}
function path(context, curve, values, x, y, from, to) {
  for (let i = from; i <= to; i++) {
    context.lineTo(x(curve.edges[i]), y(values[i]));
    context.lineTo(x(curve.edges[i + 1]), y(values[i]));
  }
}
function paint(panel) {
  const canvas = panel.canvas, ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = panel.height;
  canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const bottom = height - BOTTOM, right = width - RIGHT;
  const x = (t) => LEFT + (t - view[0]) / (view[1] - view[0]) * (right - LEFT);
  const base = panel.base || 0;
  const y = (v) => bottom - (v - base) / (panel.top - base) * (bottom - TOP);
  context.font = "12px system-ui, sans-serif";
  context.lineWidth = 1;
  context.textAlign = "right"; context.textBaseline = "middle";
  for (const tick of ticks(base, panel.top, Math.max(2, height / 55))) {
    context.strokeStyle = css("--grid"); context.beginPath();
    context.moveTo(LEFT, y(tick)); context.lineTo(right, y(tick)); context.stroke();
    context.fillStyle = css("--faint"); context.fillText(+tick.toPrecision(6), LEFT - 8, y(tick));
  }
  context.textAlign = "center"; context.textBaseline = "top";
  for (const tick of ticks(view[0], view[1], Math.max(2, width / 110))) {
    context.fillStyle = css("--faint"); context.fillText(+tick.toPrecision(9), x(tick), bottom + 6);
    context.strokeStyle = css("--axis"); context.beginPath();
    context.moveTo(x(tick), bottom); context.lineTo(x(tick), bottom + 4); context.stroke();
  }
  context.fillStyle = css("--ink"); context.fillText(data.packets ? "packet" : "time (s)", (LEFT + right) / 2, bottom + 24);
  context.save(); context.translate(13, (TOP + bottom) / 2); context.rotate(-Math.PI / 2);
  context.fillStyle = css("--ink"); context.textBaseline = "middle"; context.fillText(panel.label, 0, 0); context.restore();
  context.save(); context.beginPath(); context.rect(LEFT, TOP - 4, right - LEFT, bottom - TOP + 5); context.clip();
  context.fillStyle = "rgba(" + css("--outage") + ", 0.22)";
  for (const [start, end] of panel.outages) context.fillRect(x(start), TOP, Math.max(1.5, x(end) - x(start)), bottom - TOP);
  context.globalAlpha = 0.22;
  for (const state of panel.states) {
    context.fillStyle = state.colour;
    for (const [start, end] of state.spans) context.fillRect(x(start), TOP, Math.max(1.5, x(end) - x(start)), bottom - TOP);
  }
  context.globalAlpha = 1;
  for (const curve of panel.curves) {
    const colour = colours()[curve.series % colours().length], last = curve.mean.length - 1;
    const from = Math.max(0, find(curve.edges, view[0])), hit = find(curve.edges, view[1]), to = hit < 0 ? last : Math.min(last, hit);
    context.fillStyle = colour; context.globalAlpha = curve.low ? 0.25 : 0.13;
    if (curve.low || panel.curves.length === 1) {
      context.beginPath();
      path(context, curve, curve.high || curve.mean, x, y, from, to);
      for (let i = to; i >= from; i--) {
        const low = curve.low ? curve.low[i] : base;
        context.lineTo(x(curve.edges[i + 1]), y(low)); context.lineTo(x(curve.edges[i]), y(low));
      }
      context.fill();
    }
    context.globalAlpha = 1; context.strokeStyle = colour; context.lineWidth = 1.5; context.beginPath();
    path(context, curve, curve.mean, x, y, from, to); context.stroke();
    if (hover !== null) {
      const at = find(curve.edges, hover);
      if (at >= 0) { context.fillStyle = colour; context.beginPath(); context.arc(x(hover), y(curve.mean[at]), 3.5, 0, 7); context.fill(); }
    }
  }
  context.lineWidth = 1;
  if (drag) {
    context.fillStyle = "rgba(120, 140, 160, 0.25)";
    context.fillRect(x(drag[0]), TOP, x(drag[1]) - x(drag[0]), bottom - TOP);
  }
  if (hover !== null) {
    context.strokeStyle = css("--axis"); context.beginPath(); context.moveTo(x(hover), TOP); context.lineTo(x(hover), bottom); context.stroke();
  }
  context.restore();
  context.strokeStyle = css("--axis"); context.beginPath(); context.moveTo(LEFT, bottom); context.lineTo(right, bottom); context.stroke();
}
function readout() {
  const box = document.getElementById("readout");
  if (hover === null) return;
  box.className = ""; box.textContent = "";
  const add = (text, colour) => {
    const span = document.createElement("span");
    if (colour) { const dot = document.createElement("i"); dot.className = "dot"; dot.style.background = colour; span.append(dot); }
    span.append(text); box.append(span);
  };
  add(data.packets ? "packet " + Math.floor(hover) : "t = " + hover.toFixed(data.end < 10 ? 4 : 2) + " s");
  for (const panel of panels) for (const curve of panel.curves) {
    const at = find(curve.edges, hover);
    if (at < 0) continue;
    const range = curve.low && curve.low[at] < curve.high[at] ? " (" + say(curve.low[at]) + " to " + say(curve.high[at]) + ")" : "";
    add((curve.name !== undefined ? curve.name + " " : panels.length > 1 || data.names.length > 1 ? data.names[curve.series] + " " : "") + panel.name + " " + say(curve.mean[at]) + range + " " + panel.unit, colours()[curve.series % colours().length]);
  }
}
function locate() {
  const walks = data.walks ?? [data.walk];
  document.querySelectorAll(".map > i").forEach((dot, number) => follow(dot, walks[number]));
}
function follow(dot, walk) {
  dot.hidden = hover === null;
  if (hover === null) return;
  const { time, x, y } = walk, at = Math.max(0, find(time, Math.min(hover, time[time.length - 1])));
  const next = Math.min(at + 1, time.length - 1), part = next > at ? Math.min(1, (hover - time[at]) / (time[next] - time[at])) : 0;
  dot.style.left = 100 * (x[at] + part * (x[next] - x[at])) + "%";
  dot.style.top = 100 * (y[at] + part * (y[next] - y[at])) + "%";
}
function all() {
  for (const dot of document.querySelectorAll("[data-series]")) dot.style.background = colours()[dot.dataset.series % colours().length];
  for (const panel of panels) paint(panel);
  readout();
  locate();
}
for (const panel of panels) {
  const canvas = panel.canvas;
  const time = (event) => {
    const part = (event.offsetX - LEFT) / (canvas.clientWidth - LEFT - RIGHT);
    return Math.min(view[1], Math.max(view[0], view[0] + part * (view[1] - view[0])));
  };
  canvas.addEventListener("pointermove", (event) => { hover = time(event); if (drag) drag[1] = hover; all(); });
  canvas.addEventListener("pointerleave", () => { if (!drag) { hover = null; all(); } });
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); drag = [time(event), time(event)]; });
  canvas.addEventListener("pointerup", () => {
    if (drag) {
      const [low, high] = [Math.min(...drag), Math.max(...drag)];
      if (high - low > (view[1] - view[0]) / 200) view = [low, high];
    }
    drag = null; all();
  });
  canvas.addEventListener("dblclick", () => { view = [0, data.end]; all(); });
}
addEventListener("resize", all);
dark.addEventListener("change", all);
all();
