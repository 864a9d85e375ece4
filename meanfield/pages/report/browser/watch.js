// A page that is served while its run goes on asks for newer ones.

const OFTEN = 2000; // milliseconds between two questions

/** What the server answers; nothing once it has gone. */
async function asked(address) {
  try {
    return await (await fetch(address)).json();
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return null;
  }
}

/** Asks whether there is a newer page than that of a state, takes it over, and asks again. */
async function watch(state) {
  const newest = await asked("/state");
  const page = newest && newest.state !== state ? await asked(told.address) : null;
  if (page) {
    byId("cards").innerHTML = page.cards;
    byId("title").textContent = document.title = page.title;
    byId("caption").textContent = page.scene.caption;
    await adopt(page);
  }
  byId("watched").textContent = newest
    ? "This page follows the run." : "The command that served this page has ended; what is here stays.";
  setTimeout(() => watch(page ? page.state : state), OFTEN);
}

watch(told.state);
