// While a run goes on, its page asks the server for newer pages.

const OFTEN = 2000; // milliseconds between two requests

/** The server's answer; null if the server has stopped. */
async function asked(address) {
  try {
    return await (await fetch(address)).json();
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return null;
  }
}

/** Asks for a page that is newer than this state, shows it, and asks again. */
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
