// Light or dark: a cookie for the server, which prints the attribute on the next page, and the attribute for this one.
document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-theme-switch]")) return;
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const theme = (root.dataset.theme || system) === "dark" ? "light" : "dark";
  root.dataset.theme = theme;
  document.cookie = `theme=${theme}; path=/; max-age=31536000; samesite=lax`;
  document.dispatchEvent(new CustomEvent("themechange", { detail: theme }));
});
