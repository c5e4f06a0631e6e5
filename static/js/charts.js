// Charts: each <figure data-chart="address of its JSON"> with a .chart-plot fetches plotly and its figure when it comes into view,
// draws it in the colours of the theme, and is walked by arrow keys. The others are HTML, and fetch both only for a picture file.

const CONFIG = { responsive: true, displaylogo: false, displayModeBar: false, showSendToCloud: false, plotlyServerURL: "" };
const NARROWEST = 300; // px: what is narrower scrolls inside its box
const NARROWEST_MANY = 620; // of a figure with cells or several panels
const charts = new Map(); // figure element -> its state

const root = document.documentElement;
const isDark = () =>
  (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

// Plotly writes some style attributes, which the content policy refuses; the same set through the style object is allowed.
SVGElement.prototype.setAttribute = function setAttribute(name, value) {
  if (name === "style") this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
};

// --- colours -----------------------------------------------------------------------------------------------------------

/** A copy of the figure with each colour replaced by its twin; only what a key calls a colour is touched. */
function recoloured(value, twins, isColour = false) {
  if (typeof value === "string") return isColour ? twin(value, twins) : value;
  if (Array.isArray(value)) return value.map((each) => recoloured(each, twins, isColour));
  if (value === null || typeof value !== "object") return value;
  const inside = ([key, each]) => [key, recoloured(each, twins, isColour || /color/i.test(key))];
  return Object.fromEntries(Object.entries(value).map(inside));
}

function twin(colour, twins) {
  const plain = twins[colour.toLowerCase()];
  if (plain) return plain;
  const parts = /^rgba\((\d+), ?(\d+), ?(\d+), ?([\d.]+)\)$/.exec(colour);
  const dark = parts && twins[`#${parts.slice(1, 4).map((part) => Number(part).toString(16).padStart(2, "0")).join("")}`];
  if (!dark) return colour;
  const channels = [1, 3, 5].map((place) => parseInt(dark.slice(place, place + 2), 16));
  return `rgba(${channels.join(",")},${parts[4]})`;
}

function themed(chart) {
  const figure = recoloured(chart.answer.figure, isDark() ? chart.answer.dark : {});
  figure.layout.font = { ...figure.layout.font, family: getComputedStyle(document.body).fontFamily };
  figure.layout.autosize = true;
  return figure;
}

/** With the layout for narrow places, where the figure has one and its own does not fit. */
function laidOut(chart, width) {
  const figure = themed(chart);
  const { narrow, min_width } = figure.layout.meta ?? {};
  if (narrow && width < min_width) figure.layout = { ...figure.layout, ...narrow };
  return figure;
}

// --- drawing -----------------------------------------------------------------------------------------------------------

let plotly; // the promise of its script

function loadPlotly() {
  plotly ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = document.querySelector("script[data-plotly]").dataset.plotly;
    script.onload = resolve;
    script.onerror = () => {
      plotly = undefined;
      reject(new Error("the drawing code did not arrive"));
    };
    document.head.append(script);
  });
  return plotly;
}

/** The chart of a figure, with its answer. */
async function fetched(element) {
  const chart = charts.get(element) ?? { element, plot: element.querySelector(".chart-plot"), answer: null, at: -1, points: [] };
  charts.set(element, chart);
  if (!chart.answer) {
    const response = await fetch(element.dataset.chart, { headers: { Accept: "application/json" } });
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    chart.answer = await response.json();
  }
  return chart;
}

async function load(element) {
  try {
    const [chart] = await Promise.all([fetched(element), loadPlotly()]);
    await draw(chart);
  } catch (error) {
    fail(charts.get(element), error);
  }
}

async function draw(chart) {
  const { plot, answer } = chart;
  plot.replaceChildren();
  if (!answer.figure) return say(plot, answer.absent || "There is nothing to draw.");
  const figure = laidOut(chart, plot.parentElement.clientWidth);
  plot.style.minWidth = `${narrowest(figure)}px`;
  await Plotly.newPlot(plot, figure.data, figure.layout, CONFIG);
  plot.on("plotly_click", ({ points }) => follow(chart, points[0]));
  plot.on("plotly_hover", ({ points }) => tell(chart, hovered(points[0])));
  chart.points = walkable(plot);
  plot.classList.toggle("leads", chart.points.some((point) => address(point.customdata)));
  chart.element.dataset.drawn = isDark() ? "dark" : "light";
}

function narrowest({ data, layout }) {
  const panels = Object.keys(layout).filter((key) => /^xaxis/.test(key)).length;
  const many = panels > 1 || data.some((trace) => trace.type === "heatmap");
  return layout.meta?.min_width ?? (many ? NARROWEST_MANY : NARROWEST);
}

function say(plot, sentence) {
  const line = document.createElement("p");
  line.className = "note chart-absent";
  line.textContent = sentence;
  plot.replaceChildren(line);
  plot.removeAttribute("tabindex");
  plot.setAttribute("role", "group");
}

