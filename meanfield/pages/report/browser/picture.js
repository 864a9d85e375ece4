// The current picture as a PNG, with all stages, the title, the time and a description of the run.

function pictureOf() {
  const ratio = stage.above.width / stage.above.clientWidth;
  const frame = byId("panes").getBoundingClientRect();
  const [width, height] = [frame.width, frame.height].map((size) => Math.round(size * ratio));
  const foot = Math.round(58 * ratio);
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height + foot];
  const pen = canvas.getContext("2d");
  pen.fillStyle = palette.paper;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  const family = getComputedStyle(document.body).fontFamily;
  pen.font = `${Math.round(15 * ratio)}px ${family}`;
  eachPane(({ figure }) => {
    const box = stage.above.getBoundingClientRect();
    const corner = [box.left - frame.left, box.top - frame.top].map((x) => x * ratio);
    pen.drawImage(stage.below, ...corner);
    pen.drawImage(stage.above, ...corner);
    pen.fillStyle = css(category(flow.member));
    pen.fillText(figure.querySelector("figcaption").textContent, corner[0] + 10 * ratio, corner[1] - 8 * ratio);
  });
  pen.fillStyle = palette.ink;
  pen.fillText(`${flow.scene.title}, ${byId("clock").textContent}`, 10 * ratio, height + 22 * ratio, canvas.width - 20 * ratio);
  pen.fillStyle = palette.soft;
  pen.font = `${Math.round(12 * ratio)}px ${family}`;
  pen.fillText(flow.scene.caption, 10 * ratio, height + 44 * ratio, canvas.width - 20 * ratio);
  return canvas;
}

function savePicture() {
  download(pictureOf(), `t-${timeAt(flow.place).toPrecision(4)}.png`);
}
