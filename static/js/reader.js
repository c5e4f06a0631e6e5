// The reader of a trial. Steps come in chunks as one scrolls, the address follows, every #step-N resolves, and the keys
// walk steps, deciding steps, errors, skill uses and writes. Without this file the links do the same, page by page.

const reader = document.querySelector("[data-reader]");
const list = document.querySelector(".reader .steps");
const total = Number(reader?.dataset.total ?? 0);
const isFar = reader?.dataset.far !== undefined; // not every step has its row: the server finds the next error
const kept = reader?.dataset.query ?? "";
const MOST = 80; // steps in the page, below 300 MB of a browser; those farthest from the reader go, and come back when they are asked for
const LONG = 40; // from here on the browser draws only what is near
const NEAR = "1500px"; // a chunk is asked for so far ahead
const TOP = 52; // below the bar that stays
let pointed = null; // what the reader asked for, until they scroll themselves
let waiting = false;
let opened = false; // reasoning, by r

const stepsNow = () => (list ? [...list.querySelectorAll(":scope > .step")] : []);
const numberOf = (step) => Number(step.id.slice(5));
const stepAt = (number) => document.getElementById(`step-${number}`)?.closest("li") ?? null; // an empty step is in the next one's card
const isTyping = (target) => target.closest?.("input:not([type=radio]), textarea, select, [contenteditable]");

// --- where the reader is -------------------------------------------------------------------------------------------

function here() {
  const steps = stepsNow();
  let low = 0;
  let high = steps.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle].getBoundingClientRect().bottom > TOP + 4) high = middle;
    else low = middle + 1;
  }
  return steps[low] ?? null;
}

let shown = 0;
let drawn = 0;

function follow() {
  waiting = false;
  const marked = pointed && stepAt(pointed);
  const step = marked ?? here();
  if (!step || !reader) return;
  const number = numberOf(step);
  drawMap();
  if (number === shown) return;
  shown = number;
  const place = document.querySelector("[data-place]");
  if (place) place.textContent = `Step ${number.toLocaleString("en")}`;
  markRow(number);
  if (Date.now() - drawn > 250) settleAddress();
  else setTimeout(() => shown === number && settleAddress(), 260);
}

function settleAddress() {
  if (!shown || !scrolled) return;
  drawn = Date.now();
  const query = new URLSearchParams(location.search);
  for (const name of ["step", "first", "to", "next", "after"]) query.delete(name);
  query.set("at", shown);
  history.replaceState(null, "", `?${query}#step-${shown}`);
}

function markRow(number) {
  for (const row of document.querySelectorAll(".outline li.at")) row.classList.remove("at");
  const link = document.querySelector(`.outline a[href$="#step-${number}"]`);
  const row = link?.parentElement;
  const pane = document.querySelector(".outline-rows");
  if (!row || !pane) return;
  row.classList.add("at");
  const at = row.getBoundingClientRect();
  const box = pane.getBoundingClientRect();
  if (at.top < box.top + 20 || at.bottom > box.bottom - 20) pane.scrollTop += at.top - box.top - box.height / 3;
}

// A heading over others opens the one where the reader is.
function openStretch(rows) {
  const inside = [...rows.querySelectorAll(":scope > .stretch")];
  const isHere = ({ dataset }) => Number(dataset.first) <= shown && shown <= Number(dataset.last);
  inside.find(isHere)?.setAttribute("open", "");
}

function drawMap() {
  const view = document.querySelector("[data-view]");
  const inSight = stepsNow().filter((step) => {
    const { top, bottom } = step.getBoundingClientRect();
    return bottom > TOP && top < innerHeight;
  });
  if (!view || !inSight.length) return;
  const first = numberOf(inSight[0]);
  const least = total / 120; // a box that can be seen, however long the trajectory
  view.setAttribute("y", first - 1);
  view.setAttribute("height", Math.max(numberOf(inSight[inSight.length - 1]) - first + 1, least));
}

let scrolled = false;
addEventListener(
  "scroll",
  () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(follow);
  },
  { passive: true },
);
for (const kind of ["wheel", "touchmove", "pointerdown"]) {
  addEventListener(
    kind,
    () => {
      scrolled = true;
      pointed = null;
    },
    { passive: true },
  );
}

// --- chunks --------------------------------------------------------------------------------------------------------

const watcher = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) if (entry.isIntersecting) htmx.trigger(entry.target, "near");
  },
  { rootMargin: `${NEAR} 0px` },
);

function watch() {
  watcher.disconnect();
  for (const link of list?.querySelectorAll(":scope > .more-steps") ?? []) watcher.observe(link);
  list?.classList.toggle("is-long", stepsNow().length > LONG);
}

// Whatever comes or goes above, what the reader looks at stays where it is.
let anchor = null;

function hold() {
  const step = (pointed && stepAt(pointed)) ?? here();
  anchor = step && { step, top: step.getBoundingClientRect().top };
}