function fail(chart, error) {
  const box = document.createElement("div");
  const line = document.createElement("p");
  const again = document.createElement("button");
  box.className = "note bad";
  box.setAttribute("role", "alert");
  line.textContent = `This chart could not be drawn: ${error.message}. Its numbers may still be in the table.`;
  again.type = "button";
  again.className = "button";
  again.textContent = "Try again";
  again.addEventListener("click", () => load(chart.element));
  box.append(line, again);
  chart.plot.replaceChildren(box);
}

async function repaint() {
  for (const chart of charts.values()) {
    if (!chart.plot?.data) continue;
    const figure = laidOut(chart, chart.plot.getBoundingClientRect().width);
    await Plotly.react(chart.plot, figure.data, figure.layout, CONFIG);
    chart.element.dataset.drawn = isDark() ? "dark" : "light";
  }
}

// --- points: where they lead, what they say, how they are walked ---------------------------------------------------------

/** The address a point carries: of this site only. A published site has no root of its own: there it is read from where
 *  the figure lies. */
function address(customdata) {
  const first = Array.isArray(customdata) ? customdata[0] : customdata;
  return typeof first === "string" && /^(\/(?![/\\])|\.\.?\/)/.test(first) ? first : "";
}

function follow(chart, point) {
  const target = address(point?.customdata);
  if (target) location.assign(new URL(target, new URL(chart.element.dataset.chart, location.href)));
}

