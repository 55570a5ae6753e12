// The graph. The server computes the layout; this module draws, moves and zooms it.

import { bytes, rate } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = 16;
const TALLEST = 520; // pixels of the card
const LEAST_SCALE = 0.55; // below, text cannot be read

function make(parent, name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent.append(made);
  return made;
}

function path(points) {
  let found = `M ${points[0]}`;
  for (let at = 1; at < points.length; at += 1) {
    const [x, y] = points[at - 1];
    const [toX, toY] = points[at];
    const middle = (x + toX) / 2;
    found += ` C ${middle} ${y} ${middle} ${toY} ${toX} ${toY}`;
  }
  return found;
}

const LEAST_DROPPED = 0.05; // Hz

function label(edge) {
  if (edge.blocked) return `${rate(edge.hz)} blocks`;
  return edge.dropped < LEAST_DROPPED ? rate(edge.hz) : `${rate(edge.hz)} −${rate(edge.dropped)}`;
}

function title(edge) {
  const parts = [rate(edge.hz)];
  if (edge.bytes > 0) parts.push(`${bytes(edge.bytes)}/s`);
  if (edge.dropped >= LEAST_DROPPED) parts.push(`${rate(edge.dropped)} dropped`);
  if (edge.blocked) parts.push("a publisher waits for it");
  return parts.filter(Boolean).join(", ");
}

export class Graph {
  constructor(svg, open) {
    this.svg = svg;
    this.open = open;
    this.onGroup = () => {};
    this.shape = "";
    this.size = [1, 1];
    this.scale = 1;
    this.corner = [0, 0];
    this.fitted = true; // and not moved since
    this.labels = [];
    this.drag();
    new ResizeObserver(() => (this.fitted ? this.fit() : this.look())).observe(svg);
  }

  show(graph) {
    const shape = JSON.stringify([
      graph.boxes,
      graph.edges.map((edge) => [edge.from, edge.to, edge.points]),
    ]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.build(graph);
    }
    graph.edges.forEach((edge, at) => {
      const [line, text, tip] = this.labels[at];
      text.firstChild.data = label(edge);
      tip.textContent = title(edge);
      for (const part of [line, text]) part.classList.toggle("blocked", edge.blocked);
      text.classList.toggle("dropped", edge.dropped >= LEAST_DROPPED);
    });
  }

  build(graph) {
    this.svg.replaceChildren();
    this.labels = [];
    const edges = make(this.svg, "g", {});
    const boxes = make(this.svg, "g", {});
    const rates = make(this.svg, "g", {});
    const near = new Map(graph.boxes.map((box) => [box.id, []]));
    for (const edge of graph.edges) {
      const line = make(edges, "path", { d: path(edge.points) });
      // Between two columns, beside the topic's box.
      const ends = edge.to.startsWith("t ") ? edge.points.slice(-2) : edge.points.slice(0, 2);
      const [x, y] = [0, 1].map((axis) => (ends[0][axis] + ends[1][axis]) / 2);
      const text = make(rates, "text", { class: "rate", x, y: y - 3 });
      text.append("");
      this.labels.push([line, text, make(text, "title", {})]);
      near.get(edge.from)?.push([line, edge.to]);
      near.get(edge.to)?.push([line, edge.from]);
    }
    const drawn = new Map(graph.boxes.map((box) => [box.id, this.box(boxes, box)]));
    for (const [id, group] of drawn) {
      const mark = (on) => {
        for (const [line, other] of near.get(id)) {
          line.classList.toggle("near", on);
          drawn.get(other)?.classList.toggle("near", on);
        }
      };
      group.onmouseenter = () => mark(true);
      group.onmouseleave = () => mark(false);
    }
    const before = this.size;
    this.size = [graph.width, graph.height];
    if (before[0] !== graph.width || before[1] !== graph.height) this.fit();
  }

  box(parent, box) {
    const group = make(parent, "g", { class: `${box.kind}${box.error ? " error" : ""}` });
    const { x, y, width, height } = box;
    make(group, "rect", { x, y, width, height, rx: box.kind === "topic" ? height / 2 : 5 });
    make(group, "title", {}).textContent = box.title;
    const middle = y + height / 2;
    const first = box.below ? middle - 3 : middle + 4;
    make(group, "text", { x: x + width / 2, y: first }).textContent = box.label;
    if (box.below) {
      const below = { x: x + width / 2, y: middle + 12, class: "below" };
      make(group, "text", below).textContent = box.below;
    }
    if (box.kind === "topic") {
      const act = () => {
        if (this.moved) return;
        if (box.topics.length === 1) this.open(box.topics[0]);
        else this.onGroup(box.label.split("…")[0]);
      };
      group.setAttribute("tabindex", "0");
      group.setAttribute("role", "button");
      group.onclick = act;
      group.onkeydown = (event) => event.key === "Enter" && act();
    }
    return group;
  }

  // As much as is readable; the upper part of a tall graph.
  fit() {
    this.fitted = true;
    const [width, height] = this.size.map((length) => length + 2 * MARGIN);
    const room = this.svg.clientWidth || 1;
    const whole = Math.min(room / width, TALLEST / height, 1);
    this.scale = Math.max(whole, Math.min(room / width, 1, LEAST_SCALE));
    this.svg.style.height = `${Math.max(140, Math.min(TALLEST, height * this.scale))}px`;
    this.corner = [(width - room / this.scale) / 2 - MARGIN, -MARGIN];
    this.look();
  }

  zoom(factor) {
    const { clientWidth, clientHeight } = this.svg;
    this.fitted = false;
    const before = this.scale;
    this.scale = Math.min(3, Math.max(0.05, before * factor));
    this.corner[0] += (clientWidth / before - clientWidth / this.scale) / 2;
    this.corner[1] += (clientHeight / before - clientHeight / this.scale) / 2;
    this.look();
  }

  look() {
    const { clientWidth, clientHeight } = this.svg;
    const seen = [clientWidth / this.scale, clientHeight / this.scale];
    this.svg.setAttribute("viewBox", [...this.corner, ...seen].join(" "));
  }

  drag() {
    let last = null;
    this.moved = false;
    this.svg.onpointerdown = (event) => {
      last = [event.clientX, event.clientY];
      this.moved = false;
    };
    window.addEventListener("pointerup", () => {
      last = null;
    });
    window.addEventListener("pointermove", (event) => {
      if (!last) return;
      const [x, y] = [event.clientX - last[0], event.clientY - last[1]];
      if (!this.moved && Math.hypot(x, y) < 4) return;
      this.moved = true;
      this.fitted = false;
      last = [event.clientX, event.clientY];
      this.corner = [this.corner[0] - x / this.scale, this.corner[1] - y / this.scale];
      this.look();
    });
    this.svg.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.zoom(event.deltaY < 0 ? 1.15 : 0.87);
      },
      { passive: false },
    );
  }
}
