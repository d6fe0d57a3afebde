/* Dark, light, or as the system: runs before the first paint, so it is a plain script. */
(function () {
  "use strict";
  const key = "onbeat.theme";
  const order = ["system", "dark", "light"];
  /** @type {Record<string, string>} */
  const words = { system: "as the system", dark: "dark", light: "light" };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;

  function chosen() {
    try {
      const kept = localStorage.getItem(key) ?? "system";
      return order.includes(kept) ? kept : "system";
    } catch {
      return "system"; // storage may be forbidden; the system's choice always works
    }
  }

  let choice = chosen();

  function show() {
    root.dataset.theme = choice === "system" ? (dark.matches ? "dark" : "light") : choice;
    document.getElementById("theme")?.setAttribute("aria-label", `Colours: ${words[choice]}`);
    dispatchEvent(new Event("themechange"));
  }

  function next() {
    choice = order[(order.indexOf(choice) + 1) % order.length];
    try {
      localStorage.setItem(key, choice);
    } catch {
      // kept for this page only
    }
    show();
  }

  dark.addEventListener("change", show);
  addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme")?.addEventListener("click", next);
    show();
  });
  show();
})();
