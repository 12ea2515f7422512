// Before the first paint: the theme that the person chose, if any.
try {
  const theme = localStorage.getItem("lazurite-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  // Likewise a closed tree of resources.
  if (localStorage.getItem("lazurite-tree") === "closed") document.documentElement.dataset.tree = "closed";
} catch {
  // Storage may be off; the theme of the system it is.
}
