// A trial at work: new steps are added at the end. The page follows them while the reader is at the end and stays where
// it is otherwise. F pauses, and follows again from the end.

const live = document.querySelector("[data-live]");
const list = document.getElementById("live-steps");
const follow = live?.querySelector("[data-live-follow]");
const fresh = live?.querySelector("[data-live-new]");
const MAX_SHOWN = 400; // older ones are in the record when the attempt ends
const NEAR = 80; // pixels from the end that count as the end
let paused = false;
let waiting = 0; // steps that came while the reader was elsewhere
let seen = 0;
let wasAtEnd = true;

// The end is that of the steps: on a narrow screen the verdict stands below them.
function isAtEnd() {
  const { bottom } = live.getBoundingClientRect();
  return bottom > 0 && bottom < innerHeight + NEAR;
}

function goToEnd() {
  const { bottom } = live.getBoundingClientRect();
  if (bottom > innerHeight || bottom < 0) live.scrollIntoView({ block: "end" });
}

function settleAtEnd() {
  goToEnd();
  show(); // which may change the height of the bar
  goToEnd();
}

// Only while the page follows: above somebody who reads, nothing is taken away.
function trim() {
  const surplus = list.children.length - MAX_SHOWN;
  if (surplus <= 0) return;
  for (const step of [...list.children].slice(0, surplus)) step.remove();
  seen -= surplus;
  let note = live.querySelector("[data-live-trimmed]");
  if (!note) {
    note = document.createElement("p");
    note.className = "filenote";
    note.dataset.liveTrimmed = "";
    list.before(note);
  }
  note.textContent = `Only the last ${MAX_SHOWN} steps are kept here; the record has all when the attempt ends.`;
}

function show() {
  if (isAtEnd()) waiting = 0;
  const key = document.createElement("kbd");
  key.textContent = "F";
  follow.replaceChildren(paused || !isAtEnd() ? "Follow " : "Pause ", key);
  fresh.hidden = !waiting;
  fresh.textContent = `${waiting} new step${waiting === 1 ? "" : "s"} below`;
  live.classList.toggle("paused", paused);
}

if (live) {
  seen = list.children.length;
  show(); // nothing moves before the reader asks for it
  follow.addEventListener("click", () => {
    if (!paused && isAtEnd()) {
      paused = true;
    } else {
      paused = false;
      settleAtEnd();
    }
    show();
  });
  fresh.addEventListener("click", settleAtEnd);
  document.addEventListener("scroll", show, { capture: true, passive: true });
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (paused && event.detail.elt.id === "live-poll") event.preventDefault();
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target.id === "live-poll") wasAtEnd = isAtEnd();
  });
  document.addEventListener("htmx:afterSettle", () => {
    const came = list.children.length - seen;
    if (came <= 0) return;
    seen += came;
    if (wasAtEnd) {
      trim();
      settleAtEnd();
    } else {
      waiting += came;
      show();
    }
  });
}
