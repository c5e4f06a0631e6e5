// Menus of every page: one closes when something else is meant. What carries data-copies is copied: the address of a link, the
// text of the element that a button names.

const OPEN = "details.menu[open], .scope details[open]";

document.addEventListener("click", (event) => {
  document.querySelectorAll(OPEN).forEach((open) => {
    if (!open.contains(event.target)) open.open = false;
  });
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const open = event.target.closest?.(OPEN);
  if (!open) return;
  open.open = false;
  open.querySelector("summary").focus();
});

document.addEventListener("click", async (event) => {
  const copier = event.target.closest("[data-copies]");
  if (!copier || !navigator.clipboard || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  await navigator.clipboard.writeText(copier.href ?? document.getElementById(copier.dataset.copies).textContent);
  const words = copier.firstChild.textContent;
  copier.firstChild.textContent = "Copied";
  setTimeout(() => { copier.firstChild.textContent = words; }, 1500);
});
