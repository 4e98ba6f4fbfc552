// The page: chooses a laboratory, listens to it, and keeps table and charts up to date.

import { Charts } from "./charts.js";
import { Devices } from "./devices.js";
import { Faults } from "./faults.js";
import { ask, listen } from "./feed.js";
import * as format from "./format.js";
import { Links } from "./links.js";
import { Maps } from "./map.js";
import { Recordings } from "./recordings.js";
import { Store } from "./store.js";
import { Timeline } from "./timeline.js";

const LABS_MS = 3000;
const STATE_MS = 2000;
const TABLE_MS = 250;
const SILENT_MS = 3000;

const byId = (id) => document.getElementById(id);
const state = { lab: null, wanted: null, store: null, close: () => {}, paused: false, waits: false, heard: 0, settings: {} };

// The token was in the address once; the cookie has its place now.
history.replaceState(null, "", location.pathname + location.hash);

const said = (text) => {
  byId("said").textContent = text;
};
const charts = new Charts(byId("charts"));
const links = new Links(byId("links").querySelector("table"), byId("change"), {
  toggle: (link, shown) => charts.toggle(link, shown),
  said,
});
const devices = new Devices(byId("devices"), byId("all-links"), (link, shown) => links.toggle(link, shown));
const maps = new Maps(byId("map"));
const timeline = new Timeline(byId("timeline"), byId("stretch"), said);
const faults = new Faults(byId("faults"), said);
const recordings = new Recordings(byId("recordings"), said);
const every = () => Number(byId("every").value);
const seconds = () => Number(byId("window").value);

const live = (kind, text) => {
  byId("live").hidden = false;
  byId("live").dataset.kind = kind;
  byId("live").querySelector(".text").textContent = text;
};

const start = (lab) => {
  state.close();
  maps.show([]);
  timeline.show(lab, null);
  faults.show(lab, []);
  state.lab = lab;
  state.store = null;
  charts.clear();
  byId("none").hidden = lab !== null;
  byId("shown").hidden = true;
  byId("foot").hidden = lab !== null;
  document.title = lab === null ? "wavebed" : `${lab} – wavebed`;
  if (lab === null) {
    live("off", "waiting");
    state.close = () => {};
    return;
  }
  live("wait", "connecting");
  state.close = listen(lab, every(), {
    head: (head) => {
      state.store = new Store(head);
      state.fresh = true;
    },
    points: (points) => {
      state.store.add(points);
      if (!state.paused) timeline.move(points.timeline);
      state.heard = performance.now();
      if (state.fresh) unveil();
      redraw();
    },
    broken: () => live("wait", "connection lost, trying again"),
    ended: () => {
      live("off", "no samples: it has ended, or its time has not begun");
      state.lab = null;
    },
  });
};

// Shows the laboratory once everything has come that takes up room, so that nothing moves afterwards.
const unveil = async () => {
  const { store } = state;
  if (state.unveils === store) return;
  state.unveils = store;
  const apply = await slow();
  if (store !== state.store) return;
  state.fresh = false;
  byId("shown").hidden = false;
  byId("foot").hidden = false;
  charts.hidden.clear();
  charts.show(store);
  links.show(state.lab, store);
  devices.show(store);
  recordings.show(state.lab, store, every(), state.settings.records);
  recordings.update();
  apply();
  values();
  draw();
};

// Looks which laboratories run.
const labs = async () => {
  if (state.looks) return;
  state.looks = true;
  try {
    const { laboratories, settings } = await ask("GET", "/api/labs");
    state.settings = settings;
    const names = laboratories.map((lab) => lab.name);
    const select = byId("lab");
    const before = [...select.options].map((option) => option.value);
    if (before.join() !== names.join()) {
      select.replaceChildren(...names.map((name) => new Option(name, name)));
    }
    select.disabled = names.length < 2;
    if (!names.includes(state.lab)) start(names.includes(state.wanted) ? state.wanted : names[0] ?? null);
    if (state.lab !== null) select.value = state.lab;
  } catch {
    live("off", "wavebed ui has ended");
  } finally {
    state.looks = false;
  }
};

