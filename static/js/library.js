// The library page: n and p walk the changed lines, and a line somebody links to is shown even when it is folded.

const changed = () =>
  [...document.querySelectorAll(".diff tr.add, .diff tr.del, .diff.split tr:has(.add, .del), .diff tr.single")].filter((row) => {
    const before = row.previousElementSibling;
    return !before?.matches(".add, .del, .single, tr:has(> .add, > .del)");
  });

let place = -1;

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.("input, textarea, select") || document.querySelector("dialog[open]")) return;
  if (event.key !== "n" && event.key !== "p") return;
  const rows = changed();
  if (!rows.length) return;
  event.preventDefault();
  place = Math.min(rows.length - 1, Math.max(0, place + (event.key === "n" ? 1 : -1)));
  document.querySelector(".diff tr.at")?.classList.remove("at");
  rows[place].classList.add("at");
  rows[place].scrollIntoView({ block: "center" });
});

function openTarget() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  const fold = target?.closest?.("details:not([open])");
  if (!fold) return;
  fold.open = true;
  target.scrollIntoView({ block: "center" });
}

addEventListener("hashchange", openTarget);
openTarget();
document.addEventListener("htmx:afterSettle", () => {
  place = -1;
  openTarget();
});
