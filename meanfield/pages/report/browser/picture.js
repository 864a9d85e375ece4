// The current picture as a PNG, with the stage, the title, the time and a description of the run.

function pictureOf() {
  const ratio = stage.above.width / stage.above.clientWidth;
  const foot = Math.round(58 * ratio);
  const canvas = document.createElement("canvas");
  canvas.width = stage.above.width;
  canvas.height = stage.above.height + foot;
  const pen = canvas.getContext("2d");
  pen.fillStyle = palette.paper;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(stage.below, 0, 0);
  pen.drawImage(stage.above, 0, 0);
  pen.fillStyle = palette.ink;
  const family = getComputedStyle(document.body).fontFamily;
  pen.font = `${Math.round(15 * ratio)}px ${family}`;
  pen.fillText(`${flow.scene.title}, ${byId("clock").textContent}`, 10 * ratio, stage.above.height + 22 * ratio, canvas.width - 20 * ratio);
  pen.fillStyle = palette.soft;
  pen.font = `${Math.round(12 * ratio)}px ${family}`;
  pen.fillText(flow.scene.caption, 10 * ratio, stage.above.height + 44 * ratio, canvas.width - 20 * ratio);
  return canvas;
}

function savePicture() {
  download(pictureOf(), `t-${timeAt(flow.place).toPrecision(4)}.png`);
}