function release() {
  if (!anchor?.step.isConnected) return;
  const moved = anchor.step.getBoundingClientRect().top - anchor.top;
  if (Math.abs(moved) > 0.5) scrollBy({ top: moved, behavior: "instant" });
  anchor = null;
}

function makeLink(way, place) {
  const item = document.createElement("li");
  item.className = "more-steps";
  item.dataset.way = way;
  item.setAttribute("hx-get", `${reader.dataset.steps}?${way}=${place}${kept}`);
  item.setAttribute("hx-trigger", "near once");
  item.setAttribute("hx-swap", "outerHTML");
  const link = document.createElement("a");
  link.href = `?at=${place}${kept}#step-${place}`;
  link.textContent = way === "to" ? `Steps before ${place + 1}` : `Steps from ${place} on`;
  item.append(link);
  return item;
}

function trim(way) {
  const steps = stepsNow();
  const surplus = steps.length - MOST;
  if (surplus <= 0) return;
  const gone = way === "first" ? steps.slice(0, surplus) : steps.slice(-surplus);
  list.querySelector(`:scope > .more-steps[data-way=${way === "first" ? "to" : "first"}]`)?.remove();
  const edge = numberOf(way === "first" ? gone[gone.length - 1] : gone[0]);
  const link = makeLink(way === "first" ? "to" : "first", edge);
  for (const step of gone) step.remove();
  if (way === "first") list.prepend(link);
  else list.append(link);
  htmx.process(link);
}

let lastWay = "";
document.addEventListener("htmx:beforeSwap", (event) => {
  if (!event.detail.target.classList?.contains("more-steps")) return;
  hold();
  lastWay = event.detail.target.dataset.way;
});
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.target?.classList?.contains("rows")) {
    openStretch(event.detail.target);
    markRow(shown);
  }
  if (!lastWay) return;
  trim(lastWay);
  lastWay = "";
  release();
  if (opened) openReasoning(true);
  watch();
  follow();
});

// --- going to a step -----------------------------------------------------------------------------------------------

function show(step, number) {
  for (const other of list.querySelectorAll(":scope > .at, :scope > .pointed")) other.classList.remove("at", "pointed");
  step.classList.add("at");
  pointed = number;
  scrolled = true;
  step.scrollIntoView({ block: "start", behavior: "instant" });
  if (number === shown) settleAddress(); // already in sight when it was asked for
  follow();
}

async function go(number) {
  if (!list || !(number >= 1 && number <= total)) return;
  const at = stepAt(number);
  if (at) {
    show(at, number);
    return;
  }
  const found = await bring(`at=${number}`);
  if (found) show(found, number);
}

// The steps around the one that the query asks for, in place of those in the page; that one, or null.
async function bring(query) {
  const answer = await fetch(`${reader.dataset.steps}?${query}${kept}`, { headers: { "HX-Request": "true" } });
  if (!answer.ok) {
    location.href = `?${query}${kept}`;
    return null;
  }
  const parsed = new DOMParser().parseFromString(`<ol>${await answer.text()}</ol>`, "text/html");
  list.replaceChildren(...parsed.querySelector("ol").childNodes);
  htmx.process(list);
  watch();
  return list.querySelector(":scope > .pointed");
}

// Heights above may still change while pictures of text settle: the step that was asked for stays at the top.
function keepPointed() {
  const step = pointed && stepAt(pointed);
  if (!step || !scrolled) return;
  const { top } = step.getBoundingClientRect();
  if (Math.abs(top - TOP) > 60 && document.documentElement.scrollHeight > innerHeight + scrollY + 4) {
    step.scrollIntoView({ block: "start", behavior: "instant" });
  }
}

const hashNumber = () => Number(/^#step-(\d+)$/.exec(location.hash)?.[1] ?? 0);

function open() {
  const number = hashNumber() || Number(list?.querySelector(":scope > .pointed")?.id.slice(5) ?? 0);
  if (number && reader) {
    go(number);
    setTimeout(keepPointed, 300);
    setTimeout(keepPointed, 1200);
  } else {
    follow();
  }
}

addEventListener("hashchange", () => hashNumber() && go(hashNumber()));

document.addEventListener("click", (event) => {
  if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || !reader) return;
  const walker = event.target.closest?.("[data-walk]");
  if (walker) {
    event.preventDefault();
    walk(walker.dataset.walk);
    return;
  }
  const link = event.target.closest?.("a[href*='#step-']");
  const url = link && new URL(link.href, location.href);
  if (!url || url.pathname !== location.pathname || !sameTrajectory(url)) return;
  event.preventDefault();
  go(Number(url.hash.slice(6)));
});

function sameTrajectory(url) {
  const asked = new URLSearchParams(url.search);
  const own = new URLSearchParams(kept);
  return ["attempt", "trajectory"].every((name) => (asked.get(name) ?? own.get(name)) === own.get(name)) && !inView();
}

const inView = () => /[?&]view=r/.test(location.search);

// --- keys ----------------------------------------------------------------------------------------------------------

