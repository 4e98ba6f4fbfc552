// The stream of a laboratory, and the points of the last minute in columns.

export const WINDOW_S = 60;

const KEPT = ["offered_bps", "delivered_bps", "rate_bps", "wait_ms", "queued_bytes", "delay_ms", "loss", "sinr_db", "state"];

export class Store {
  // `head` is the first event: the names of links, directions and columns.
  constructor(head) {
    this.head = head;
    this.times = [];
    this.places = Object.fromEntries(head.columns.map((name, place) => [name, place]));
    this.links = head.links.map(() => Object.fromEntries([...KEPT, "drops", "marks"].map((name) => [name, []])));
    this.transit = head.directions.map(() => []);
    this.roundTrip = [];
    // A second radio lies beside the last leg: its delay is not part of the round trip.
    this.onPath = head.directions.map((name) => !name.includes("-second."));
    this.most = Math.ceil((WINDOW_S * 1000) / head.every_ms) + 2;
    this.lost = 0;
  }

  add(points) {
    this.lost = points.lost;
    points.time_s.forEach((time, index) => {
      const gap = this.times.length ? time - this.times[this.times.length - 1] : this.head.every_ms / 1000;
      this.times.push(time);
      points.links[index].forEach((row, link) => {
        const columns = this.links[link];
        for (const name of KEPT) columns[name].push(row[this.places[name]]);
        columns.drops.push(row[this.places.dropped_segments] / gap);
        columns.marks.push(row[this.places.marked_segments] / gap);
      });
      const transit = points.transit_ms[index];
      transit.forEach((value, direction) => this.transit[direction].push(value));
      const whole = transit.filter((_, direction) => this.onPath[direction]);
      this.roundTrip.push(whole.some((value) => value === null) ? null : whole.reduce((sum, value) => sum + value, 0));
    });
    this.trim();
  }

  // Cuts the oldest points off now and then, so that an hour takes no more memory than a minute.
  trim() {
    const over = this.times.length - this.most;
    if (over < this.most / 4) return;
    const all = [this.times, this.roundTrip, ...this.transit, ...this.links.flatMap(Object.values)];
    for (const column of all) column.splice(0, over);
  }

  // The index of the first point of the last `seconds`.
  since(seconds) {
    const from = this.times[this.times.length - 1] - seconds;
    let [low, high] = [0, this.times.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle] < from) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The mean of a column of a link over the last second, without missing values.
  mean(link, name, seconds = 1) {
    const column = this.links[link][name];
    let [sum, count] = [0, 0];
    for (let at = this.since(seconds); at < column.length; at += 1) {
      if (column[at] !== null) {
        sum += column[at];
        count += 1;
      }
    }
    return count ? sum / count : null;
  }

  last(link, name) {
    const column = this.links[link][name];
    return column.length ? column[column.length - 1] : null;
  }
}

// Listens to a laboratory until `close`. `told` has `head`, `points` and `ended`.
export const listen = (lab, every, told) => {
  const source = new EventSource(`/api/labs/${encodeURIComponent(lab)}/events?every_ms=${every}`);
  source.addEventListener("head", (event) => told.head(JSON.parse(event.data)));
  source.addEventListener("points", (event) => told.points(JSON.parse(event.data)));
  source.addEventListener("end", () => {
    source.close();
    told.ended();
  });
  source.addEventListener("error", () => {
    // A refusal closes the stream for good; a broken connection is tried again by the browser, with a new head.
    if (source.readyState === EventSource.CLOSED) told.ended();
    else told.broken();
  });
  return () => source.close();
};

export const ask = async (method, path, body) => {
  const options = { method, headers: { Accept: "application/json" } };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const answer = await fetch(path, options);
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.error);
  return value;
};