// A host with its address, and of a real one its interface and how far its clock is ahead.
const host = ({ name, ipv4, interface: port, clock_ahead_ms: ahead, clock_error_ms: error }) => {
  const clock = ahead == null ? "" : `, clock ${ahead < 0 ? "−" : "+"}${Math.abs(ahead).toFixed(2)} ms ± ${error.toFixed(2)} ms`;
  return `${[name, ipv4, port].filter(Boolean).join(" ")}${clock}`;
};

const flows = (now) => {
  if (!now) return "";
  const trip = now.max_rtt_us == null ? "" : `, round trip at most ${format.time(now.max_rtt_us / 1000)}`;
  return `${now.count} TCP connections${trip}`;
};

// Asks for what changes slowly: totals, hosts, what can be changed. Returns what shows it.
const slow = async () => {
  const { lab } = state;
  const { asked } = timeline;
  try {
    const name = encodeURIComponent(lab);
    const [whole, drawn] = await Promise.all([ask("GET", `/api/labs/${name}`), ask("GET", `/api/labs/${name}/maps`)]);
    return () => lab === state.lab && showSlow(lab, whole, drawn, asked);
  } catch {
    return () => {}; // It has ended, or is busy: the stream says so.
  }
};

const showSlow = (lab, whole, drawn, asked) => {
  links.total(whole);
  faults.show(lab, whole.links);
  if (!state.paused) timeline.looked(lab, whole.timeline ?? null, asked);
  maps.show(drawn.maps);
  const shared = whole.hops.filter((hop) => !hop.name.includes(".")); // those of devices have a row each
  const kinds = new Map(shared.map((hop) => [hop.name, hop.kind]));
  const hops = [...kinds].map(([name, kind]) => (kind === name ? name : `${name} (${kind})`));
  const parts = [whole.hosts.map(host).join(" – "), hops.length ? `hops: ${hops.join(", ")}` : "", flows(whole.flows)];
  byId("path").textContent = parts.filter(Boolean).join(" · ");
  byId("change-all").disabled = !whole.links.some((link) => link.takes.length);
};

const look = async () => {
  if (state.lab === null || !state.store || state.fresh || document.hidden) return;
  (await slow())();
};

const table = () => {
  if (!state.store || !state.store.length || state.fresh || document.hidden) return;
  const silent = performance.now() - state.heard > SILENT_MS + every();
  if (state.paused) return;
  if (state.lab !== null) live(silent ? "wait" : "on", silent ? "no samples" : format.clock(state.store.last));
  values();
  if (charts.isOutdated()) charts.show(state.store);
  byId("lost").textContent = state.store.lost ? `${format.count(state.store.lost)} samples lost` : "";
};

const values = () => {
  links.update();
  devices.update(seconds());
  timeline.update();
};

const draw = () => {
  charts.draw(seconds());
  maps.draw(state.store, state.store.last);
  timeline.draw();
};

// Draws once for all points that have come since the last frame; without points nothing is drawn.
const frame = () => {
  state.waits = false;
  if (state.paused || !state.store || state.fresh) return;
  draw();
};

const redraw = () => {
  if (state.waits) return;
  state.waits = true;
  requestAnimationFrame(frame);
};

byId("lab").addEventListener("change", (event) => {
  state.wanted = event.target.value;
  start(state.wanted);
});
byId("every").addEventListener("change", () => start(state.lab));
byId("window").addEventListener("change", () => {
  if (state.store && !state.fresh) charts.draw(seconds());
});
byId("pause").addEventListener("click", (event) => {
  state.paused = !state.paused;
  event.target.setAttribute("aria-pressed", String(state.paused));
  event.target.textContent = state.paused ? "Go on" : "Pause";
  // The points go on behind a paused page; it keeps those that it shows.
  if (state.store && !state.fresh) charts.store = state.paused ? state.store.copy() : state.store;
  if (state.paused) live("wait", "paused");
});
byId("change-all").addEventListener("click", () => links.open(null));

labs();
setInterval(labs, LABS_MS);
setInterval(look, STATE_MS);
setInterval(() => state.store && recordings.update(), STATE_MS);
setInterval(table, TABLE_MS);
