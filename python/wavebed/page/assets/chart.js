"use strict";
// The read-out of charts at one of their points.
(() => {
  document.documentElement.classList.add("scripted");

  const make = (tag, text, style) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (style) element.className = style;
    return element;
  };

  for (const figure of document.querySelectorAll("figure.chart.xy")) {
    const data = JSON.parse(figure.querySelector("script.data").textContent);
    const area = figure.querySelector(".area");
    const cursor = figure.querySelector(".cursor");
    const readout = figure.querySelector(".readout");
    let at = null;
    if (!data.places.length) continue;

    function show(index) {
      at = Math.min(Math.max(index, 0), data.places.length - 1);
      cursor.hidden = false;
      cursor.style.left = `${100 * data.places[at]}%`;
      const items = [make("span", data.label ? `${data.label}: ${data.texts[at]}` : data.texts[at], "item")];
      for (const line of data.lines) {
        if (line.values[at] === null) continue;
        const item = make("span", undefined, "item");
        item.append(make("i", undefined, `key ${line.style}`), `${line.name} ${line.values[at]}${data.unit ? ` ${data.unit}` : ""}`);
        items.push(item);
      }
      readout.replaceChildren(...items);
    }
    function hide() {
      at = null;
      cursor.hidden = true;
      readout.replaceChildren();
    }

    area.addEventListener("pointermove", (event) => {
      const box = area.getBoundingClientRect();
      const share = (event.clientX - box.left) / box.width;
      let nearest = 0;
      data.places.forEach((place, index) => {
        if (Math.abs(place - share) < Math.abs(data.places[nearest] - share)) nearest = index;
      });
      show(nearest);
    });
    area.addEventListener("pointerleave", hide);
    figure.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -1, ArrowRight: 1, PageDown: 20, PageUp: -20, Home: -1e9, End: 1e9 }[event.key];
      if (event.key === "Escape") return hide();
      if (!steps || event.target !== figure) return;
      event.preventDefault();
      show(at === null && event.key !== "End" ? 0 : (at ?? 0) + steps);
    });
    figure.addEventListener("blur", hide);
  }
})();
