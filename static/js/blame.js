// Blame: j and k walk the changes, and a card beside the gutter tells about the one under the pointer or the focus.

const links = [...document.querySelectorAll(".blame [data-card]")];
const pane = document.querySelector(".blame-pane");
let open = null;

function show(link) {
  if (open) open.hidden = true;
  open = link && document.getElementById(link.dataset.card);
  if (!open) return;
  open.hidden = false;
  const top = link.getBoundingClientRect().bottom - pane.getBoundingClientRect().top + 4;
  const room = innerHeight - pane.getBoundingClientRect().top - open.offsetHeight - 8;
  open.style.top = `${Math.max(0, Math.min(top, room))}px`;
}

pane?.addEventListener("mouseover", (event) => show(event.target.closest(".who")?.querySelector("a") ?? null));
pane?.addEventListener("mouseleave", () => show(null));
pane?.addEventListener("focusin", (event) => show(event.target.closest("[data-card]")));
pane?.addEventListener("focusout", () => show(null));

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !links.length) return;
  if (event.target.closest?.("input, textarea, select") || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") show(null);
  if (event.key !== "j" && event.key !== "k") return;
  event.preventDefault();
  const chosen = document.querySelector(".blame .chosen [data-card]");
  const at = links.indexOf(document.activeElement) >= 0 ? links.indexOf(document.activeElement) : links.indexOf(chosen);
  const next = links[Math.min(links.length - 1, Math.max(0, at + (event.key === "j" ? 1 : -1)))];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
});
