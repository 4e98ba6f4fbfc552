"use strict";
// The readout: what every line shows at the time under the pointer, or at the time chosen with the arrow keys.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const chart = document.getElementById("chart");
  const cursor = document.getElementById("cursor");
  const readout = document.getElementById("readout");
  const [left, right, end] = chart.dataset.frame.split(" ").map(Number);
  const idle = readout.innerHTML;
  let at = null;

  const cell = (tag, text) => {
    const element = document.createElement(tag);
    element.textContent = text;
    return element;
  };
  const number = (value, digits) => (value === null || value === undefined ? "–" : value.toFixed(digits));

  function show(time) {
    at = Math.min(Math.max(time, 0), end - data.step_s);
    const index = Math.floor(at / data.step_s + 1e-9);
    const x = left + ((right - left) * (index + 0.5) * data.step_s) / end;
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.setAttribute("visibility", "visible");
    const from = index * data.step_s;
    const table = document.createElement("table");
    const head = table.insertRow();
    const span = `${from.toFixed(1)} to ${(from + data.step_s).toFixed(1)} s`;
    for (const text of [span, "Mbit/s", "queue kB", "RTT ms"]) head.append(cell("th", text));
    for (const flow of data.flows) {
      const row = table.insertRow();
      const name = cell("td", flow.label);
      const key = document.createElement("span");
      key.className = `key ${flow.key}`;
      name.prepend(key);
      row.append(name, cell("td", number(flow.mbps[index], 0)), cell("td", number(flow.queue_kb[index], 0)),
        cell("td", number(flow.rtt_ms[index], 1)));
    }
    const row = table.insertRow();
    const name = cell("td", "capacity");
    const key = document.createElement("span");
    key.className = "key capacity";
    name.prepend(key);
    row.append(name, cell("td", number(data.capacity_mbps[index], 0)), cell("td", ""), cell("td", ""));
    readout.replaceChildren(table);
  }

  function hide() {
    at = null;
    cursor.setAttribute("visibility", "hidden");
    readout.innerHTML = idle;
  }

  chart.addEventListener("pointermove", (event) => {
    const box = chart.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * chart.viewBox.baseVal.width;
    if (x < left || x > right) return hide();
    show(((x - left) / (right - left)) * end);
  });
  chart.addEventListener("pointerleave", hide);
  chart.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageDown: 10, PageUp: -10 }[event.key];
    if (event.key === "Escape") return hide();
    if (!steps) return;
    event.preventDefault();
    show((at ?? 0) + steps * data.step_s);
  });
})();
