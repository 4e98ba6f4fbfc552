// Numbers as text, each with its unit.

const digits = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));

const scaled = (value, units, step = 1000) => {
  let place = 0;
  while (Math.abs(value) >= step && place < units.length - 1) {
    value /= step;
    place += 1;
  }
  return `${value === 0 ? "0" : digits(value)} ${units[place]}`;
};

export const none = "–";

export const rate = (bps) => (bps == null ? none : scaled(bps / 1000, ["kbit/s", "Mbit/s", "Gbit/s"]));
export const bytes = (count) => (count == null ? none : count < 1000 ? `${count} B` : scaled(count / 1000, ["kB", "MB", "GB"]));
export const time = (ms) => {
  if (ms == null) return none;
  if (ms >= 1000) return `${digits(ms / 1000)} s`;
  return ms > 0 && ms < 0.1 ? `${Math.round(ms * 1000)} µs` : `${ms === 0 ? "0" : digits(ms)} ms`;
};
export const fraction = (loss) => (loss == null ? none : loss === 0 ? "0 %" : `${Number((loss * 100).toPrecision(3))} %`);
export const count = (value) => value.toLocaleString("en");
export const perSecond = (value) => (value == null ? none : `${count(Math.round(value))}/s`);
export const decibel = (value) => (value == null ? none : `${value.toFixed(1)} dB`);

export const number = (value) => (value == null ? none : String(Number(value.toPrecision(3))));

export const numbers = (_, ticks) => ticks.map(number);
export const share = (_, ticks) => ticks.map((tick) => `${Number((tick * 100).toPrecision(4))} %`);

// Ticks of an axis: one unit for all of them.
export const axis = (units, step = 1000) => (_, ticks) => {
  const most = Math.max(...ticks.map(Math.abs));
  let [place, by] = [0, 1];
  while (most / by >= step && place < units.length - 1) {
    by *= step;
    place += 1;
  }
  return ticks.map((tick) => (tick === 0 ? "0" : `${Number((tick / by).toPrecision(4))} ${units[place]}`));
};

export const clock = (seconds) => {
  const whole = Math.floor(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  const two = (value) => String(value).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
};
