// Drawing of pixels, curves, and numbers over time.

import { number } from "./format.js";

const KEPT = 60; // seconds of a plot
const GAP = 8;

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name);
}

function canvasIn(place) {
  const canvas = document.createElement("canvas");
  place.replaceChildren(canvas);
  return canvas;
}

// A cleared canvas of its element's size, with a context in units of CSS pixels.
export function pen(canvas) {
  const { clientWidth, clientHeight } = canvas.parentElement;
  const ratio = window.devicePixelRatio;
  canvas.width = clientWidth * ratio;
  canvas.height = clientHeight * ratio;
  canvas.style.width = `${clientWidth}px`;
  canvas.style.height = `${clientHeight}px`;
  const made = canvas.getContext("2d");
  made.scale(ratio, ratio);
  made.font = "11px system-ui, sans-serif";
  return [made, clientWidth, clientHeight];
}

export class Pixels {
  constructor(place) {
    this.canvas = canvasIn(place);
  }

  show(header, payload) {
    const { width, height } = header;
    const ratio = Math.min(6, Math.max(1 / 6, header.ratio));
    const { clientWidth, clientHeight } = this.canvas.parentElement;
    const shown = Math.min(clientWidth, clientHeight * ratio);
    this.canvas.width = width;
    this.canvas.height = height;
    this.canvas.style.width = `${shown}px`;
    this.canvas.style.height = `${shown / ratio}px`;
    this.canvas.classList.toggle("coarse", shown > 2 * width);
    const data = new ImageData(new Uint8ClampedArray(payload), width, height);
    this.canvas.getContext("2d").putImageData(data, 0, 0);
  }
}

// The values of an array over its index.
export class Curve {
  constructor(place) {
    this.canvas = canvasIn(place);
  }

  show(header, payload) {
    const values = [...new Float32Array(payload)];
    const last = Math.max(1, values.length - 1);
    const [made, width, height] = pen(this.canvas);
    const points = values.map((value, at) => [at / last, value]);
    lane(made, "", points, 0, width, 0, height);
  }
}

// Numbers over time, each in its own lane with its own scale.
export class Lanes {
  constructor(place) {
    this.canvas = canvasIn(place);
    this.history = new Map();
  }

  show(header) {
    const now = header.time;
    for (const [name, value] of Object.entries(header.series)) {
      const points = this.history.get(name) ?? [];
      points.push([now, value]);
      while (points[0][0] < now - KEPT) points.shift();
      this.history.set(name, points);
    }
    const names = Object.keys(header.series);
    const [made, width, height] = pen(this.canvas);
    const most = Math.max(1, Math.floor(height / 28));
    const shown = names.slice(0, names.length > most ? most - 1 : most);
    const tall = height / Math.min(names.length, most);
    shown.forEach((name, at) => {
      const points = this.history.get(name);
      const span = Math.max(2, now - points[0][0]);
      const placed = points.map(([time, value]) => [1 - (now - time) / span, value]);
      lane(made, name, placed, 0, width, at * tall, tall);
    });
    if (shown.length < names.length) {
      made.fillStyle = colour("--quiet");
      made.fillText(`${names.length - shown.length} more`, GAP, height - GAP);
    }
  }
}

// A line through points with x from 0 to 1; null and NaN are gaps.
function lane(made, name, points, left, width, top, height) {
  const known = points.map(([, value]) => value).filter((value) => Number.isFinite(value));
  const low = known.reduce((least, value) => Math.min(least, value), Infinity);
  const high = known.reduce((most, value) => Math.max(most, value), -Infinity);
  const room = height - 2 * GAP - 12;
  const place = ([x, value]) => [
    left + GAP + x * (width - 2 * GAP),
    top + height - GAP - (high > low ? (value - low) / (high - low) : 0.5) * room,
  ];
  made.strokeStyle = colour("--line");
  made.strokeRect(left, top + height, width, 0);
  made.strokeStyle = colour("--accent");
  made.lineWidth = 1.4;
  made.beginPath();
  let pause = true;
  for (const point of points) {
    if (!Number.isFinite(point[1])) {
      pause = true;
      continue;
    }
    if (pause) made.moveTo(...place(point));
    else made.lineTo(...place(point));
    pause = false;
  }
  made.stroke();
  made.fillStyle = colour("--quiet");
  made.fillText(name, left + GAP, top + 13);
  const last = points.at(-1)?.[1] ?? null;
  const text = known.length
    ? `${number(low)} … ${number(high)}${name ? `   ${number(last)}` : ""}`
    : "not finite";
  made.textAlign = "right";
  made.fillText(text, left + width - GAP, top + 13);
  made.textAlign = "left";
}