const KINDS = { d: "deciding", e: "error", s: "skill", n: "write", p: "write", D: "deciding", E: "error", S: "skill" };
const BACK = "DESp";
const SERVED = { e: "error", s: "skill" };

function current() {
  const at = list?.querySelector(":scope > .at, :scope > .pointed");
  return at ? numberOf(at) : 0;
}

function walk(key) {
  const at = current();
  if (key === "j" || key === "k") {
    const from = at || (key === "j" ? numberOf(here() ?? { id: "step-1" }) - 1 : 0);
    go(key === "j" ? from + 1 : from - 1);
    return true;
  }
  const kind = KINDS[key];
  const back = BACK.includes(key);
  if (isFar) {
    if (!SERVED[key]) return false;
    bring(`next=${SERVED[key]}&after=${at || Math.max(0, numberOf(here()) - 1)}`).then(
      (found) => found && show(found, numberOf(found)),
    );
    return true;
  }
  const rows = [...document.querySelectorAll(`.outline li.${kind} > a`)].map((link) => Number(link.hash.slice(6)));
  const next = back ? rows.filter((number) => number < at).pop() : rows.find((number) => number > at);
  if (next) go(next);
  return rows.length > 0;
}

function openReasoning(open) {
  opened = open;
  for (const one of list?.querySelectorAll("details.think") ?? []) one.open = open;
}

function unfold(steps) {
  const folds = steps.flatMap((step) => [...step.querySelectorAll("details")]);
  const open = folds.some((fold) => !fold.open);
  for (const fold of folds) fold.open = open;
}

function nextCut() {
  const choices = [...document.querySelectorAll("input[name=cut]")];
  if (!choices.length) return false;
  choices[(choices.findIndex((one) => one.checked) + 1) % choices.length].checked = true;
  greyOutline();
  return true;
}

// The steps follow the switch by CSS alone; the outline is in another pane.
function greyOutline() {
  if (reader) reader.dataset.cut = document.querySelector("input[name=cut]:checked")?.value ?? "off";
}

document.querySelector(".cut-switch")?.addEventListener("change", greyOutline);

function copyLink() {
  const number = current() || shown;
  const url = new URL(location.href);
  if (number) {
    url.searchParams.set("at", number);
    url.hash = `step-${number}`;
  }
  navigator.clipboard?.writeText(url.href).then(() => say(`Link to step ${number} copied`), () => say("Copy it from the address bar"));
}

function say(text) {
  const place = document.querySelector("[data-place]");
  if (!place) return;
  place.textContent = text;
  setTimeout(() => {
    place.textContent = `Step ${shown.toLocaleString("en")}`;
  }, 1500);
}

function comment() {
  const step = list?.querySelector(":scope > .at, :scope > .pointed") ?? here();
  const link = step?.querySelector("[data-comment]");
  link?.click();
  return Boolean(link);
}

let before = "";
const ACTS = {
  G: () => go(total),
  o: () => document.querySelector(".reader").classList.toggle("no-outline"),
  r: () => openReasoning(!opened),
  c: nextCut,
  x: () => unfold([list?.querySelector(":scope > .at, :scope > .pointed") ?? here()].filter(Boolean)),
  X: () => unfold(stepsNow()),
  y: copyLink,
  m: comment,
};

document.addEventListener(
  "keydown",
  (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]:not(.comments-sheet)") || !list || !document.querySelector(".reader")) return;
    const { key } = event;
    const isDouble = key === "g" && before === "g";
    before = key;
    let done = false;
    if (isDouble) {
      go(1);
      done = true;
    } else if (key === "j" || key === "k" || key in KINDS) {
      done = reader ? walk(key) : walkLive(key);
    } else if (key in ACTS && (reader || key === "r" || key === "x" || key === "X" || key === "m")) {
      done = ACTS[key]() !== false;
    }
    if (!done) return;
    event.preventDefault();
    event.stopPropagation();
  },
  true,
);

// A trial at work has no outline yet: its keys walk the steps that are there.
function walkLive(key) {
  const steps = stepsNow();
  const at = steps.findIndex((step) => step.classList.contains("at"));
  const kind = { e: "error", s: "skill", E: "error", S: "skill" }[key];
  if (!steps.length || (!kind && key !== "j" && key !== "k")) return false;
  const back = key === "k" || key === "E" || key === "S";
  const order = back ? steps.slice(0, Math.max(at, 0)).reverse() : steps.slice(at + 1);
  const next = order.find((step) => !kind || step.classList.contains(kind));
  if (!next) return true;
  steps[at]?.classList.remove("at");
  next.classList.add("at");
  next.scrollIntoView({ block: "start", behavior: "instant" });
  return true;
}

document.querySelector("[data-reasoning]")?.addEventListener("click", () => openReasoning(!opened));

if (reader) {
  watch();
  greyOutline(); // a browser remembers what was chosen
  open();
  document.querySelector(".stretch[data-here]")?.setAttribute("open", "");
}
