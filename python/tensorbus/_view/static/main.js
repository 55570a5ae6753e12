// The page: a websocket with the newest frame of the domain and of each tile.
//
// A message is: u32 tile | u32 bytes of the JSON | the JSON | pixels, points or values.
// Tile 0 is the domain. The server sends a tile's next frame when the last one was drawn.

import { bytes } from "./format.js";
import { Graph } from "./graph.js";
import { Tables } from "./tables.js";
import { Tile } from "./tiles.js";

const RETRY = 1000; // milliseconds
const DOMAIN = 0;

const element = (id) => document.getElementById(id);
const tiles = new Map();
const pending = new Map();
let lastNumber = DOMAIN;
let socket = null;

function send(command) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(command));
}

function open(topic) {
  for (const tile of tiles.values()) {
    if (tile.topic === topic) return tile.attract();
  }
  lastNumber += 1;
  const number = lastNumber;
  const tile = new Tile(topic, {
    view: (view) => send({ type: "open", tile: number, topic, view }),
    close: () => {
      tiles.delete(number);
      send({ type: "close", tile: number });
    },
  });
  tiles.set(number, tile);
  element("tiles").append(tile.element);
  tile.ask();
}

const graph = new Graph(element("graph"), open);
const tables = new Tables(open);
graph.onGroup = (prefix) => tables.filter(prefix);
element("zoom-in").onclick = () => graph.zoom(1.25);
element("zoom-out").onclick = () => graph.zoom(0.8);
element("zoom-fit").onclick = () => graph.fit();

function showDomain(domain) {
  element("domain").textContent = domain.domain;
  const used = domain.processes.reduce((sum, process) => sum + process.used, 0);
  const flow = domain.topics.reduce((sum, topic) => sum + topic.bytes, 0);
  element("figures").textContent =
    `${domain.processes.length} processes · ${domain.topics.length} topics · ` +
    `${bytes(flow)}/s · ${bytes(used)} in use`;
  graph.show(domain.graph);
  tables.show(domain);
}

function take(message) {
  const view = new DataView(message);
  const length = view.getUint32(4, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(message, 8, length)));
  const first = pending.size === 0;
  pending.set(view.getUint32(0, true), [header, message.slice(8 + length)]);
  if (first) requestAnimationFrame(draw);
}

function draw() {
  const frames = [...pending];
  pending.clear();
  for (const [number, [header, payload]] of frames) {
    try {
      if (number === DOMAIN) showDomain(header);
      else tiles.get(number)?.show(header, payload);
    } catch (error) {
      console.error(error); // the next frame may be drawn
    }
    send({ type: "drawn", tile: number });
  }
}

function state(text, bad) {
  element("state").textContent = text;
  element("state").classList.toggle("bad", bad);
}

function connect() {
  const address = new URL("live", location.href);
  address.protocol = "ws:";
  socket = new WebSocket(address);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => {
    state("live", false);
    for (const tile of tiles.values()) tile.ask();
  };
  socket.onmessage = (event) => take(event.data);
  socket.onclose = () => {
    state("not connected: has tensorbus view ended?", true);
    setTimeout(connect, RETRY);
  };
}

connect();
