// The evolution strip. Its links work without this file; with it a click swaps the parts below instead of loading the page,
// j and k step from patch to patch, and a card shows what lies under the pointer or has the focus.
//
// A page names what a click swaps: data-strip-swap="#evolution" on an element around the strip, a list of ids apart by
// spaces. The answer is the whole page; the parts are taken out of it.

const CARD_DELAY = 120; // milliseconds

// --- swapping -----------------------------------------------------------------------------------------------------------

let asked = null; // the stop that was asked for and has not come yet: keys count from there, so that none is lost
let busy = false; // one request at a time; what is asked for meanwhile comes next
let wanted = null;
let scrolled = 0;

htmx.config.refreshOnHistoryMiss = true; // Back loads the page: its parts belong together

const stops = () => [...document.querySelectorAll("[data-strip-swap] [data-stop]")];

async function follow(link) {
  const holder = document.querySelector("[data-strip-swap]");
  const address = (link.getAttribute("href") ?? "").split("#")[0];
  asked = link.dataset.stop ?? null;
  if (busy) {
    wanted = link;
    return;
  }
  busy = true;
  scrolled = holder.querySelector(".evo-scroll")?.scrollLeft ?? 0;
  const [target, ...others] = holder.dataset.stripSwap.split(" ");
  holder.setAttribute("hx-push-url", "true");
  if (others.length) holder.setAttribute("hx-select-oob", others.join(","));
  try {
    await htmx.ajax("GET", address, { source: holder, target, select: target, swap: "outerHTML show:none" });
  } catch {
    location.assign(address); // what went wrong is said by the page itself
  }
  busy = false;
  const next = wanted;
  wanted = null;
  if (next) follow(next);
}

function swaps(link) {
  return Boolean(link?.matches("[data-stop], [data-swap]") && document.querySelector("[data-strip-swap]"));
}

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.altKey) return;
  const link = event.target.closest?.("a");
  if (!swaps(link)) return;
  event.preventDefault();
  if (event.shiftKey && extend(link)) return;
  follow(link);
});

// Shift and a click on a patch: the range from the patch at hand to this one.
function extend(link) {
  const range = link.closest("[data-range]")?.dataset.range;
  const all = stops();
  const from = all.findIndex((stop) => stop.getAttribute("aria-current"));
  const to = all.indexOf(link);
  if (!range || from < 0 || to < 0 || from === to) return false;
  const [first, last] = [all[Math.min(from, to)], all[Math.max(from, to)]];
  const address = new URL(range, location.href);
  address.searchParams.set("from", first.dataset.before);
  address.searchParams.set("to", last.dataset.after);
  location.assign(address);
  return true;
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key !== "j" && event.key !== "k") return;
  if (event.target.closest?.("input, textarea, select") || document.querySelector("dialog[open]")) return;
  const all = stops();
  if (!all.length) return;
  event.preventDefault();
  const at = all.findIndex((stop) => (asked ? stop.dataset.stop === asked : stop.getAttribute("aria-current")));
  const next = at < 0 ? (event.key === "j" ? 0 : all.length - 1) : at + (event.key === "j" ? 1 : -1);
  if (all[next]) follow(all[next]);
});

document.addEventListener("htmx:afterSettle", () => {
  const strip = document.querySelector("[data-strip-swap] .evo-scroll");
  if (!strip) return;
  hide();
  strip.scrollLeft = scrolled;
  const here = stops().find((stop) => stop.getAttribute("aria-current"));
  if (!asked || here?.dataset.stop === asked) asked = null;
  showIn(strip, here);
});

function showIn(strip, here) {
  const box = here?.getBoundingClientRect();
  const frame = strip.getBoundingClientRect();
  if (!box || (box.left >= frame.left && box.right <= frame.right)) return;
  strip.scrollLeft += box.left - frame.left - frame.width / 2;
}

for (const strip of document.querySelectorAll(".evo-scroll")) showIn(strip, strip.querySelector("[aria-current]"));

// --- the card -------------------------------------------------------------------------------------------------------------

let card = null;
let waiting = 0;

// The browser's own tooltip would lie on top of the card: the words move to a label.
function takeWords(link) {
  const title = link.querySelector(":scope > title");
  if (title) {
    link.dataset.words = title.textContent;
    link.setAttribute("aria-label", title.textContent.replaceAll("\n", ". "));
    title.remove();
  }
  return link.dataset.words ?? "";
}

function show(link) {
  const lines = takeWords(link).split("\n");
  hide();
  card = document.createElement("div");
  card.className = "evo-card";
  card.setAttribute("aria-hidden", "true"); // the link's label says the same
  lines.forEach((line, place) => {
    const part = document.createElement(place ? "div" : "b");
    part.textContent = line;
    card.append(part);
  });
  document.body.append(card);
  const at = link.getBoundingClientRect();
  const left = Math.min(Math.max(8, at.left), document.documentElement.clientWidth - card.offsetWidth - 8);
  const below = at.bottom + 6 + card.offsetHeight < innerHeight;
  card.style.left = `${left + scrollX}px`;
  card.style.top = `${(below ? at.bottom + 6 : at.top - card.offsetHeight - 6) + scrollY}px`;
}

function hide() {
  clearTimeout(waiting);
  card?.remove();
  card = null;
}

const marked = (event) => event.target.closest?.(".evo-svg a, .evo-svg g.evo-tick");

document.addEventListener("pointerover", (event) => {
  const link = marked(event);
  if (!link || event.pointerType === "touch") return;
  takeWords(link);
  clearTimeout(waiting);
  waiting = setTimeout(show, CARD_DELAY, link);
});
document.addEventListener("pointerout", (event) => marked(event) && hide());
document.addEventListener("focusin", (event) => {
  const link = marked(event);
  if (!link?.matches(":focus-visible")) return;
  clearTimeout(waiting);
  waiting = setTimeout(show, CARD_DELAY, link);
});
document.addEventListener("focusout", (event) => marked(event) && hide());
document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
