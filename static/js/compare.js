// A choice of many applies once its list is closed, a choice of one at once; without this file the button does.

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

// Empty fields would only make the address longer.
for (const each of document.querySelectorAll("[data-choose], [data-sides]")) each.addEventListener("formdata", (event) => {
  for (const [name, value] of [...event.formData.entries()]) {
    if (value === "" && !name.startsWith("author_")) event.formData.delete(name);
  }
});

// Runs are compared once two sides have some.
const sides = document.querySelector("[data-sides]");
const follow = () => {
  const ticked = new Set([...new FormData(sides).keys()].filter((name) => /^[a-d]$/.test(name)));
  sides.querySelector("[data-compares]").disabled = ticked.size < 2;
  sides.querySelector("[data-needs]").hidden = ticked.size >= 2;
};
if (sides) {
  sides.addEventListener("change", follow);
  follow();
}
