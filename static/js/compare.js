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

// Runs are compared once two sides have some; each side says what it holds.
const sides = document.querySelector("[data-sides]");
const follow = () => {
  let filled = 0;
  for (const holds of sides.querySelectorAll("[data-holds]")) {
    const ticked = [...sides.querySelectorAll(`input[type=checkbox][name=${holds.dataset.holds}]:checked`)];
    const unlisted = sides.querySelectorAll(`input[type=hidden][name=${holds.dataset.holds}]`).length;
    const counts = new Map();
    for (const { dataset: { says } } of ticked) counts.set(says, (counts.get(says) ?? 0) + 1);
    const words = [...counts].map(([says, count]) => (count > 1 ? `${count} × ${says}` : says));
    if (unlisted) words.push(`${unlisted} not in this list`);
    holds.textContent = words.join("; ") || holds.dataset.empty;
    holds.toggleAttribute("data-filled", words.length > 0);
    filled += words.length > 0;
  }
  sides.querySelector("[data-compares]").disabled = filled < 2;
};
if (sides) {
  for (const all of sides.querySelectorAll("[data-all]")) {
    const each = all.closest("tbody").querySelectorAll(`[name=${all.dataset.all}]`);
    all.checked = [...each].every((box) => box.checked);
    all.closest("label").hidden = false;
    all.addEventListener("change", () => each.forEach((box) => { box.checked = all.checked; }));
  }
  sides.addEventListener("change", follow);
  follow();
}
