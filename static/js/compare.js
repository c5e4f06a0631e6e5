// A choice of many applies once its list is closed, a choice of one at once; without this file the button does. The link is
// copied as well as followed.

const form = document.querySelector("[data-choose]");
const changed = new Set(); // lists with a choice that is not shown yet

form?.addEventListener("change", (event) => {
  if (event.target.matches("input[type=date]") && !event.target.checkValidity()) return;
  const list = event.target.closest("details");
  if (list) changed.add(list);
  else form.requestSubmit();
});

form?.addEventListener("toggle", (event) => {
  const list = event.target;
  if (!list.open && changed.has(list)) form.requestSubmit();
  if (list.open) form.querySelectorAll("details[open]").forEach((other) => { if (other !== list) other.open = false; });
}, true);

// A list or a menu closes when something else is meant.
document.addEventListener("click", (event) => {
  document.querySelectorAll("details.menu[open], .scope details[open]").forEach((open) => {
    if (!open.contains(event.target)) open.open = false;
  });
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const open = event.target.closest?.("details.menu[open], .scope details[open]");
  if (!open) return;
  open.open = false;
  open.querySelector("summary").focus();
});

// Empty fields would only make the address longer.
for (const each of document.querySelectorAll("[data-choose], [data-sides]")) each.addEventListener("formdata", (event) => {
  for (const [name, value] of [...event.formData.entries()]) {
    if (value === "" && !name.startsWith("author_")) event.formData.delete(name);
  }
});

document.addEventListener("click", async (event) => {
  const link = event.target.closest("[data-copies]");
  if (!link || !navigator.clipboard || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  await navigator.clipboard.writeText(link.href);
  const said = link.firstChild.textContent;
  link.firstChild.textContent = "Copied";
  setTimeout(() => { link.firstChild.textContent = said; }, 1500);
});
