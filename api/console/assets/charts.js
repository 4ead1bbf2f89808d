// Draws the charts of a page by uPlot: each element with data-chart has its points there.
"use strict";
(() => {
  const HOUR_S = 3600;
  const scales = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const spans = [[3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"]];

  const incrs = [
    1e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800,
    3600, 7200, 21600, 86400, 604800, 2592000, 31536000,
  ];

  const scaled = (value, steps, otherwise) => {
    const found = steps.find(([size]) => Math.abs(value) >= size);
    return found ? `${+(value / found[0]).toPrecision(3)} ${found[1]}` : `${+value.toPrecision(3)}${otherwise}`;
  };
  const told = (value, unit) => {
    if (value === null || value === undefined) return "-";
    if (unit === "s") return scaled(value, spans, " s");
    return scaled(value, scales, unit.startsWith("B") ? " " : "") + unit;
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const draw = (element) => {
    if (element.firstChild) return;
    const { unit, names, data } = JSON.parse(element.dataset.chart);
    const strokes = [colour("--link"), colour("--good"), colour("--warn")];
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line") } };
    const clock = (seconds) => new Date(seconds * 1e3).toISOString();
    new uPlot({
      width: element.clientWidth,
      height: 200,
      legend: { mount: (_, legend) => element.prepend(legend), markers: { fill: (_, at) => strokes[at - 1] } },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "UTC"),
      scales: { x: { range: (_, least, most) => [most - HOUR_S, most] }, y: { range: (_, least, most) => [Math.min(0, least ?? 0), (most ?? 0) > 0 ? most * 1.1 : 1] } },
      axes: [{ ...axis, values: (_, ticks) => ticks.map((tick) => clock(tick).slice(11, 16)) }, { ...axis, size: 80, ...(unit === "s" && { incrs }), values: (_, ticks) => ticks.map((tick) => told(tick, unit)) }],
      series: [{ label: "time", value: (_, at) => clock(at ?? data[0].at(-1)).slice(11, 19) }, ...names.map((label, at) => ({
        label, stroke: strokes[at], width: 2, spanGaps: true, value: (_, value, series, point) => told(point === null ? data[series].at(-1) : value, unit),
      }))],
    }, data, element);
  };
  const drawAll = () => document.querySelectorAll("[data-chart]").forEach(draw);
  const drawAnew = () => {
    document.querySelectorAll("[data-chart]").forEach((element) => element.replaceChildren());
    drawAll();
  };

  let later;
  addEventListener("resize", () => { clearTimeout(later); later = setTimeout(drawAnew, 200); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAnew);
  let open = [];
  document.addEventListener("htmx:beforeSwap", () => {
    open = [...document.querySelectorAll("details")].map((each) => each.open);
  });
  document.addEventListener("htmx:afterSettle", () => {
    document.querySelectorAll("details").forEach((each, at) => { each.open = open[at] ?? each.open; });
    drawAll();
  });
  drawAll();
})();
