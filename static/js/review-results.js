// Pointing at a cause, or reaching it by Tab, shows its examples beside the list. Without this file those of the first stand there.

const causes = document.querySelector("[data-causes]");
const cards = [...document.querySelectorAll("[data-examples-of]")];

function show(event) {
  const cause = event.target.closest("[data-cause]")?.dataset.cause;
  if (!cause) return;
  for (const card of cards) card.hidden = card.dataset.examplesOf !== cause;
  for (const each of causes.querySelectorAll("[data-cause]")) each.classList.toggle("is-shown", each.dataset.cause === cause);
}

causes?.addEventListener("pointerover", show);
causes?.addEventListener("focusin", show);
causes?.querySelector("[data-cause]")?.classList.add("is-shown");

// A link into the table of every cause opens the fold it lies in.
function unfold() {
  const target = location.hash.startsWith("#code-") && document.getElementById(location.hash.slice(1));
  const fold = target && target.closest("details");
  if (!fold) return;
  fold.open = true;
  target.scrollIntoView({ block: "center" });
}

// The sheet to share with leaves by Esc and by a click elsewhere, as sheets of other pages do.
const sheet = document.querySelector("details.share");

function closeSheet(event) {
  if (!sheet?.open || (event.type === "keydown" ? event.key !== "Escape" : sheet.contains(event.target))) return;
  sheet.open = false;
  if (event.type === "keydown") sheet.querySelector("summary").focus();
}

document.addEventListener("keydown", closeSheet);
document.addEventListener("click", closeSheet);

addEventListener("hashchange", unfold);
unfold();
