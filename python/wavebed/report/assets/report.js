"use strict";
// The read-out of figures at a moment, the choice of the seed, and which treatments are shown.
(() => {
  document.documentElement.classList.add("scripted");

  const make = (tag, text, style) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (style) element.className = style;
    return element;
  };
  const digits = (step) => Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));

  for (const figure of document.querySelectorAll("figure.chart[tabindex]")) {
    const island = figure.querySelector("script.data");
    const cursor = figure.querySelector(".cursor");
    const readout = figure.querySelector(".readout");
    const plot = figure.querySelector(".plot");
    let data = null;
    let at = null;

    const load = () => (data ??= JSON.parse(island.textContent));
    const area = () => {
      const box = plot.getBoundingClientRect();
      const style = getComputedStyle(plot);
      const left = parseFloat(style.paddingLeft);
      return { left, from: box.left + left, width: box.width - left - parseFloat(style.paddingRight) };
    };

    function show(index) {
      load();
      const last = Math.ceil((data.end - data.start) / data.step - 1e-9) - 1;
      at = Math.min(Math.max(index, 0), last);
      const from = data.start + at * data.step;
      const { left, width } = area();
      cursor.hidden = false;
      cursor.style.left = `${left + (width * Math.min((at + 0.5) * data.step, data.end - data.start)) / (data.end - data.start)}px`;
      const places = digits(data.step);
      const items = [make("span", `${from.toFixed(places)} to ${(from + data.step).toFixed(places)} s`, "item")];
      const state = data.states.find(([begin, end]) => begin <= from + data.step / 2 && (end === null || from + data.step / 2 < end));
      if (state) items[0].textContent += `, ${state[2].toUpperCase()}`;
      for (const panel of data.panels) {
        const item = make("span", undefined, "item");
        item.append(make("b", panel.title.split(":")[0]));
        let some = false;
        for (const line of panel.lines) {
          const value = line.values[at];
          if (value === null || value === undefined) continue;
          some = true;
          item.append(make("i", undefined, `key ${line.style}`), `${line.name} ${value.toLocaleString("en").replaceAll(",", "\u202f")}`);
        }
        if (!some) continue;
        item.append(panel.unit ? ` ${panel.unit}` : "");
        items.push(item);
      }
      readout.replaceChildren(...items);
    }
    function hide() {
      at = null;
      cursor.hidden = true;
      readout.replaceChildren();
    }

    plot.addEventListener("pointermove", (event) => {
      load();
      const { from, width } = area();
      const share = (event.clientX - from) / width;
      if (share < 0 || share > 1) return hide();
      show(Math.floor((share * (data.end - data.start)) / data.step));
    });
    plot.addEventListener("pointerleave", hide);
    figure.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -1, ArrowRight: 1, PageDown: 20, PageUp: -20, Home: -1e9, End: 1e9 }[event.key];
      if (event.key === "Escape") return hide();
      if (!steps || event.target !== figure) return;
      event.preventDefault();
      show((at ?? 0) + steps);
    });
    figure.addEventListener("blur", hide);
  }

  const time = document.getElementById("time");
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
    box.addEventListener("change", () => time.classList.toggle(`no-${style}`, !box.checked));
    label.append(box, ...item.childNodes);
    item.replaceChildren(label);
  }
})();
