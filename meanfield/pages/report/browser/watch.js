// A page that is served while its run goes on asks for newer ones; and the button that copies commands.

const OFTEN = 2000; // milliseconds between two questions

/** Asks for the page after the one of a state, again and again, and hands each on. */
function watch({ address, state: first }, adopt) {
  if (!address) return;
  let known = first;
  const look = async () => {
    try {
      const { state } = await (await fetch("/state")).json();
      if (state !== known) {
        const page = await (await fetch(address)).json();
        byId("cards").innerHTML = page.cards;
        byId("title").textContent = document.title = page.title;
        byId("caption").textContent = page.scene.caption;
        await adopt(page);
      }
      known = state;
      byId("watched").textContent = "This page follows the run.";
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // the server has gone
      byId("watched").textContent = "The command that served this page has ended; what is here stays.";
    }
    setTimeout(look, OFTEN);
  };
  look();
}

byId("cards").addEventListener("click", (event) => {
  if (!event.target.classList.contains("copy")) return;
  const recipe = event.target.previousElementSibling;
  getSelection().selectAllChildren(recipe);
  if (navigator.clipboard) navigator.clipboard.writeText(recipe.textContent).catch(() => {});
  event.target.textContent = navigator.clipboard ? "Copied" : "Selected";
});
