// Elements by name, and made from text. Texts from a tape only ever become text nodes.

export function get<T extends HTMLElement = HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

type Content = string | Node;

export function make(tag: string, options: { class?: string; title?: string } = {}, ...content: Content[]): HTMLElement {
  const element = document.createElement(tag);
  if (options.class) element.className = options.class;
  if (options.title) element.title = options.title;
  element.append(...content);
  return element;
}

export function definition(term: string, value: string, note = ""): HTMLElement {
  const dd = make("dd", {}, value);
  if (note) dd.append(" ", make("small", {}, note));
  return make("div", {}, make("dt", {}, term), dd);
}

// Buttons of which one is chosen, as one stop of the tab order; arrow keys go from one to the next.
export function radioGroup(parent: HTMLElement, labels: string[], choose: (index: number) => void): (index: number) => void {
  const buttons = labels.map((label, index) => {
    const button = make("button", {}, label) as HTMLButtonElement;
    button.type = "button";
    button.setAttribute("role", "radio");
    button.addEventListener("click", () => choose(index));
    button.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      const next = (index + by + labels.length) % labels.length;
      choose(next);
      buttons[next].focus();
    });
    return button;
  });
  parent.replaceChildren(...buttons);
  return (chosen) => {
    buttons.forEach((button, index) => {
      button.setAttribute("aria-checked", String(index === chosen));
      button.tabIndex = index === chosen ? 0 : -1;
    });
    // On a phone they stand in one line that scrolls.
    const button = buttons[chosen];
    if (button) parent.scrollLeft = button.offsetLeft - parent.offsetLeft - (parent.clientWidth - button.offsetWidth) / 2;
  };
}
