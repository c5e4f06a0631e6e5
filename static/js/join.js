// The code of an invitation stands behind the # of its address, where no server sees it. Move it into the form, and out of the history.

const code = document.querySelector("#id_code");
if (location.hash.length > 1) {
  code.value = decodeURIComponent(location.hash.slice(1));
  code.closest("div").hidden = true; // nothing to type: the link brought it
  history.replaceState(null, "", location.pathname + location.search);
}
const first = [...document.querySelectorAll(".door input:not([type=hidden])")].find((field) => !field.value);
first?.focus();
