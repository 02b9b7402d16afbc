"use strict";
const children = bars.map(() => []);
const roots = [];
bars.forEach((bar, i) => (bar.parent === i ? roots : children[bar.parent]).push(i));
const chart = document.getElementById("chart");
const detail = document.getElementById("detail");
const search = document.getElementById("search");
const whole = bars.reduce((sum, bar, i) => sum + (bar.parent === i ? bar.total : 0), 0);
const number = (n) => n.toLocaleString("en-US");

function colour(name) {
  let hash = 0;
  for (const c of name) hash = (hash * 31 + c.codePointAt(0)) >>> 0;
  return `hsl(${20 + (hash % 40)} 80% ${62 + (hash >>> 8) % 14}%)`;
}

function show(from) {
  chart.textContent = "";
  const wanted = search.value.toLowerCase();
  const start = from === null ? roots : [from];
  const total = start.reduce((sum, i) => sum + bars[i].total, 0) || 1;
  let deepest = 0, found = 0;
  const waiting = [];
  let left = 0;
  for (const i of start) { waiting.push([i, left, 0]); left += bars[i].total; }
  while (waiting.length > 0) {
    const [i, x, depth] = waiting.pop();
    const bar = bars[i];
    const width = bar.total / total * 100;
    if (width < 0.05) continue;
    deepest = Math.max(deepest, depth);
    const element = document.createElement("div");
    element.className = "bar";
    element.dataset.bar = i;
    element.style.left = `${x / total * 100}%`;
    element.style.width = `${width}%`;
    element.style.top = `${depth * 18}px`;
    element.style.background = colour(bar.name);
    element.textContent = bar.name;
    element.title = describe(bar);
    if (wanted !== "" && bar.name.toLowerCase().includes(wanted)) {
      element.classList.add("found");
      found += 1;
    }
    element.addEventListener("click", () => { location.hash = `b${i}`; });
    element.addEventListener("mouseover", () => { detail.textContent = describe(bar); });
    chart.append(element);
    let at = x + bar.own;
    for (const child of children[i]) { waiting.push([child, at, depth + 1]); at += bars[child].total; }
  }
  chart.style.height = `${(deepest + 1) * 18}px`;
  document.getElementById("found").textContent = wanted === "" ? "" : `${found} found`;
}

function describe(bar) {
  const share = whole === 0 ? 0 : bar.total / whole * 100;
  return `${bar.name}: called ${number(bar.calls)} times, ${number(bar.total)} blocks ` +
    `(${share.toFixed(1)} %), ${number(bar.own)} of them its own`;
}

function follow() {
  const match = /^#b(\d+)$/.exec(location.hash);
  const chosen = match && Number(match[1]) < bars.length ? Number(match[1]) : null;
  show(chosen);
  detail.textContent = chosen === null ? `${number(whole)} blocks` : describe(bars[chosen]);
}

search.addEventListener("input", follow);
document.getElementById("back").addEventListener("click", () => { location.hash = ""; });
window.addEventListener("hashchange", follow);
follow();
