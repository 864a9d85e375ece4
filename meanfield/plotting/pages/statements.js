// Filters of the page of statements; without a filter all statements are shown.

const articles = [...document.querySelectorAll("article")];
const entries = [...document.querySelectorAll("nav li")]; // in the order of the articles
const buttons = [...document.querySelectorAll("#tools button")];
const words = document.getElementById("words");
const texts = new Map(); // texts of the articles, filled at the first search
let kind = "";

function textOf(article) {
  if (!texts.has(article)) {
    const formulas = [...article.querySelectorAll("math")].map((math) => math.getAttribute("alttext"));
    texts.set(article, [article.textContent, article.id, ...formulas].join(" ").toLowerCase());
  }
  return texts.get(article);
}

function update() {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  articles.forEach((article, place) => {
    const fits = !kind || article.dataset.kinds.split(" ").includes(kind);
    const shown = fits && wanted.every((word) => textOf(article).includes(word));
    article.hidden = entries[place].hidden = !shown;
    count += shown;
  });
  for (const group of document.querySelectorAll("main section.group, main section.paper")) {
    group.hidden = !group.querySelector("article:not([hidden])");
  }
  for (const group of document.querySelectorAll("nav details, nav section")) {
    group.hidden = !group.querySelector("li:not([hidden])");
  }
  for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.kind === kind));
  document.getElementById("shown").textContent = `${count} of ${articles.length} shown`;
}

for (const button of buttons) {
  button.addEventListener("click", () => {
    kind = button.dataset.kind;
    update();
  });
}
words.addEventListener("input", update);

// Following a link to a hidden statement shows all statements again.
addEventListener("hashchange", () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target || !target.closest("[hidden]")) return;
  kind = words.value = "";
  update();
  target.scrollIntoView();
});

addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});

if (matchMedia("(max-width: 60rem)").matches) {
  for (const details of document.querySelectorAll("nav details")) details.open = false;
}
document.getElementById("tools").hidden = false;
update();
