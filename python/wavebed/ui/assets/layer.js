// The lines of a chart on a canvas of their own, which grows to the right: what has been drawn stays, and a frame costs only
// what has come since the last one. A column of pixels shows the least and the greatest value of its points, so that none
// is left out.

const SPARE = 320; // Columns beside those in view: all are moved only when these are used up.

export class Layer {
  // `view` has `width` and `height` in pixels of the canvas, `seconds` across the width, `low` and `high` of the values,
  // and `ratio`, the pixels for each of the page.
  constructor(view, lines) {
    Object.assign(this, { view, lines });
    this.canvas = document.createElement("canvas");
    this.canvas.width = view.width + SPARE;
    this.canvas.height = view.height;
    this.context = this.canvas.getContext("2d");
    this.each = view.seconds / view.width; // seconds of a column
    this.origin = null; // the column of time at the left edge of the canvas
    this.next = 0; // the number of the next point to draw
  }

  // The first column behind the last point.
  right(store) {
    return Math.floor(store.last / this.each) + 1;
  }

  // The times at the edges of the view.
  span(store) {
    const right = this.right(store);
    return [(right - this.view.width) * this.each, right * this.each];
  }

  // Draws at most so many points of each line, the oldest first; returns whether all are drawn.
  draw(store, most) {
    this.room(this.right(store));
    const left = store.at((this.right(store) - this.view.width) * this.each);
    const from = Math.max(this.next - store.first, left);
    const until = Math.min(store.length, from + most);
    if (until > from) this.strip(store, from, until);
    this.next = store.first + until;
    return until === store.length;
  }

  room(right) {
    if (this.origin === null) this.origin = right - this.view.width;
    if (right - this.origin <= this.canvas.width) return;
    const shift = right - this.view.width - this.origin;
    this.origin += shift;
    const { context } = this;
    context.globalCompositeOperation = "copy";
    context.drawImage(this.canvas, -shift, 0);
    context.globalCompositeOperation = "source-over";
  }

  // Draws the part of all lines from the point before `from` to the point before `until` anew.
  strip(store, from, until) {
    const { context, canvas, each, origin } = this;
    const pad = Math.ceil(2 * this.view.ratio) + 1;
    const column = (at) => Math.floor(store.times[at] / each) - origin;
    const x = from > 0 ? Math.max(0, column(from - 1) - pad) : 0;
    const begin = Math.max(0, store.at((x - pad + origin) * each) - 1);
    context.clearRect(x, 0, canvas.width - x, canvas.height);
    context.save();
    context.beginPath();
    context.rect(x, 0, canvas.width - x, canvas.height);
    context.clip();
    context.lineJoin = "bevel";
    for (const line of this.lines) {
      context.globalAlpha = line.alpha;
      context.strokeStyle = line.stroke;
      context.lineWidth = line.width * this.view.ratio;
      context.beginPath();
      this.trace(store.times, line.of(store), begin, until, line.width * this.view.ratio);
      context.stroke();
      if (!line.area) continue;
      context.lineTo(column(until - 1) + 0.5, canvas.height);
      context.lineTo(column(begin) + 0.5, canvas.height);
      context.fillStyle = line.stroke;
      context.fill();
    }
    context.restore();
  }

  // Adds a line to the path: of each column its first, least, greatest and last value.
  trace(times, values, begin, until, size) {
    const { context, each, origin } = this;
    const { height, low, high } = this.view;
    const scale = height / (high - low);
    let [corners, column, least, most, last] = [0, NaN, 0, 0, 0];
    const corner = (value) => {
      const [x, y] = [column + 0.5, height - (value - low) * scale];
      if (corners) context.lineTo(x, y);
      else context.moveTo(x, y);
      corners += 1;
    };
    const end = () => {
      if (Number.isNaN(column)) return;
      if (least < most) {
        corner(least);
        corner(most);
        corner(last);
      }
    };
    const gap = () => {
      end();
      // A single value between missing ones has no line to a neighbour: it is a dot.
      if (corners === 1) context.lineTo(column + 0.5 + size, height - (last - low) * scale);
      [corners, column] = [0, NaN];
    };
    for (let at = begin; at < until; at += 1) {
      const value = values[at];
      if (Number.isNaN(value)) {
        gap();
        continue;
      }
      const now = Math.floor(times[at] / each) - origin;
      if (now === column) {
        if (value < least) least = value;
        if (value > most) most = value;
        last = value;
        continue;
      }
      end();
      [column, least, most, last] = [now, value, value, value];
      corner(value);
    }
    gap();
  }

  // Puts the view onto another canvas.
  put(context, store, x, y) {
    const { width, height } = this.view;
    context.drawImage(this.canvas, this.right(store) - width - this.origin, 0, width, height, x, y, width, height);
  }
}
