// Light or dark: as the system says, or as the reader chose.
import { get } from "./dom";

const themes = ["system", "light", "dark"] as const;
type Theme = (typeof themes)[number];
const signs: Record<Theme, string> = { system: "◐", light: "☀", dark: "☾" };
const words: Record<Theme, string> = { system: "as the system", light: "light", dark: "dark" };

// A browser may keep nothing for a page from a file.
function remembered(): Theme {
  try {
    const theme = localStorage.getItem("retrace-theme") as Theme;
    return themes.includes(theme) ? theme : "system";
  } catch {
    return "system";
  }
}

function remember(theme: Theme) {
  try {
    localStorage.setItem("retrace-theme", theme);
  } catch {
    // Then the next visit begins as the system says.
  }
}

export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// Calls `changed` whenever colours are others than before.
export function setUpTheme(changed: () => void) {
  const button = get<HTMLButtonElement>("theme");
  let theme = remembered();
  const show = () => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = signs[theme];
    button.title = `Colours: ${words[theme]}`;
    button.setAttribute("aria-label", button.title);
  };
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    remember(theme);
    show();
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  show();
}
