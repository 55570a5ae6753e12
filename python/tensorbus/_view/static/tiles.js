// A tile: one topic, drawn by the kind of its newest sample.

import { Cloud } from "./cloud.js";
import { number, seconds } from "./format.js";
import { Curve, Lanes, Pixels, colour } from "./plots.js";

const DRAWN_BY = {
  image: Pixels,
  heat: Pixels,
  points: Cloud,
  curve: Curve,
  numbers: Lanes,
  text: class {
    constructor(place) {
      this.element = document.createElement("pre");
      place.replaceChildren(this.element);
    }

    show(header) {
      this.element.textContent = header.lines.join("\n");
    }
  },
};

function make(parent, name, kind) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  parent.append(made);
  return made;
}

export class Tile {
  // act.view(view) asks the server for a view; act.close() tells it that the tile is closed.
  constructor(topic, act) {
    this.topic = topic;
    this.act = act;
    this.view = "";
    this.kind = null;
    this.arrived = null;
    this.build();
  }

  build() {
    this.element = document.createElement("section");
    this.element.className = "tile";
    this.element.dataset.topic = this.topic;
    const title = make(this.element, "div", "title");
    const name = make(title, "h2");
    name.textContent = this.topic;
    name.title = this.topic;
    this.select = make(title, "select", "view");
    this.select.hidden = true;
    this.select.setAttribute("aria-label", "what is shown");
    this.select.onchange = () => {
      this.view = this.select.value;
      this.ask();
    };
    const close = make(title, "button");
    close.textContent = "×";
    close.setAttribute("aria-label", "close");
    close.onclick = () => this.close();
    this.picture = make(this.element, "div", "picture");
    make(this.picture, "span", "hint").textContent = "no sample yet";
    const facts = make(this.element, "div", "facts");
    this.facts = make(facts, "span");
    const latency = make(facts, "span", "latency");
    this.histogram = make(latency, "canvas");
    this.histogram.hidden = true;
    this.times = make(latency, "span");
    this.timer = setInterval(() => this.age(), 1000);
  }

  ask() {
    this.act.view(this.view);
  }

  attract() {
    this.element.scrollIntoView({ block: "nearest", behavior: "smooth" });
  }

  close() {
    clearInterval(this.timer);
    this.element.remove();
    this.act.close();
  }

  show(header, payload) {
    this.views(header);
    if (this.kind !== header.kind || this.shown !== header.view) {
      this.kind = header.kind;
      this.shown = header.view;
      this.drawer = new DRAWN_BY[header.kind](this.picture);
    }
    this.drawer.show(header, payload);
    this.element.dataset.kind = header.kind;
    this.element.dataset.sequence = header.sequence ?? "";
    this.arrived = performance.now();
    this.described = describe(header);
    this.facts.textContent = this.described;
    this.facts.title = this.described;
    if (header.latency) this.latency(header.latency);
  }

  views(header) {
    const known = JSON.stringify(header.views);
    if (known !== this.known) {
      this.known = known;
      this.select.replaceChildren(...header.views.map((view) => new Option(view, view)));
      this.select.hidden = header.views.length < 2;
    }
    this.select.value = header.view;
  }

  age() {
    if (this.arrived === null) return;
    const since = (performance.now() - this.arrived) / 1000;
    if (since > 2) this.facts.textContent = `${this.described} · ${seconds(since)} ago`;
  }

  latency({ bins, p50, p99 }) {
    this.histogram.hidden = false;
    const ratio = window.devicePixelRatio;
    const [width, height] = [90, 22];
    this.histogram.width = width * ratio;
    this.histogram.height = height * ratio;
    this.histogram.style.width = `${width}px`;
    this.histogram.style.height = `${height}px`;
    const pen = this.histogram.getContext("2d");
    pen.scale(ratio, ratio);
    pen.fillStyle = colour("--line");
    pen.fillRect(0, height - 1, width, 1);
    pen.fillStyle = colour("--accent");
    const most = Math.max(...bins);
    bins.forEach((count, at) => {
      const tall = count ? Math.max(1.5, (count / most) * height) : 0;
      pen.fillRect((at * width) / bins.length, height - tall, width / bins.length - 0.8, tall);
    });
    this.times.textContent = `p50 ${seconds(p50)} · p99 ${seconds(p99)}`;
    this.times.title = "from the publisher to this page's server; the histogram has 1 µs to 10 s";
  }
}

function describe(header) {
  const parts = [];
  if (header.dtype) parts.push(`${header.dtype} ${header.shape.join("×")}`);
  if (header.part) parts.push(`[${header.part.join(", ")}]`);
  if ("low" in header) parts.push(`${number(header.low)} … ${number(header.high)}`);
  if (header.nonfinite_count) parts.push(`${header.nonfinite_count} not finite`);
  if (header.count !== undefined) parts.push(`${header.count} points`);
  return parts.join(" · ");
}
