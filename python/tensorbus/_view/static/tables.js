// The tables: topics, processes, held memory, and pipelines.

import { bytes, rate, seconds } from "./format.js";

const MOST_ROWS = 200;

function cell(row, content, kind) {
  const made = row.insertCell();
  made.textContent = content;
  made.title = content;
  if (kind) made.className = kind;
  return made;
}

// Rows with unchanged content are kept, so that nothing flickers.
function fill(table, heads, rows) {
  if (table.tHead?.rows[0].cells.length !== heads.length) {
    table.replaceChildren();
    const head = table.createTHead().insertRow();
    for (const [name, kind] of heads) {
      const made = document.createElement("th");
      made.textContent = name;
      if (kind) made.className = kind;
      head.append(made);
    }
    table.createTBody();
  }
  const body = table.tBodies[0];
  rows.forEach(({ cells, open, bad }, index) => {
    const row = body.rows[index] ?? body.insertRow();
    row.className = open ? "opens" : "";
    row.onclick = open ?? null;
    if (open) row.tabIndex = 0;
    row.onkeydown = (event) => event.key === "Enter" && open?.();
    cells.forEach((content, at) => {
      const found = row.cells[at] ?? cell(row, "", heads[at][1]);
      found.classList.toggle("bad", Boolean(bad?.includes(at)));
      if (found.textContent === content) return;
      found.textContent = content;
      found.title = content;
    });
  });
  while (body.rows.length > rows.length) body.deleteRow(-1);
}

export class Tables {
  constructor(open) {
    this.open = open;
    this.input = document.getElementById("filter");
    this.input.oninput = () => this.topics();
    this.domain = null;
  }

  filter(text) {
    this.input.value = text;
    this.topics();
    this.input.focus();
  }

  show(domain) {
    this.domain = domain;
    this.topics();
    this.processes();
    this.held();
    this.pipelines();
  }

  topics() {
    if (!this.domain) return;
    const wanted = this.input.value.toLowerCase();
    const found = this.domain.topics.filter((topic) => topic.name.toLowerCase().includes(wanted));
    const rows = found.slice(0, MOST_ROWS).map((topic) => ({
      cells: [
        topic.name,
        topic.type,
        rate(topic.hz),
        `${bytes(topic.bytes)}/s`,
        topic.dropped > 0 ? rate(topic.dropped) : "",
        `${topic.publishers} → ${topic.subscribers}`,
      ],
      open: () => this.open(topic.name),
      bad: topic.blocked ? [0, 4] : [4],
    }));
    const heads = [
      ["topic"],
      ["type"],
      ["rate", "number"],
      ["bandwidth", "number"],
      ["dropped", "number"],
      ["pub → sub", "number"],
    ];
    fill(document.getElementById("topics"), heads, rows);
    const left = found.length - rows.length;
    document.getElementById("more").textContent = left > 0 ? `${left} more: use the filter` : "";
  }

  processes() {
    const gpus = this.domain.processes.some((process) => Object.keys(process.devices).length);
    const rows = this.domain.processes.map((process) => {
      const devices = Object.entries(process.devices).map(([name, used]) => `${name} ${bytes(used)}`);
      return {
        cells: [
          `${process.process} ${process.pid}`,
          process.error || process.nodes.join(", "),
          bytes(process.used),
          bytes(process.reserved),
          bytes(process.lent),
          bytes(process.borrowed),
          ...(gpus ? [devices.join(", ")] : []),
        ],
        bad: process.error ? [0, 1] : [],
      };
    });
    const heads = [
      ["process"],
      ["nodes"],
      ["in use", "number"],
      ["reserved", "number"],
      ["lent", "number"],
      ["borrowed", "number"],
      ...(gpus ? [["GPU", "number"]] : []),
    ];
    fill(document.getElementById("processes"), heads, rows);
  }

  held() {
    const rows = this.domain.held.map((row) => ({
      cells: [
        row.owner,
        row.holder,
        String(row.leases),
        bytes(row.bytes),
        row.oldest > 0 ? seconds(row.oldest) : "",
      ],
    }));
    const heads = [
      ["memory of"],
      ["held by"],
      ["leases", "number"],
      ["bytes", "number"],
      ["oldest", "number"],
    ];
    fill(document.getElementById("held"), heads, rows);
  }

  pipelines() {
    const rows = this.domain.pipelines.map((row) => ({
      cells: [row.process, row.state, row.pid ? String(row.pid) : "", String(row.restarts), row.why],
      bad: row.unwell ? [0, 1, 4] : [],
    }));
    const heads = [
      ["process"],
      ["state"],
      ["pid", "number"],
      ["restarts", "number"],
      ["reason"],
    ];
    document.getElementById("pipelines-card").hidden = rows.length === 0;
    fill(document.getElementById("pipelines"), heads, rows);
  }
}
