// A page that is served while its run goes on asks for newer ones.

const OFTEN = 2000; // milliseconds between two questions

/** Asks whether there is a newer page than that of a state, takes it over, and asks again. */
async function watch(state) {
  let known = state;
  try {
    ({ state: known } = await (await fetch("/state")).json());
    if (known !== state) {
      const page = await (await fetch(told.address)).json();
      byId("cards").innerHTML = page.cards;
      byId("title").textContent = document.title = page.title;
      byId("caption").textContent = page.scene.caption;
      await adopt(page);
    }
    byId("watched").textContent = "This page follows the run.";
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // the server has gone
    byId("watched").textContent = "The command that served this page has ended; what is here stays.";
  }
  setTimeout(() => watch(known), OFTEN);
}

watch(told.state);
