"use strict";
// Figures that zoom and pan, the choice of the seed, and which treatments are shown.
(() => {
  document.documentElement.classList.add("scripted");

  const make = (tag, text, style) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (style) element.className = style;
    return element;
  };

  const style = (element, name) => getComputedStyle(element).getPropertyValue(name);
  const write = (value) => (value == null ? "–" : (Math.abs(value) >= 1000 ? Math.round(value) : Number(value.toPrecision(3)))
    .toLocaleString("en", { maximumFractionDigits: 9 }).replaceAll(",", "\u202f").replace("-", "−"));
  const time = document.getElementById("time");
  const drawn = [];

  // A line of the picture as times and values; null between two pieces of it.
  function read(path, svg, start, end) {
    const { width, height } = svg.viewBox.baseVal;
    const [low, high] = [Number(svg.dataset.low), Number(svg.dataset.high)];
    const xs = [], ys = [];
    let x = 0, y = 0;
    for (const [, way, first, second] of path.getAttribute("d").matchAll(/([MlhvV])(-?\d+)(?: ?(-?\d+))?/g)) {
      const [a, b] = [Number(first), Number(second)];
      if (way === "M") {
        if (xs.length) { xs.push(start + ((x + a) / 2 / width) * (end - start)); ys.push(null); }
        [x, y] = [a, b];
      } else if (way === "l") { x += a; y += b; } else if (way === "h") { x += a; continue; } else { y += a; }
      xs.push(start + (x / width) * (end - start));
      ys.push(high - (y / height) * (high - low));
    }
    return [xs, ys];
  }

  // The panels of a figure: one time axis, one cursor.
  function live(figure, key) {
    const [start, end] = [Number(figure.dataset.start), Number(figure.dataset.end)];
    const plot = figure.querySelector(".plot");
    const cursor = figure.querySelector(".cursor");
    const readout = figure.querySelector(".readout");
    const areas = [...figure.querySelectorAll(".area")];
    const gutters = () => [parseFloat(style(plot, "padding-left")), parseFloat(style(plot, "padding-right"))];
    let range = [start, end];
    let panels = [];

    function zoom(from, to) {
      const width = Math.min(Math.max(to - from, (end - start) / 2000), end - start);
      from = Math.min(Math.max(from, start), end - width);
      range = [from, from + width];
      const [left, wide] = [(from - start) / (end - start), width / (end - start)];
      for (const track of figure.querySelectorAll(".track")) {
        Object.assign(track.style, { left: `${(-100 * left) / wide}%`, width: `${100 / wide}%` });
      }
      figure.classList.toggle("zoomed", wide < 1);
      for (const panel of panels) panel.setScale("x", { min: range[0], max: range[1] });
    }
    function pan(event) {
      const [from, to] = range;
      const scale = (to - from) / areas[0].clientWidth;
      const move = (at) => zoom(from - (at.clientX - event.clientX) * scale, to - (at.clientX - event.clientX) * scale);
      addEventListener("mousemove", move);
      addEventListener("mouseup", () => removeEventListener("mousemove", move), { once: true });
    }
    function tell(panel) {
      const left = panel.cursor.left;
      cursor.hidden = left < 0;
      if (left < 0) return readout.replaceChildren();
      cursor.style.left = `${gutters()[0] + left}px`;
      const at = panel.posToVal(left, "x");
      const share = (100 * (at - start)) / (end - start);
      const state = [...figure.querySelectorAll(".inside .bar")].find((bar) => {
        const from = parseFloat(bar.style.left);
        return from <= share && share < from + parseFloat(bar.style.width);
      });
      const places = Math.max(0, Math.ceil(-Math.log10((range[1] - range[0]) / 400)));
      readout.textContent = `${at.toFixed(places)} s${state ? `, ${state.className.split(" ")[1].toUpperCase()}` : ""}`;
    }

    function build(area, last) {
      const svg = area.querySelector("svg.lines");
      const paths = [...svg.querySelectorAll("path.line")];
      // Of stacked lines, the highest first, each has those after it below.
      const stacked = paths.some((path) => path.matches(".stack"));
      const stepped = paths.map((path) => /v/.test(path.getAttribute("d")));
      const data = uPlot.join(paths.map((path) => read(path, svg, start, end)));
      stepped.forEach((holds, index) => {  // so that an axis fits what holds in a stretch without a change
        const values = data[index + 1];
        if (holds) for (let at = 1; at < values.length; at++) if (values[at] === undefined) values[at] = values[at - 1];
      });
      const axis = {
        stroke: () => style(figure, "--soft"), font: "12px system-ui, sans-serif", ticks: { show: false },
        grid: { stroke: () => style(figure, "--rule"), width: 1 }, values: (_, ticks) => ticks.map((tick) => tick.toLocaleString("en", { maximumFractionDigits: 9 }).replaceAll(",", "\u202f").replace("-", "−")),
      };
      return new uPlot({
        ...size(area, last),
        padding: [8, gutters()[1], last ? 0 : 8, 0],
        scales: {
          x: { time: false, range: () => range },
          y: { range: (_, low, high) => (low === null ? [0, 1] : uPlot.rangeNum(range[1] - range[0] < end - start ? low : Math.min(0, low), high, 0.1, true)) },
        },
        axes: [
          { ...axis, show: last, size: 19, labelSize: 17, label: "time in the trial, s", labelFont: axis.font, grid: { show: false } },
          { ...axis, size: gutters()[0], gap: 7, space: 34 },
        ],
        series: [{ class: "unnamed" }, ...paths.map((path, index) => {
          const own = getComputedStyle(path);
          return {
            label: path.dataset.name, class: path.dataset.name ? path.classList[1] : "unnamed", style: path.classList[1],
            show: !time.matches(`.no-${path.classList[1]}`), stroke: () => own.stroke, width: parseFloat(own.strokeWidth),
            dash: own.strokeDasharray === "none" ? undefined : own.strokeDasharray.split(",").map(parseFloat),
            fill: stacked ? () => getComputedStyle(path.previousElementSibling).fill : path.previousElementSibling.matches(".fill") ? () => own.stroke.replace("rgb(", "rgba(").replace(")", ", .15)") : undefined,
            paths: stepped[index] ? uPlot.paths.stepped({ align: 1 }) : undefined, points: { show: false }, value: (panel, value, at, place) => write(value == null || !stacked || at === paths.length ? value : value - panel.data[at + 1][place ?? 0]),
          };
        })],
        legend: { mount: (_, legend) => area.previousElementSibling.append(legend), markers: { dash: (panel, at) => (panel.series[at].dash ? "dashed" : "solid") } },
        cursor: {
          x: false, y: false, hover: { prox: (_, at) => (stepped[at - 1] ? null : 20) }, drag: { setScale: false, dist: 4 },
          sync: { key, scales: ["x", null], filters: { pub: (kind) => kind === "mousemove" || kind === "mouseleave" } },
          bind: {
            mousedown: (_, __, handle) => (event) => { if (event.button === 0) (event.shiftKey ? pan : handle)(event); },
            dblclick: () => () => zoom(start, end),
          },
        },
        hooks: {
          setCursor: [(panel) => panel === panels[0] && tell(panel)],
          setSelect: [(panel) => {
            const { left, width } = panel.select;
            if (width > 0) zoom(panel.posToVal(left, "x"), panel.posToVal(left + width, "x"));
            panel.setSelect({ width: 0, height: 0 }, false);
          }],
        },
      }, data, area);
    }
    const size = (area, last) => ({ width: area.clientWidth + gutters()[0] + gutters()[1], height: area.clientHeight + (last ? 44 : 16) });

    new ResizeObserver(() => {
      if (!figure.clientWidth) return;
      if (panels.length) return panels.forEach((panel, index) => panel.setSize(size(areas[index], index === areas.length - 1)));
      figure.classList.add("live");
      panels = areas.map((area, index) => build(area, index === areas.length - 1));
      drawn.push(...panels);
    }).observe(figure);

    figure.addEventListener("keydown", (event) => {
      const [from, to] = range;
      const width = to - from;
      const steps = { ArrowLeft: -1, ArrowRight: 1, PageDown: 20, PageUp: -20, Home: -1e9, End: 1e9 }[event.key];
      const { left } = panels[0].cursor;
      if (event.target !== figure || event.ctrlKey || event.metaKey) return;
      if (event.key === "Escape") panels[0].setCursor({ left: -10, top: -10 }, true, true);
      else if (event.key === "0") zoom(start, end);
      else if (event.key === "+") zoom(from + width / 4, to - width / 4);
      else if (event.key === "-") zoom(from - width / 2, to + width / 2);
      else if (steps && event.shiftKey) zoom(from + (steps * width) / 10, to + (steps * width) / 10);
      else if (steps) {
        const wide = panels[0].over.clientWidth;
        panels[0].setCursor({ left: Math.min(Math.max(Math.max(left, 0) + (steps * wide) / 400, 0), wide), top: 0 }, true, true);
      } else return;
      event.preventDefault();
    });
    figure.addEventListener("blur", () => panels[0].setCursor({ left: -10, top: -10 }, true, true));
  }

  document.querySelectorAll("figure.chart[data-start]").forEach((figure, index) => live(figure, `figure ${index}`));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach((panel) => panel.redraw(false)));

  const controls = time && time.querySelector(".controls");
  if (!controls) return;

  const views = [...time.querySelectorAll("details.view")];
  if (views.length > 1) {
    const label = make("label", "Shown: ");
    const select = make("select");
    views.forEach((view, index) => {
      const option = make("option", view.querySelector("summary").textContent);
      option.value = index;
      option.selected = view.open;
      select.append(option);
    });
    select.addEventListener("change", () => views.forEach((view, index) => { view.open = index === Number(select.value); }));
    label.append(select);
    controls.prepend(label);
  }
  for (const item of controls.querySelectorAll(".legend li")) {
    const style = item.dataset.style;
    const label = make("label");
    const box = make("input", undefined, style);
    box.type = "checkbox";
    box.checked = true;
    box.addEventListener("change", () => {
      time.classList.toggle(`no-${style}`, !box.checked);
      for (const panel of drawn) {
        panel.series.forEach((line, at) => line.style === style && panel.setSeries(at, { show: box.checked }));
      }
    });
    label.append(box, ...item.childNodes);
    item.replaceChildren(label);
  }
})();
