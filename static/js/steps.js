// Steps of a pair, of a resolution and of what an author saw: j and k walk them, e E and s S those with an error or a
// skill use. Where the page ends, j and k turn it, and the links with the same key (next error) take over.

let steps = [...document.querySelectorAll(".steps > li")];
document.addEventListener("htmx:afterSettle", () => {
  steps = [...document.querySelectorAll(".steps > li")]; // those of a trial at work grow in number
});
let at = steps.findIndex((step) => step.matches(".pointed, :target"));
const pane = steps[at]?.closest(".pane"); // where it scrolls by itself, the head of the page stays in view
if (at >= 0 && !location.hash.startsWith("#step")) {
  if (pane?.scrollHeight > pane?.clientHeight) pane.scrollTop += steps[at].getBoundingClientRect().top - pane.getBoundingClientRect().top;
  else if (location.search.includes("step=")) steps[at].scrollIntoView({ block: "start" });
}

function go(index) {
  document.querySelector(".steps > li.at")?.classList.remove("at");
  document.querySelector(".outline li.at")?.classList.remove("at");
  at = index;
  const step = steps[at];
  step.classList.add("at");
  step.scrollIntoView({ block: "start" });
  history.replaceState(null, "", `#${step.id}`);
  const row = document.querySelector(`.outline a[href$="#${step.id}"]`)?.parentElement;
  row?.classList.add("at");
  row?.scrollIntoView({ block: "nearest" });
}

const WALKS = {
  j: () => at + 1,
  k: () => (at < 0 ? -1 : at - 1),
  e: () => ahead("error"),
  E: () => behind("error"),
  s: () => ahead("skill"),
  S: () => behind("skill"),
};
const PAGES = { j: ">", k: "<" };

const ahead = (kind) => steps.findIndex((step, index) => index > at && step.classList.contains(kind));
const behind = (kind) => steps.findLastIndex((step, index) => index < at && step.classList.contains(kind));

// Before keys.js: on the way down, so that e and s stay on the page as long as there is a step to go to.
document.addEventListener(
  "keydown",
  (event) => {
    const walk = WALKS[event.key];
    if (!walk || !steps.length || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.("input, textarea, select") || document.querySelector("dialog[open]")) return;
    const next = walk();
    if (next >= 0 && next < steps.length) {
      event.preventDefault();
      go(next);
    } else if (event.key in PAGES && (event.key === "j" || at === 0)) {
      document.querySelector(`[data-key="${PAGES[event.key]}"]`)?.click();
    }
  },
  true,
);
