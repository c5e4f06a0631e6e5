// The keys of every page: inspector/web/navigation.py says what each means. Whatever carries data-key="x" is pressed by x, and
// data-key="g x" by g, then x. A page with keys of its own listens on document; this file acts where nobody else did.

const PATIENCE = 1500; // milliseconds in which g waits for its second key
let waits = 0; // since when it waits
let isAgain = false; // g g

const isTyping = (target) => target.closest?.("input, textarea, select, [contenteditable]");

function isForUs(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return false;
  return !document.querySelector("dialog[open]"); // Esc closes it; nothing behind it reacts
}

// Of the grid its first square takes the focus; all else is clicked.
function press(key) {
  const bound = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (bound?.matches("table")) (bound.querySelector("[data-square]") ?? bound).focus();
  else bound?.click();
  return Boolean(bound);
}

// The key after g is ours before any page sees it: g e is no e. Only g g is left to the page, which may know its first row.
addEventListener(
  "keydown",
  (event) => {
    if (event.key === "Shift") return;
    const isSecond = waits && event.timeStamp - waits < PATIENCE && isForUs(event);
    waits = 0;
    isAgain = isSecond && event.key === "g";
    if (!isSecond || isAgain || event.key.length > 1) return;
    press(`g ${event.key}`);
    event.preventDefault();
    event.stopImmediatePropagation();
  },
  true,
);

document.addEventListener("keydown", (event) => {
  const isOnControl = event.key === "Enter" && event.target.closest?.("a, button, summary"); // Enter presses that
  if (!isForUs(event) || isOnControl) return;
  if (event.key === "G" || isAgain) scrollTo({ top: isAgain ? 0 : document.documentElement.scrollHeight });
  else if (event.key === "g") waits = event.timeStamp;
  else if (press(event.key)) event.preventDefault();
});

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-opens]");
  if (opener) document.getElementById(opener.dataset.opens)?.showModal();
  if (event.target.matches?.("dialog[open]")) event.target.close(); // a click on the backdrop
});

// The grid of trials is walked with arrow keys: to the nearest square in that direction of the table.
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

function neighbour(square, [down, right]) {
  const rows = [...square.closest("table").rows].filter((row) => row.querySelector("[data-square]"));
  const cell = square.closest("td");
  let row = rows.indexOf(cell.parentElement);
  let column = cell.cellIndex;
  const place = [...cell.querySelectorAll("[data-square]")].indexOf(square);
  if (right) {
    const beside = cell.querySelectorAll("[data-square]")[place + right];
    if (beside) return beside;
  }
  for (;;) {
    row += down;
    column += right;
    const next = rows[row]?.cells[column];
    if (!next) return null;
    const squares = next.querySelectorAll("[data-square]");
    if (squares.length) return right < 0 ? squares[squares.length - 1] : squares[Math.min(place, squares.length - 1)];
  }
}

document.addEventListener("keydown", (event) => {
  const direction = STEPS[event.key];
  if (!direction || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  const square = event.target.closest?.("[data-square]");
  if (!square) return;
  const next = neighbour(square, direction);
  event.preventDefault();
  next?.focus();
});
