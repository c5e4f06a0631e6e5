// The choices apply themselves; without this file the button does. The permalink is copied as well as followed.

const form = document.querySelector("[data-choose]");

form?.addEventListener("change", (event) => {
  if (event.target.matches("input[type=date]") && !event.target.checkValidity()) return;
  form.requestSubmit();
});

// Empty fields would only make the address longer.
form?.addEventListener("formdata", (event) => {
  for (const [name, value] of [...event.formData.entries()]) {
    if (value === "" && name !== "author_model") event.formData.delete(name);
  }
});

document.addEventListener("click", async (event) => {
  const link = event.target.closest("[data-copies]");
  if (!link || !navigator.clipboard || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  await navigator.clipboard.writeText(link.href);
  const said = link.textContent;
  link.textContent = "Copied";
  setTimeout(() => { link.textContent = said; }, 1500);
});
