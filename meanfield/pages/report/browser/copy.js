// The button that copies commands.

byId("cards").addEventListener("click", (event) => {
  if (!event.target.classList.contains("copy")) return;
  const recipe = event.target.previousElementSibling;
  getSelection().selectAllChildren(recipe);
  if (navigator.clipboard) navigator.clipboard.writeText(recipe.textContent).catch(() => {});
  event.target.textContent = navigator.clipboard ? "Copied" : "Selected";
});