/** Plotly's texts carry a little HTML; a reader hears words. A break after a space only wraps a long line. */
function words(text) {
  const marked = String(text).replace(/ <br>/g, " ").replace(/<br>/g, "; ").replace(/<extra>.*?<\/extra>/g, "").replace(/<[^>]*>/g, "");
  const signs = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'", "&amp;": "&" };
  return marked.replace(/&(?:lt|gt|quot|#x27|amp);/g, (sign) => signs[sign]);
}

/** What a point says: its own words, else its series and its place. */
function sentence({ name, words: own, x, y, z }) {
  const where = [name, y, x, z].filter((part) => part !== undefined && part !== null && part !== "");
  return words(own || where.join("; "));
}

function tell(chart, point) {
  const line = chart.element.querySelector(".chart-say");
  line.textContent = address(point.customdata) ? `${sentence(point)} (opens its trials)` : sentence(point);
}

/** A hovered point as plotly hands it over. */
const hovered = (point) => ({ ...point, name: point.data.name, words: point.hovertext ?? point.text });

/** Every point that is drawn, in the order of its traces; cells by row and column. */
function walkable(plot) {
  const traces = plot._fullData.map((trace, curve) => ({ trace, curve }));
  const seen = traces.filter(({ trace }) => trace.visible === true && !["skip", "none"].includes(trace.hoverinfo));
  return seen.flatMap(({ trace, curve }) => (trace.type === "heatmap" ? cells(trace, curve) : marks(trace, curve)));
}

/** One value for all points of a trace, or the one at a place; undefined where there is none. */
const at = (value, place) => (value === undefined || value === null || typeof value === "string" ? value : value[place]);

function marks(trace, curve) {
  const subplot = `${trace.xaxis ?? "x"}${trace.yaxis ?? "y"}`;
  const places = [...Array(Math.max(trace.x?.length ?? 0, trace.y?.length ?? 0)).keys()];
  return places
    .map((number) => ({
      curve,
      subplot,
      number,
      name: trace.name,
      x: at(trace.x, number),
      y: at(trace.y, number),
      words: at(trace.hovertext, number) || at(trace.text, number),
      customdata: at(trace.customdata, number),
    }))
    .filter(({ x, y }) => x !== null && y !== null && !Number.isNaN(x) && !Number.isNaN(y));
}

function cells(trace, curve) {
  const subplot = `${trace.xaxis ?? "x"}${trace.yaxis ?? "y"}`;
  const all = [...trace.z].flatMap((row, down) =>
    [...row].map((z, right) => ({
      curve,
      subplot,
      number: [down, right],
      name: trace.name,
      z,
      words: at(at(trace.hovertext, down), right) || at(at(trace.text, down), right),
      customdata: at(at(trace.customdata, down), right),
    })),
  );
  return all.filter(({ z }) => z !== null && z !== undefined && !Number.isNaN(z));
}

/** The next point in a direction: along its trace or row; up and down to the next row of cells or the next trace. */
function next(chart, key) {
  const { points, at } = chart;
  if (at < 0) return 0;
  const forward = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
  const here = points[at];
  if (key === "ArrowLeft" || key === "ArrowRight") return Math.min(points.length - 1, Math.max(0, at + forward));
  const isCell = Array.isArray(here.number);
  const beside = (point) =>
    isCell ? point.curve === here.curve && point.number[1] === here.number[1] : point.curve !== here.curve;
  for (let place = at + forward; place >= 0 && place < points.length; place += forward) {
    if (beside(points[place])) return place;
  }
  return Math.min(points.length - 1, Math.max(0, at + forward));
}

function show(chart) {
  const point = chart.points[chart.at];
  Plotly.Fx.unhover(chart.plot, {}, point.subplot);
  Plotly.Fx.hover(chart.plot, [{ curveNumber: point.curve, pointNumber: point.number }], point.subplot);
  tell(chart, point); // plotly tells of its own hovers only
}

function walk(event) {
  const plot = event.target.closest?.(".chart-plot");
  const chart = plot && charts.get(plot.closest("figure"));
  if (!chart?.points.length || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key.startsWith("Arrow")) {
    chart.at = next(chart, event.key);
    show(chart);
  } else if (event.key === "Home" || event.key === "End") {
    chart.at = event.key === "Home" ? 0 : chart.points.length - 1;
    show(chart);
  } else if (event.key === "Enter" && chart.at >= 0) {
    follow(chart, chart.points[chart.at]);
  } else {
    return;
  }
  event.preventDefault();
}

// --- take away -----------------------------------------------------------------------------------------------------------

/** The chart as a file, with all that a reader without the page has to know. A picture holds no letters of this site's: it
 *  is measured with those it will be read with, or its words would be cut. */
async function download({ element }, format) {
  const [chart] = await Promise.all([fetched(element), loadPlotly()]);
  const { answer } = chart;
  const { width } = (chart.plot ?? element).getBoundingClientRect();
  const figure = laidOut(chart, width);
  const { height } = figure.layout;
  const style = getComputedStyle(document.body);
  const lettering = style.fontFamily.replace(/^["']?Inter["']?, */, "");
  const margin = figure.layout.margin ?? {};
  const numbers = [answer.as_of && `as of ${answer.as_of}`, `numbers ${answer.fingerprint}`].filter(Boolean).join(" · ");
  const title = wrapped(answer.caption.title, (width - 24) / 8.5);
  const notes = answer.caption.lines.flatMap((line) => wrapped(line, (width - 24) / 6.6));
  const above = 24 + 21 * title.length + 15 * (notes.length + 1);
  figure.layout = {
    ...figure.layout,
    font: { ...figure.layout.font, family: lettering },
    paper_bgcolor: style.backgroundColor,
    title: {
      text: title.join("<br>"),
      subtitle: { text: [...notes, `<sub>${numbers}</sub>`].join("<br>"), font: { size: 12 } },
      x: 0, xref: "container", xanchor: "left", y: 1, yref: "container", yanchor: "top",
      pad: { l: 12, t: 12 + 11 * (title.length - 1) }, // plotly puts the middle of its lines where the first belongs
      font: { size: 15, color: style.color },
    },
    margin: { ...margin, t: (margin.t ?? 12) + above },
  };
  const size = { width: Math.round(width), height: Math.round(height) + above };
  return Plotly.downloadImage(figure, { format, filename: element.dataset.keyOf, scale: format === "png" ? 2 : 1, ...size });
}

/** Its lines, of about so many letters. */
function wrapped(text, letters) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = lines.at(-1);
    if (line && line.length + word.length >= letters) lines.push(word);
    else lines[lines.length - 1] = line ? `${line} ${word}` : word;
  }
  return lines;
}

async function table(chart, button) {
  const more = chart.element.querySelector(".chart-more");
  const open = button.getAttribute("aria-expanded") !== "true";
  more.replaceChildren();
  if (open) {
    const response = await fetch(chart.element.dataset.page, { headers: { "HX-Request": "true" } });
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    const parsed = new DOMParser().parseFromString(await response.text(), "text/html"); // runs nothing it holds
    more.replaceChildren(...parsed.body.children);
  }
  button.setAttribute("aria-expanded", String(open));
}

async function link(chart, button) {
  const { permalink } = (await fetched(chart.element)).answer;
  try {
    await navigator.clipboard.writeText(permalink);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Link"), 1600);
  } catch {
    const field = document.createElement("input"); // no clipboard without https: the reader copies
    field.type = "text";
    field.readOnly = true;
    field.value = permalink;
    field.setAttribute("aria-label", "Address of exactly this chart");
    chart.element.querySelector(".chart-more").replaceChildren(field);
    field.select();
  }
}

const ACTS = {
  table,
  link,
  png: (chart) => download(chart, "png"),
  svg: (chart) => download(chart, "svg"),
};

async function act(event) {
  const button = event.target.closest("[data-chart-act]");
  if (!button) return;
  const element = button.closest("figure");
  const chart = charts.get(element) ?? { element };
  try {
    await ACTS[button.dataset.chartAct](chart, button);
  } catch (error) {
    element.querySelector(".chart-say").textContent = `That did not work: ${error.message}.`;
  }
}

// --- start ---------------------------------------------------------------------------------------------------------------

const near = new IntersectionObserver(
  (entries) =>
    entries.filter((entry) => entry.isIntersecting).forEach(({ target }) => {
      near.unobserve(target);
      load(target);
    }),
  { rootMargin: "200px" },
);

/** Also for figures that htmx brings in later. */
function watch(part) {
  part.querySelectorAll("figure[data-chart]").forEach((element) => {
    element.querySelectorAll("[data-chart-act][hidden]").forEach((button) => (button.hidden = false));
    if (element.querySelector(".chart-plot") && !charts.has(element)) near.observe(element);
  });
}

document.addEventListener("themechange", repaint);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
document.addEventListener("keydown", walk);
document.addEventListener("click", act);
document.addEventListener("htmx:afterSwap", (event) => watch(event.target));
watch(document);
