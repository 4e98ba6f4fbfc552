"use strict";
// Links to the trials of the cells that are searched for; a page of thousands of trials has them as text.
(() => {
  const island = document.getElementById("trial-list");
  if (!island) return;
  const { prefix, cells } = JSON.parse(island.textContent);
  const marks = { s: "?", i: "✗", f: "✗" };
  const most = 50;
  const list = document.getElementById("trial-links");
  const input = document.getElementById("find-cell");

  function link(cell, packed) {
    const element = document.createElement("a");
    const whole = packed.match(/^(\d+)=(.*)$/);
    const parts = packed.match(/^(\d+)\/(\d+)(\.\d+)?([sif]?)$/);
    const folder = whole ? whole[2] : `${parts[2]}-${cell}${parts[3] ?? ""}`;
    element.href = `${prefix}${encodeURIComponent(folder)}/`;
    element.title = folder;
    element.textContent = whole ? whole[1] : parts[1] + (marks[parts[4]] ?? "");
    return element;
  }

  function show() {
    const wanted = input.value.trim().toLowerCase().split(/\s+/);
    const found = Object.keys(cells).filter((cell) => wanted.every((word) => cell.toLowerCase().includes(word)));
    const items = found.slice(0, most).map((cell) => {
      const item = document.createElement("li");
      const name = document.createElement("b");
      name.textContent = cell;
      const links = document.createElement("span");
      for (const packed of cells[cell].split(" ").filter(Boolean)) links.append(link(cell, packed), " ");
      item.append(name, " ", links);
      return item;
    });
    list.replaceChildren(...items);
    document.getElementById("found-cells").textContent =
      found.length > most ? `${most} of ${found.length} cells` : `${found.length} cell${found.length === 1 ? "" : "s"}`;
  }

  input.addEventListener("input", show);
  show();
})();
