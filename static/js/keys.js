// Keys: whatever carries data-key="x" is clicked by x. The list under ? is HTML, so it is true without this file.
// A page with its own key handling listens on document itself; this file only acts where nobody else did.

const isTyping = (target) => target.closest?.("input, textarea, select, [contenteditable]");

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (document.querySelector("dialog[open]")) return; // Esc closes it; nothing behind it reacts
  if (event.key === "s" && document.querySelector(".grid [data-square]")) {
    event.preventDefault();
    document.querySelector(".grid [data-square]").focus();
    return;
  }
  const bound = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (!bound) return;
  event.preventDefault();
  bound.click();
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
