// Runs before the first paint, so that a chosen theme does not flash.
try {
  const theme = JSON.parse(localStorage.getItem("orrery.theme"));
  if (theme) document.documentElement.dataset.theme = theme;
} catch {
  // The system's theme then holds.
}
