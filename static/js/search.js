// On the search page, j and k walk the hits.

const facets = document.querySelector("details.facets");
if (facets && matchMedia("(max-width: 760px)").matches) facets.open = false;

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.("input, textarea, select, [contenteditable]") || document.querySelector("dialog[open]")) return;
  if (event.key !== "j" && event.key !== "k") return;
  const hits = [...document.querySelectorAll("[data-hit]")];
  const at = hits.indexOf(document.activeElement);
  const next = hits[at < 0 ? 0 : at + (event.key === "j" ? 1 : -1)];
  if (!next) return;
  event.preventDefault();
  next.focus();
  next.scrollIntoView({ block: "nearest" });
});
