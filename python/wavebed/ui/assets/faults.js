// Faults on command: an outage, several of them, a handover.

import { ask } from "./feed.js";

export class Faults {
  constructor(section, said) {
    Object.assign(this, { section, said, key: "" });
    this.target = section.querySelector("select.target");
    this.forms = [...section.querySelectorAll("form")];
    this.error = section.querySelector(".error");
    this.target.addEventListener("change", () => this.offer());
    for (const form of this.forms) {
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        this.apply(form.dataset.key, this.value(form));
      });
    }
    section.querySelector(".end").addEventListener("click", () => this.apply("outage", "0s"));
  }

  // Takes the links of a laboratory; where none of them can be changed there are no faults.
  show(lab, links) {
    const able = links.filter((link) => link.takes.length);
    this.section.hidden = !able.length;
    const key = JSON.stringify([lab, able.map(({ name, takes }) => [name, takes])]);
    if (key === this.key) return;
    Object.assign(this, { lab, key });
    this.takes = new Map(able.map((link) => [link.name, link.takes]));
    this.target.replaceChildren(new Option("all links", ""), ...able.map(({ name }) => new Option(name, name)));
    this.error.textContent = "";
    this.offer();
  }

  // A handover needs a radio.
  offer() {
    const name = this.target.value;
    const takes = name ? this.takes.get(name) : [...this.takes.values()].flat();
    this.forms.find((form) => form.dataset.key === "handover").hidden = !takes.includes("handover");
  }

  // As `wavebed ctl` writes it.
  value({ dataset, elements }) {
    const parts = [...elements].filter((each) => each.name).map((each) => each.value.trim());
    return dataset.key === "outage" ? parts[0] : parts.filter(Boolean).join(":");
  }

  async apply(key, value) {
    const name = this.target.value;
    const at = `/api/labs/${encodeURIComponent(this.lab)}/links${name ? `/${encodeURIComponent(name)}` : ""}`;
    try {
      await ask("PATCH", at, { [key]: value });
      this.error.textContent = "";
      this.said(`${name || "all links"}: ${value === "0s" ? "no outage" : `${key} ${value}`}`);
    } catch (error) {
      this.error.textContent = error.message;
    }
  }
}
