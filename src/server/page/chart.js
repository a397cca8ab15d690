import { byId, h, keep, say, set } from "./dom.js";
import { brief } from "./format.js";

const KEPT_MS = 3_600_000;
const SHOWN_MS_MIN = 600_000;
const COLORS = ["--series-1", "--series-2", "--series-3", "--series-4", "--series-5"];

/** The last hour of rates: all of it once, then the newest buckets. */
export function createRates() {
  const received = new Map();
  const live = new Map();
  const sent = new Map();
  let bucketMs = 5000;

  function put(series, fromMs, values) {
    for (const [at, value] of values.entries()) series.set(fromMs + at * bucketMs, value);
    for (const ms of series.keys()) {
      if (ms >= fromMs - KEPT_MS) break;
      series.delete(ms);
    }
  }

  /** Without the newest bucket, which is not complete. */
  const times = () => [...received.keys()].sort((a, b) => a - b).slice(0, -1);

  return {
    add(view) {
      bucketMs = view.bucketMs;
      put(received, view.fromMs, view.received);
      put(live, view.fromMs, view.live);
      for (const [name, values] of Object.entries(view.sent)) {
        if (!sent.has(name)) sent.set(name, new Map());
        put(sent.get(name), view.fromMs, values);
      }
    },
    times,
    liveAt: (ms) => live.get(ms) ?? 0,
    historyAt: (ms) => Math.max(0, (received.get(ms) ?? 0) - (live.get(ms) ?? 0)),
    sinks: () => [...sent.keys()],
    sentAt: (name, ms) => sent.get(name).get(ms) ?? 0,
    /** Means of the last 30 seconds, and the highest live rate of the hour. */
    summary() {
      const last = times().slice(-6);
      const mean = (at) => (last.length === 0 ? 0 : last.reduce((sum, ms) => sum + at(ms), 0) / last.length);
      return {
        now: mean(this.liveAt),
        history: mean(this.historyAt),
        peak: times().reduce((most, ms) => Math.max(most, this.liveAt(ms)), 0),
      };
    },
  };
}

/**
 * Draws new events as an area, each sink as a line, and history as a dotted line. History can be a thousand
 * times faster; the scale follows the live events then, and higher values are cut off.
 */
export function createChart(rates) {
  const box = byId("rate-chart");
  const hidden = new Set();
  let plot = null;
  let drawn = "";

  function draw() {
    const sinks = rates.sinks().slice(0, COLORS.length);
    const shape = JSON.stringify([sinks, matchMedia("(prefers-color-scheme: dark)").matches]);
    if (plot === null || shape !== drawn) build(sinks);
    drawn = shape;
    const times = rates.times();
    plot.setData([
      times.map((ms) => ms / 1000),
      times.map(rates.liveAt),
      times.map(rates.historyAt),
      ...sinks.map((name) => times.map((ms) => rates.sentAt(name, ms))),
    ]);
    const { now, peak } = rates.summary();
    set(box, {
      "aria-label": `New events a second over the last hour: ${brief(now)} now, ${brief(peak)} at the peak.`,
    });
    showLegend(sinks);
  }

  function build(sinks) {
    plot?.destroy();
    const css = getComputedStyle(document.documentElement);
    const color = (name) => css.getPropertyValue(name).trim();
    const axis = {
      stroke: color("--muted"),
      grid: { stroke: color("--line"), width: 1 },
      ticks: { show: false },
      font: "12px system-ui, sans-serif",
    };
    plot = new uPlot(
      {
        ...size(),
        cursor: { points: { size: 7 }, y: false },
        legend: { show: false },
        padding: [12, 8, 0, 0],
        scales: { x: { range: timeRange }, y: { range: (_, __, most) => [0, scaleMax(most)] } },
        axes: [
          { ...axis, size: 30, grid: { show: false }, space: 70, values: (_, ticks) => ticks.map(tickTime) },
          { ...axis, size: 52, values: (_, ticks) => ticks.map(brief) },
        ],
        series: [
          {},
          {
            label: "New events",
            stroke: color("--tide"),
            width: 2,
            fill: color("--tide-fill"),
            points: { show: false },
          },
          {
            label: "History",
            stroke: color("--muted"),
            width: 1.25,
            dash: [2, 4],
            points: { show: false },
          },
          ...sinks.map((name, at) => ({
            label: name,
            stroke: color(COLORS[at]),
            width: 1.25,
            show: !hidden.has(name),
            points: { show: false },
          })),
        ],
        hooks: { setCursor: [showAt] },
      },
      [[], [], [], ...sinks.map(() => [])],
      box,
    );
  }

  /** Live events fill the height; where everything fits below four times that, everything is shown. */
  function scaleMax(most) {
    const { peak } = rates.summary();
    return Math.max(1, (peak > 0 && most > 4 * peak ? peak * 1.5 : most) * 1.15);
  }

  const size = () => ({ width: Math.max(200, box.clientWidth), height: box.clientHeight || 220 });

  /** The known part of the hour, and at least ten minutes. */
  function timeRange() {
    const times = rates.times();
    const endMs = times.at(-1) ?? Date.now();
    return [Math.min(times[0] ?? endMs, endMs - SHOWN_MS_MIN) / 1000, endMs / 1000];
  }

  function showAt(self) {
    const at = self.cursor.idx;
    for (const [index, item] of [...byId("rate-legend").children].entries()) {
      const value = at === null || at === undefined ? null : self.data[index + 1]?.[at];
      say(item.lastElementChild, value === null || value === undefined ? "" : `${brief(value)}/s`);
    }
  }

  function showLegend(sinks) {
    const entries = [
      { name: "New events", color: "--tide", toggles: false },
      { name: "History", color: "--muted", toggles: false },
      ...sinks.map((name, at) => ({ name, color: COLORS[at], toggles: true })),
    ];
    keep(
      byId("rate-legend"),
      entries,
      ({ name, toggles }) => `${toggles} ${name}`,
      ({ name, color, toggles }) => {
        const swatch = h("i", { style: { background: `var(${color})` } });
        const label = toggles
          ? h("button", { class: "toggle", "aria-pressed": "true", onclick: () => toggle(name) }, name)
          : h("span", {}, name);
        return h("li", {}, swatch, label, h("b", {}));
      },
      (element, { name, toggles }) => {
        if (toggles) set(element.children[1], { "aria-pressed": String(!hidden.has(name)) });
      },
    );
  }

  function toggle(name) {
    if (!hidden.delete(name)) hidden.add(name);
    const index = plot.series.findIndex(({ label }) => label === name);
    plot.setSeries(index, { show: !hidden.has(name) });
    showLegend(rates.sinks().slice(0, COLORS.length));
  }

  new ResizeObserver(() => plot?.setSize(size())).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return { draw };
}

const tickTime = (seconds) =>
  new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
