// Small helpers over the DOM. Nothing here or elsewhere turns text into markup: the policy that the
// page is served with forbids it, and what a model writes only ever becomes text nodes.

// h("a", {class: "x", href: "...", onclick: f}, "text", node, null)
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Strokes on a grid of 24 x 24.
const ICONS = {
  plus: "M12 5v14M5 12h14",
  menu: "M4 7h16M4 12h16M4 17h10",
  sliders: "M4 7.5h8M16 7.5h4M14 5.5a2 2 0 1 0 0 4 2 2 0 0 0 0-4z" +
    "M4 16.5h4M12 16.5h8M10 14.5a2 2 0 1 0 0 4 2 2 0 0 0 0-4z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2" +
    "M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M18.7 5.3l-1.4 1.4M6.7 17.3l-1.4 1.4",
  moon: "M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10z",
  screen: "M4 5h16v11.5H4zM9 20h6M12 16.5V20",
  send: "M12 19V6M6 11.5 12 5.5l6 6",
  stop: "M7 7h10v10H7z",
  copy: "M9 9h10v11H9zM15 9V4H5v11h4",
  check: "M5 12.5l4.5 4.5L19 7.5",
  redo: "M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4",
  pencil: "M5 19l.8-4L16 4.8l3.2 3.2L9 18.2zM14 7l3 3",
  left: "M14 7l-5 5 5 5",
  right: "M10 7l5 5-5 5",
  down: "M12 5v13M6 12.5l6 6 6-6",
  trash: "M5 7h14M10 7V4.5h4V7M7 7l.8 12.5h8.4L17 7",
  save: "M12 4v11M7.5 11l4.5 4.5 4.5-4.5M5 20h14",
  close: "M6 6l12 12M18 6L6 18",
};

export function icon(name) {
  return svg("svg", {class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true"},
    svg("path", {d: ICONS[name]}));
}

// A button that shows an icon alone; its name is also its tooltip.
export function iconButton(name, label, onclick, extra = "") {
  return h("button", {class: `bare ${extra}`, "aria-label": label, title: label, onclick},
    icon(name));
}

export function setIcon(button, name, label) {
  button.replaceChildren(icon(name));
  button.title = label;
  button.setAttribute("aria-label", label);
}

// A line at the bottom that goes by itself, with at most one action.
export function toast(text, action, onaction) {
  const line = h("div", {class: "toast"}, h("span", {}, text));
  if (action) {
    line.append(h("button", {onclick: () => { line.remove(); onaction(); }}, action));
  }
  document.getElementById("toasts").append(line);
  setTimeout(() => line.remove(), 7000);
}

// Browsers offer the clipboard only to pages of this machine or over TLS; others copy a selection.
export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = h("textarea", {class: "offscreen"});
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  if (!copied) throw new Error("the browser did not copy");
}

export function copyButton(text, label) {
  const button = iconButton("copy", label, async () => {
    try {
      await copyText(text());
      setIcon(button, "check", "Copied");
    } catch {
      toast("The browser did not allow copying.");
    }
    setTimeout(() => setIcon(button, "copy", label), 1500);
  });
  return button;
}

export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], {type}));
  h("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}
