// A point cloud that can be turned with the pointer; z is up.

const DOT = 2; // pixels

export class Cloud {
  constructor(place) {
    this.canvas = document.createElement("canvas");
    this.canvas.className = "turns";
    place.replaceChildren(this.canvas);
    this.turn = 0.7;
    this.tilt = 0.5;
    this.near = 1;
    this.radius = 0;
    this.canvas.onpointermove = (event) => {
      if (!event.buttons) return;
      this.turn -= event.movementX / 120;
      this.tilt = Math.max(-1.5, Math.min(1.5, this.tilt + event.movementY / 120));
      this.draw();
    };
    this.canvas.onpointerdown = (event) => this.canvas.setPointerCapture(event.pointerId);
    this.canvas.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.near *= event.deltaY < 0 ? 1.15 : 0.87;
        this.draw();
      },
      { passive: false },
    );
  }

  show(header, payload) {
    this.count = header.count;
    this.points = new Float32Array(payload, 0, 3 * this.count);
    this.colours = new Uint32Array(payload, 12 * this.count, this.count);
    this.measure();
    this.draw();
  }

  // The centre follows the points. The radius only grows, so that the picture does not pulse.
  measure() {
    const low = [Infinity, Infinity, Infinity];
    const high = [-Infinity, -Infinity, -Infinity];
    this.points.forEach((value, at) => {
      low[at % 3] = Math.min(low[at % 3], value);
      high[at % 3] = Math.max(high[at % 3], value);
    });
    this.middle = low.map((value, axis) => (value + high[axis]) / 2);
    for (let at = 0; at < this.points.length; at += 3) {
      const away = this.middle.map((value, axis) => this.points[at + axis] - value);
      this.radius = Math.max(this.radius, Math.hypot(...away));
    }
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.canvas.parentElement;
    this.canvas.width = width;
    this.canvas.height = height;
    const context = this.canvas.getContext("2d");
    const image = context.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    const depths = new Float32Array(width * height).fill(-Infinity);
    const scale = ((Math.min(width, height) / 2) * 0.95 * this.near) / (this.radius || 1);
    const [sin, cos] = [Math.sin(this.turn), Math.cos(this.turn)];
    const [up, flat] = [Math.sin(this.tilt), Math.cos(this.tilt)];
    for (let at = 0; at < this.count; at += 1) {
      const x = this.points[3 * at] - this.middle[0];
      const y = this.points[3 * at + 1] - this.middle[1];
      const z = this.points[3 * at + 2] - this.middle[2];
      const back = x * sin + y * cos;
      const column = Math.round(width / 2 + (x * cos - y * sin) * scale);
      const row = Math.round(height / 2 - (z * flat + back * up) * scale);
      const depth = z * up - back * flat;
      for (let dot = 0; dot < DOT * DOT; dot += 1) {
        const toX = column + (dot % DOT);
        const toY = row + Math.floor(dot / DOT);
        if (toX < 0 || toX >= width || toY < 0 || toY >= height) continue;
        const place = toY * width + toX;
        if (depths[place] > depth) continue;
        depths[place] = depth;
        pixels[place] = this.colours[at];
      }
    }
    context.putImageData(image, 0, 0);
  }
}
