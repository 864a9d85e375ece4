// Names of tokens: numbers and words in sentences; on the stage, words where there is room.

const FEW = 80; // largest number of tokens for which all words are tried
const LONGEST = 18; // largest number of letters of a word on the stage

/** The name of a token in a sentence: its number in the run, and its word if it has one. */
function tokenName(token) {
  const number = flow.scene.tokens ? flow.scene.tokens[token] : token;
  return flow.scene.words ? `${number} “${flow.scene.words[token]}”` : String(number);
}

/** Tokens in the order in which words are placed: the chosen one, those that it attends to, and the others if they are few. */
function namedFirst(count) {
  const chosen = stage.token < 0 ? [] : [stage.token, ...(looks()?.partners ?? [])];
  const others = count > FEW ? [] : Array.from({ length: count }, (_, i) => i);
  return [...new Set([...chosen, ...others])].filter((token) => token < count);
}

/** Writes words beside their tokens, except words that would cover others or leave the stage. */
function paintWords(pen, width, height) {
  const layer = tokenLayer();
  const { words } = flow.scene;
  stage.labels = [];
  if (!layer || !words) return;
  const screen = stage.screens.get(layer);
  pen.textAlign = "left";
  const named = namedFirst(words.length);
  const dots = named.map((token) => [screen[token], screen[words.length + token]]);
  named.forEach((token, i) => {
    const word = words[token].length > LONGEST ? `${words[token].slice(0, LONGEST - 1)}…` : words[token];
    const box = roomFor(dots[i], pen.measureText(word).width, [width, height], dots);
    if (!box) return;
    stage.labels.push({ ...box, token });
    haloed(pen, palette, word, [box.x, box.y + box.tall / 2], token === stage.token ? palette.focus : palette.ink);
  });
}

/** The first free place of a word around its dot, to the right, left, above or below; preferably one that covers no dot. */
function roomFor([x, y], wide, [width, height], dots) {
  const tall = 15;
  const places = [[7, -tall], [-7 - wide, -tall], [7, 0], [-7 - wide, 0]];
  const boxes = places.map(([right, down]) => ({ x: x + right, y: y + down, wide, tall }));
  const inside = (box) => box.x >= 2 && box.y >= 2 && box.x + wide <= width - 2 && box.y + tall <= height - 2;
  const free = boxes.filter((box) => inside(box) && !stage.labels.some((other) => overlap(box, other)));
  return free.find((box) => !dots.some(([a, b]) => overlap(box, { x: a - 4, y: b - 4, wide: 8, tall: 8 }))) ?? free[0];
}

/** Whether two boxes overlap, or are closer to each other than letters. */
function overlap(a, b) {
  return a.x < b.x + b.wide + 3 && b.x < a.x + a.wide + 3 && a.y < b.y + b.tall && b.y < a.y + a.tall;
}
